/* What the files of stack snapshots share. */
#ifndef TRACER_STACK_INTERNAL_H
#define TRACER_STACK_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/stack/hang.h"

/* op_args.c: a lower bound on how long a thread has been in a function. A hardware breakpoint
 * counts entries of the function from some moment on; if the thread is in it later and the count is
 * 0, it has been in it since then. Neither changes nor stops the process (perf_event_open(2),
 * PERF_TYPE_BREAKPOINT). The processor has four such breakpoints. */

enum { OP_WATCH_THREADS = 64 };

/* Zero-initialise; free with op_watch_free. */
struct op_watch {
	struct op_watched {
		pid_t tid; /* 0: unused */
		int fd;
		uint64_t entry, since_ns;
	} at[OP_WATCH_THREADS];
	unsigned n;
};

/* Thread `tid` was in the function with entry address `entry` at `now_ns` (CLOCK_MONOTONIC).
 * Returns for how long at least, in ns, 0 if that is not known yet, and watches it from now on. */
uint64_t op_watch_in(struct op_watch *w, pid_t tid, uint64_t entry, uint64_t now_ns);

void op_watch_free(struct op_watch *w);

/* stack_copy.c: access to a process, and copies of stacks. */

/* Whether the memory of `pid` can be read: 0, or -errno with *e and a hint: -ESRCH, -EPERM (another
 * user's, Yama). */
int stack_access(pid_t pid, struct err *e);

/* Whether the process is being traced, so that its threads cannot be stopped: 0 if not, else -EBUSY
 * with *e naming the tracer. */
int stack_tracer(pid_t pid, struct err *e);

/* A copy of a thread's stack, to be unwound after the thread has resumed. */

enum { STACK_COPY_MOST = 1 << 20 };

struct stack_copy {
	struct mem_copy of;
	uint8_t *room; /* STACK_COPY_MOST bytes, for of.bytes */
};

/* 0 or -ENOMEM. */
int stack_copy_init(struct stack_copy *c);
void stack_copy_free(struct stack_copy *c);

/* Copy from the red zone below `sp` up to the end of the mapping, or as much as fits. 0 or -errno:
 * -EFAULT when `sp` is in no mapping of `maps`. */
int stack_copy_take(struct stack_copy *c, const struct maps *maps, const struct mem *from,
		    uint64_t sp);

/* hang_stuck.c: collectives that ranks wait in. */

enum hang_part {
	PART_CALLS,  /* it has called the collective, which is not done */
	PART_BEHIND, /* it has not called it */
	PART_PAST,   /* it is done with it */
	PART_GONE,   /* its process has ended */
	PART_UNSEEN, /* its process was not looked at */
	PART_OUTSIDE /* not of the group */
};

/* A collective that ranks wait in. */
struct hang_stuck {
	const struct hang_group *group; /* as one of the ranks knows it */
	uint64_t number;
	bool has_calls; /* else only counts differ */
	bool told;
};

struct hang {
	const struct hang_rank *ranks;
	size_t n;
	struct hang_stuck *stuck;
	size_t nstuck;
	FILE *out;
	bool any; /* something is said */
};

/* Of a group: the first collective that a rank waits in; where calls are not known, that which not
 * all have called. Added to h->stuck, which has room. */
void hang_find_stuck(struct hang *h, const struct hang_group *g);

/* The group as the rank knows it; NULL: it does not. */
const struct hang_group *hang_group_of(const struct hang_rank *r, const struct hang_group *g);

/* The call of a rank that is the collective; NULL: none. */
const struct hang_call *hang_call_of(const struct hang_rank *r, const struct hang_stuck *s);

enum hang_part hang_part_of(const struct hang_rank *r, const struct hang_stuck *s);

/* The group in which a rank waits in a call; NULL: none, or which of several is not known. */
const struct hang_group *hang_waits_in(const struct hang_rank *r);

/* Whether they match, as far as they are known. */
bool hang_same_call(const struct hang_call *a, const struct hang_call *b);

/* Two calls that do not match; false: all do. */
bool hang_differs(const struct hang *h, const struct hang_stuck *s, const struct hang_call **a,
		  const struct hang_call **b);

/* The collective that the rank waits in; NULL: none. */
struct hang_stuck *hang_stuck_of(const struct hang *h, const struct hang_rank *r);

/* The first rank that rank `i` waits for, and that itself waits in a collective; h->n: none. */
size_t hang_waits_for(const struct hang *h, size_t i);

/* Whether a rank that others wait for waits for none, or calls differ: it is the cause. */
bool hang_has_cause(const struct hang *h, const struct hang_stuck *s);

/* wait_reason.c: system calls in which a thread may wait. */

/* What a wait in it is for. */
enum syscall_kind {
	SYSCALL_OTHER,
	SYSCALL_FUTEX,
	SYSCALL_SLEEP,
	SYSCALL_POLL,	 /* waits until files are ready */
	SYSCALL_IO,	 /* its first argument is a file descriptor */
	SYSCALL_CHILD,	 /* waits for a child */
	SYSCALL_SIGNAL,	 /* waits for a signal */
	SYSCALL_RESTART, /* resumes an interrupted wait of unknown kind */
};

/* The name and kind of system call `nr` on this machine; NULL: not in the list. */
const char *syscall_name(long nr, enum syscall_kind *kind);

#endif
