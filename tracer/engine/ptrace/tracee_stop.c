#define _GNU_SOURCE

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "tracer/engine/ptrace/internal.h"
#include "tracer/proc/thread_facts.h"

static bool is_stop_signal(int sig)
{
	return sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
}

/* PTRACE_EVENT_STOP: a new thread; the start of a group-stop, in which PTRACE_LISTEN leaves the
 * thread stopped but lets SIGCONT through; or the end of one. */
static void on_event_stop(struct tracer *t, struct tracee *x, int sig)
{
	x->waiting = !x->of && !tracee_adopt(t, x, NULL);
	if (x->waiting)
		return; /* until on_birth */
	if (x->held)
		return;
	if (is_stop_signal(sig))
		ptrace(PTRACE_LISTEN, x->tid, NULL, NULL);
	else
		tracee_resume(x, 0);
}

/* The child may have stopped already, waiting to be assigned to a process. If not, it is entered
 * now, so that leaving before its first stop does not miss it. */
static void on_birth(struct tracer *t, struct tracee *x)
{
	unsigned long child = 0;
	ptrace(PTRACE_GETEVENTMSG, x->tid, NULL, &child);
	struct tracee *c = child ? tracee_find(t, (pid_t)child) : NULL;
	c = c || !child ? c : tracee_add(t, (pid_t)child);
	if (c && !c->of)
		tracee_adopt(t, c, x->of);
	if (c && c->waiting && !c->held)
		tracee_resume(c, 0);
	if (c)
		c->waiting = false;
	tracee_resume(x, 0);
}

/* What is put into a new program before its first instruction. The trap page needs another stop. */
static void watch_program(struct tracer *t, struct tracee *x)
{
	int status;
	ptrace(PTRACE_INTERRUPT, x->tid, NULL, NULL);
	tracee_resume(x, 0);
	if (tracee_wait(x->tid, 0, &status) != x->tid)
		return;
	if (status == TRACEE_QUIET)
		trap_page_put_in(x, &status);
	if (status == TRACEE_NO_STATUS || WIFSTOPPED(status))
		tracee_watch_linker(x->of);
	if (status == TRACEE_NO_STATUS)
		tracee_resume(x, 0);
	else
		tracee_waited(t, x->tid, status);
}

static void on_exec(struct tracer *t, struct tracee *x)
{
	unsigned long before = 0;
	ptrace(PTRACE_GETEVENTMSG, x->tid, NULL, &before);
	if ((pid_t)before != x->tid)
		tracee_drop(t, tracee_find(t, (pid_t)before));
	tracee_exec(t, x);
	if (x->of)
		watch_program(t, x);
	else
		tracee_resume(x, 0);
}

/* The memory lasts until the thread-group leader is gone: ditrace still reads what the last records
 * point to. */
static void on_exit_begun(struct tracer *t, struct tracee *x)
{
	if (x->of && x->of->probed && x->tid == x->of->pid)
		x->held = tracee_tell(t, FOLLOW_EXIT, x->of->pid, x->tid, 0, true);
	if (!x->held)
		tracee_resume(x, 0);
}

/* A SIGURG from the kernel: eBPF sent it, or a socket has urgent data. ditrace tells them apart. */
static bool is_asked_for(struct tracer *t, struct tracee *x, int sig)
{
	siginfo_t info;
	const struct hit h = {.size = sizeof(h), .kind = HIT_STANDS, .tid = (uint32_t)x->tid};
	if (sig != SIGURG || !t->share->standing || t->away ||
	    ptrace(PTRACE_GETSIGINFO, x->tid, NULL, &info) || info.si_code != SI_KERNEL ||
	    share_put(t->share, &h))
		return false;
	x->held = x->held_by_signal = true;
	tracee_take_stop(x);
	share_wake(t->share);
	return true;
}

static bool is_hit(struct tracer *t, struct tracee *x)
{
	int other;
	if (!tracee_hit(t, x, &other))
		return false;
	if (other != TRACEE_NO_STATUS)
		tracee_waited(t, x->tid, other);
	return true;
}

static void on_stop(struct tracer *t, struct tracee *x, int status)
{
	int sig = WSTOPSIG(status);
	switch (status >> 16) {
	case 0:
		if (!(sig == SIGTRAP && is_hit(t, x)) && !is_asked_for(t, x, sig))
			tracee_resume(x, sig);
		break;
	case PTRACE_EVENT_STOP:
		on_event_stop(t, x, sig);
		break;
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
	case PTRACE_EVENT_CLONE:
		on_birth(t, x);
		break;
	case PTRACE_EVENT_EXEC:
		on_exec(t, x);
		break;
	case PTRACE_EVENT_EXIT:
		on_exit_begun(t, x);
		break;
	default:
		tracee_resume(x, 0);
		break;
	}
}

void tracee_waited(struct tracer *t, pid_t tid, int status)
{
	struct tracee *x = tracee_find(t, tid);
	if (!WIFSTOPPED(status)) {
		tracee_drop(t, x);
		return;
	}
	if (!x)
		x = tracee_add(t, tid);
	if (!x)
		return;
	x->asked = false;
	on_stop(t, x, status);
}
