/* What the files of this folder share. */
#ifndef TRACER_STACK_INTERNAL_H
#define TRACER_STACK_INTERNAL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/mem.h"

/* For how long a thread has been in a function at least: a breakpoint of the processor counts its
 * entries from some moment on, and a thread that is in it later without one has been since then.
 * Nothing of the process is changed, and it is not stopped (perf_event_open(2),
 * PERF_TYPE_BREAKPOINT); the processor has four of them. */

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

/* Thread `tid` is in the function that begins at address `entry`, and was at `now_ns`
 * (CLOCK_MONOTONIC). For how long it has been at least, in ns; 0: that is not known (yet). It is
 * watched from now on. */
uint64_t op_watch_in(struct op_watch *w, pid_t tid, uint64_t entry, uint64_t now_ns);

void op_watch_free(struct op_watch *w);

/* Whether a process may be looked at, and what to do if not. */

/* 0 when the memory of `pid` can be read; else -errno with *e and a hint: -ESRCH, -EPERM (another
 * user's, Yama). */
int stack_access(pid_t pid, struct err *e);

/* Whether somebody traces it, so that its threads cannot be held: 0: nobody; else -EBUSY with *e
 * naming it. */
int stack_tracer(pid_t pid, struct err *e);

/* A copy of the stack of a thread, to be unwound after the thread has gone on. */

enum { STACK_COPY_MOST = 1 << 20 };

/* `mem` reads what was copied, at its address in the process, and nothing else. */
struct stack_copy {
	struct mem mem; /* first */
	uint64_t start;
	size_t len;
	uint8_t *bytes; /* of STACK_COPY_MOST */
};

/* 0 or -ENOMEM. */
int stack_copy_init(struct stack_copy *c);
void stack_copy_free(struct stack_copy *c);

/* Copy from `sp`, the red zone below it included, to the end of its mapping, or as much as there is
 * room for. 0 or -errno: -EFAULT when `sp` is in no mapping of `maps`. */
int stack_copy_take(struct stack_copy *c, const struct maps *maps, const struct mem *from,
		    uint64_t sp);

/* Names of the system calls in which a thread may wait. */

/* What a wait in it is for. */
enum syscall_kind {
	SYSCALL_OTHER,
	SYSCALL_FUTEX,
	SYSCALL_SLEEP,
	SYSCALL_POLL,	 /* waits until files are ready */
	SYSCALL_IO,	 /* its first argument is a file descriptor */
	SYSCALL_CHILD,	 /* waits for a child */
	SYSCALL_SIGNAL,	 /* waits for a signal */
	SYSCALL_RESTART, /* goes on with a wait that was interrupted, of which nothing is known */
};

/* The name of system call `nr` of this machine, with its kind; NULL: it is not in the list. */
const char *syscall_name(long nr, enum syscall_kind *kind);

#endif
