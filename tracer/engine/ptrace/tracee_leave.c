#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer/engine/ptrace/internal.h"

/* Once the code is restored no thread can hit a breakpoint, but one that did just before may not
 * have stopped yet, so running threads are stopped once more. A thread blocked in a system call has
 * hit none and is left alone, since a stop would end some calls with EINTR (signal(7)); the kernel
 * detaches it when this process ends. */

static void detach(struct tracee *x, int sig)
{
	ptrace(PTRACE_DETACH, x->tid, NULL, (void *)(long)sig);
}

/* Detach from stopped threads and interrupt those that need it; returns how many. */
static unsigned ask(struct tracer *t)
{
	unsigned n = 0;
	for (unsigned i = 0; i < TRACEE_SLOTS; i++)
		for (struct tracee *x = t->slot[i], *next; x; x = next) {
			next = x->next;
			if (x->waiting)
				continue;
			if (x->held) {
				if (x->held_at_op)
					tracee_rewind(x);
				x->held = x->held_at_op = false;
				detach(x, 0);
				tracee_drop(t, x);
				continue;
			}
			/* A fork in progress may have copied the breakpoints. */
			n += tracee_ask(x);
		}
	return n;
}

/* Whether a breakpoint was hit or a step finished whose SIGTRAP is queued behind our interrupt. */
static bool has_trap_pending(const struct tracee *x)
{
	enum { MOST = 16 };
	struct __ptrace_peeksiginfo_args args = {.nr = MOST};
	siginfo_t info[MOST];
	long n = ptrace(PTRACE_PEEKSIGINFO, x->tid, &args, info);
	for (long i = 0; i < n; i++)
		if ((info[i].si_signo == SIGTRAP && info[i].si_code == SI_KERNEL) ||
		    tracee_is_late_trap(x, &info[i]))
			return true;
	return false;
}

/* Any stop will do: detach, and deliver the signal that stopped the thread. False when it has to
 * stop once more. */
static bool let_go(struct tracer *t, struct tracee *x, int status)
{
	int event = status >> 16, sig = event ? 0 : WSTOPSIG(status);
	if (!x->of)
		tracee_adopt(t, x, NULL);
	if (sig == SIGTRAP && tracee_rewind(x))
		sig = 0;
	if (event == PTRACE_EVENT_EXEC)
		tracee_exec(t, x);
	if (event == PTRACE_EVENT_STOP && has_trap_pending(x)) {
		tracee_resume(x, 0);
		return false;
	}
	detach(x, sig);
	tracee_drop(t, x);
	return true;
}

/* The newborn is traced, too, and has its breakpoints removed in tracee_adopt. */
static bool is_birth(int status)
{
	int event = status >> 16;
	return event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
	       event == PTRACE_EVENT_CLONE;
}

/* Wait for the thread's first stop; false when it does not come, or is gone. */
static bool await_stop(pid_t tid, int *status)
{
	for (unsigned turn = 0; turn < TRACEE_TURNS; turn++) {
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);
		if (got)
			return got == tid && WIFSTOPPED(*status);
		nanosleep(&tracee_turn, NULL);
	}
	return false;
}

static void await_child(struct tracer *t, struct tracee *x)
{
	unsigned long child = 0;
	int status;
	ptrace(PTRACE_GETEVENTMSG, x->tid, NULL, &child);
	if (!child || !await_stop((pid_t)child, &status))
		return;
	struct tracee *c = tracee_find(t, (pid_t)child);
	c = c ? c : tracee_add(t, (pid_t)child);
	if (!c)
		return;
	tracee_adopt(t, c, x->of);
	let_go(t, c, status);
}

/* Handle one stop; returns how many of the stops asked for that was. */
static unsigned met(struct tracer *t, pid_t tid, int status)
{
	struct tracee *x = tracee_find(t, tid);
	unsigned asked = x && x->asked;
	if (!WIFSTOPPED(status)) {
		tracee_drop(t, x);
		return asked;
	}
	x = x ? x : tracee_add(t, tid);
	if (!x)
		return asked;
	if (is_birth(status))
		await_child(t, x);
	if (!let_go(t, x, status))
		return 0;
	return asked;
}

/* A thread in uninterruptible sleep does not stop, but cannot hit a breakpoint either. */
static void await_stops(struct tracer *t, unsigned asked)
{
	for (unsigned turn = 0; turn < TRACEE_TURNS; turn++) {
		int status;
		pid_t tid;
		while ((tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0)
			asked -= met(t, tid, status);
		if (!asked || tid < 0)
			return;
		nanosleep(&tracee_turn, NULL);
	}
}

void tracees_leave(struct tracer *t)
{
	t->leaving = true;
	for (struct tracee_process *p = t->processes; p; p = p->next)
		breakpoints_restore(p->space);
	await_stops(t, ask(t));
}
