/* Inside of the tracing process of the engine ptrace: the threads and processes that it traces, and
 * the steps of its work, each in a file of its own. */
#ifndef TRACER_ENGINE_PTRACE_TRACEES_H
#define TRACER_ENGINE_PTRACE_TRACEES_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>
#include <time.h>

#include "tracer/engine/hit_buf.h"
#include "tracer/engine/ptrace/breakpoints.h"
#include "tracer/engine/ptrace/ptrace_share.h"
#include "tracer/engine/remote.h"
#include "tracer/engine/shadow_stack.h"

enum { TRACEE_SLOTS = 1024 };
#define TRACER_NAME "ditrace-tracer"

struct tracee_process {
	struct tracee_process *next;
	pid_t pid;
	struct breakpoints *space;
	unsigned threads;
	bool told;   /* that it has the libraries that are looked for */
	bool probed; /* some of its breakpoints are of use to ditrace */
};

struct tracee {
	struct tracee *next;	   /* in its slot */
	struct tracee_process *of; /* NULL: which process it is of is not known yet */
	pid_t tid;
	bool waiting;		  /* stopped until its parent's stop says whose it is */
	bool held;		  /* stopped until REQUEST_RELEASE */
	bool held_at_op;	  /* and that for its record */
	bool held_by_signal;	  /* or for that of eBPF, which has sent it one */
	bool late_trap;		  /* the SIGTRAP of a step that is done is still to come */
	bool asked;		  /* to stop, and has not yet */
	struct shadow_stack *ops; /* NULL: it has met no probe */
	/* The breakpoint that was met and told of, but not carried out, as a signal came first. */
	uint64_t skip_addr, skip_sp;
};

struct tracer {
	struct share *share;
	int sock;
	bool ending, leaving;
	bool (*interesting)(pid_t pid); /* has it mapped all that is looked for? */
	uint32_t nplans;
	struct op_plan *plans;
	struct proc_conf procs[PROC_SLOTS];
	struct remote *mem;
	struct hit_buf out;
	struct tracee_process *processes;
	struct tracee *slot[TRACEE_SLOTS];
};

/* tracees.c: the tables. */
struct tracee *tracee_find(const struct tracer *t, pid_t tid);
struct tracee_process *tracee_process_find(const struct tracer *t, pid_t pid);

/* A record of thread `tid`, which is traced; of the process that /proc says, if that is known. NULL
 * without memory. */
struct tracee *tracee_add(struct tracer *t, pid_t tid);

/* Forget it; with the last thread, its process, which is told. NULL allowed. */
void tracee_drop(struct tracer *t, struct tracee *x);

/* A new thread or process of `parent` (NULL: as far as /proc tells) has come to its first stop.
 * False when it has to wait until the stop of its parent tells whose it is. */
bool tracee_adopt(struct tracer *t, struct tracee *x, struct tracee_process *parent);

/* It runs another program: all its other threads are gone. */
void tracee_exec(struct tracer *t, struct tracee *x);

/* Trace all threads of `pid`. 0, or -errno with *e in words for the user. */
int tracee_seize(struct tracer *t, pid_t pid, struct tracee_process **out, struct err *e);

/* Tell ditrace; true when thread `tid` is to be held for that. */
bool tracee_tell(struct tracer *t, enum follow_kind kind, pid_t pid, pid_t tid, pid_t parent,
		 bool held);

/* tracee_stop.c: what a stop means, and going on from it. */
void tracee_waited(struct tracer *t, pid_t tid, int status);
void tracee_resume(const struct tracee *x, int sig);

/* tracee_hit.c: the thread has stopped by SIGTRAP. False when that is none of our breakpoints, and
 * nothing was done; else it goes on, is held, or the stop that came instead was taken care of. */
bool tracee_hit(struct tracer *t, struct tracee *x);

/* The registers of a thread that is held at an op, ARCH_REGS of them, as they would be without the
 * breakpoint. 0, or -ESRCH when it is gone. */
int tracee_registers(const struct tracee *x, uint64_t *out);

/* Put the thread, stopped by SIGTRAP, back to before the breakpoint of ours that it has met; false
 * when the signal is none of ours. */
bool tracee_rewind(struct tracee *x);

/* The SIGTRAP that the thread stopped by, or that waits in `info`, is of a step of ours that was
 * finished without it. */
bool tracee_is_late_trap(const struct tracee *x, const siginfo_t *info);

/* How long stops are waited for: turns of a pause each, two seconds. */
enum { TRACEE_TURNS = 10000 };
static const struct timespec tracee_turn = {.tv_nsec = 200 * 1000};

/* tracee_settle.c: ask the thread to stop once (->asked, which is returned), unless it waits in a
 * system call: a stop would end some of these with EINTR (signal(7)). A fork is no such call. */
bool tracee_ask(struct tracee *x);

/* A fork that began before its thread was seized makes a child that nobody traces: wait for it, so
 * that no breakpoint gets into it. One that waits for its child (vfork) shares its memory, and is
 * not waited for longer than TRACEE_TURNS. -ESRCH: the process has ended meanwhile. */
int tracees_settle(struct tracer *t, pid_t pid);

/* tracee_leave.c: put all code back and let everything go, as it would be without us. */
void tracees_leave(struct tracer *t);

#endif
