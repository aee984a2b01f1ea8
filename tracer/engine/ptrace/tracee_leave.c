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

static void ask_again(struct tracee *x, int sig)
{
	x->asked = !ptrace(PTRACE_INTERRUPT, x->tid, NULL, NULL);
	tracee_resume(x, sig);
}

static void ask_all(struct tracer *t)
{
	for (unsigned i = 0; i < TRACEE_SLOTS; i++)
		for (struct tracee *x = t->slot[i]; x; x = x->next) {
			/* A fork in progress may have copied the breakpoints. */
			if (x->held)
				ask_again(x, 0);
			else if (!x->waiting)
				tracee_ask(x);
			x->held = x->held_at_op = false;
		}
}

/* Whether a thread of `p` (NULL: of any) other than `beside` is still to stop. */
static bool is_one_asked(const struct tracer *t, const struct tracee_process *p,
			 const struct tracee *beside)
{
	for (unsigned i = 0; i < TRACEE_SLOTS; i++)
		for (const struct tracee *x = t->slot[i]; x; x = x->next)
			if (x != beside && x->asked && (!p || x->of == p))
				return true;
	return false;
}

static bool has_page(const struct tracee_process *p)
{
	return breakpoints_page(p->space)->addr;
}

/* A thread of each process has to take the trap page out. */
static void ask_for_pages(struct tracer *t)
{
	for (const struct tracee_process *p = t->processes; p; p = p->next)
		if (has_page(p) && !is_one_asked(t, p, NULL))
			tracee_ask_one(t, p);
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

/* The trap page is taken out by the last thread that stops: until then others need it, should this
 * process be killed. False when another stop comes first. */
static bool has_left_page(struct tracer *t, struct tracee *x, int event, int sig)
{
	int other = TRACEE_NO_STATUS;
	if (!x->of || !has_page(x->of) || is_one_asked(t, x->of, x))
		return true;
	if (event == PTRACE_EVENT_STOP)
		trap_page_take_out(x, &other);
	if (event == PTRACE_EVENT_STOP &&
	    (other == TRACEE_NO_STATUS || other >> 16 == PTRACE_EVENT_STOP))
		return true;
	if (other == TRACEE_NO_STATUS || WIFSTOPPED(other))
		ask_again(x, other == TRACEE_NO_STATUS ? sig : WSTOPSIG(other));
	else
		tracee_drop(t, x);
	return false;
}

/* Any stop will do: detach, and deliver the signal that stopped the thread, unless it has to stop
 * once more. */
static void let_go(struct tracer *t, struct tracee *x, int status)
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
		return;
	}
	if (!has_left_page(t, x, event, sig))
		return;
	detach(x, sig);
	tracee_drop(t, x);
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
		pid_t got = tracee_wait(tid, WNOHANG, status);
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

static void met(struct tracer *t, pid_t tid, int status)
{
	struct tracee *x = tracee_find(t, tid);
	if (!WIFSTOPPED(status)) {
		tracee_drop(t, x);
		return;
	}
	x = x ? x : tracee_add(t, tid);
	if (!x)
		return;
	if (is_birth(status))
		await_child(t, x);
	let_go(t, x, status);
}

/* A thread in uninterruptible sleep does not stop, but cannot hit a breakpoint either. */
static void await_stops(struct tracer *t)
{
	for (unsigned turn = 0; turn < TRACEE_TURNS; turn++) {
		int status;
		pid_t tid;
		while ((tid = tracee_wait(-1, WNOHANG, &status)) > 0)
			met(t, tid, status);
		if (tid < 0 || !is_one_asked(t, NULL, NULL))
			return;
		nanosleep(&tracee_turn, NULL);
	}
}

void tracees_leave(struct tracer *t)
{
	t->leaving = true;
	for (struct tracee_process *p = t->processes; p; p = p->next)
		breakpoints_restore(p->space);
	ask_all(t);
	ask_for_pages(t);
	await_stops(t);
	/* The last thread may have ended instead. */
	ask_for_pages(t);
	await_stops(t);
}
