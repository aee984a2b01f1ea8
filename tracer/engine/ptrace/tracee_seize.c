#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "symbolizer/target/process.h"
#include "tracer/engine/ptrace/internal.h"
#include "tracer/proc/thread_facts.h"

static const long options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
			    PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_TRACESYSGOOD;

static bool is_fork(long nr)
{
	return nr == SYS_clone || nr == SYS_fork || nr == SYS_vfork || nr == SYS_clone3;
}

/* Interrupt the thread (sets and returns ->asked), unless it is blocked in a system
 * call, some of which a stop would end with EINTR (signal(7)). A fork is interrupted all the same.
 */
static bool tracee_ask(struct tracee *x)
{
	long nr = thread_syscall(x->of ? x->of->pid : x->tid, x->tid);
	bool waits = nr >= 0 && !is_fork(nr);
	x->asked = !waits && !ptrace(PTRACE_INTERRUPT, x->tid, NULL, NULL);
	return x->asked;
}

/* Whether the kernel continues it after a stop; those not named here may, too (signal(7)). */
static bool is_restarted(long nr)
{
	static const short all[] = {
	    SYS_futex,	       SYS_read,     SYS_poll,	    SYS_ppoll,
	    SYS_select,	       SYS_pselect6, SYS_nanosleep, SYS_clock_nanosleep,
	    SYS_wait4,	       SYS_waitid,   SYS_pause,	    SYS_restart_syscall,
	    SYS_rt_sigsuspend,
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i] == nr)
			return true;
	return false;
}

/* Interrupt one thread of the process, if there is one that can be stopped without ending a system
 * call: sets ->asked and returns it, else NULL. */
static struct tracee *tracee_ask_one(struct tracer *t, const struct tracee_process *p)
{
	struct tracee *best = NULL;
	bool runs = false;
	for (unsigned i = 0; i < TRACEE_SLOTS && !runs; i++)
		for (struct tracee *x = t->slot[i]; x && !runs; x = x->next) {
			if (x->of != p || x->held)
				continue;
			char state = process_thread_state(p->pid, x->tid);
			long nr = thread_syscall(p->pid, x->tid);
			runs = state == 'R' && nr < 0;
			if (runs || (state == 'S' && is_restarted(nr)))
				best = x;
		}
	if (best)
		best->asked = !ptrace(PTRACE_INTERRUPT, best->tid, NULL, NULL);
	return best && best->asked ? best : NULL;
}

static bool is_asked(const struct tracer *t, pid_t pid)
{
	for (unsigned i = 0; i < TRACEE_SLOTS; i++)
		for (const struct tracee *x = t->slot[i]; x; x = x->next)
			if (x->asked && x->of && x->of->pid == pid)
				return true;
	return false;
}

static void ask_threads(struct tracer *t, pid_t pid)
{
	for (unsigned i = 0; i < TRACEE_SLOTS; i++)
		for (struct tracee *x = t->slot[i]; x; x = x->next)
			if (x->of && x->of->pid == pid)
				tracee_ask(x);
}

/* Wait for forks that began before their thread was seized: their children are untraced and must
 * not inherit breakpoints. Waits at most TRACEE_TURNS, as for a vfork, whose child shares the
 * memory. 0; -ESRCH: the process has ended. */
static int tracees_settle(struct tracer *t, pid_t pid)
{
	ask_threads(t, pid);
	for (unsigned turn = 0; turn < TRACEE_TURNS && is_asked(t, pid); turn++) {
		int status;
		pid_t tid;
		while ((tid = tracee_wait(-1, WNOHANG, &status)) > 0)
			tracee_waited(t, tid, status);
		nanosleep(&tracee_turn, NULL);
	}
	return tracee_process_find(t, pid) ? 0 : -ESRCH;
}

/* Seize the threads that are not traced yet; *fresh: there was one. */
static int seize_threads(struct tracer *t, pid_t pid, bool *fresh, struct err *e)
{
	pid_t *tids;
	ssize_t n = process_threads(pid, &tids);
	int r = n > 0 ? 0 : process_error(pid, n ? (int)n : -ESRCH, "trace", e);
	*fresh = false;
	for (ssize_t i = 0; i < n && !r; i++) {
		if (tracee_find(t, tids[i]))
			continue;
		int code = seize_thread(tids[i], options);
		if (!code) {
			*fresh = true;
			r = tracee_add(t, tids[i]) ? 0 : err_set(e, -ENOMEM, "no memory");
			continue;
		}
		struct process who;
		/* It has ended, or it is new, was attached with its parent and will report
		 * itself. */
		if (code == -ESRCH || process_read(tids[i], &who, NULL) ||
		    who.status.tracer == getpid() || who.status.state == 'Z')
			continue;
		r = process_seize_error(tids[i], code, e);
	}
	if (n > 0)
		free(tids);
	return r;
}

/* A thread that another was already making when that was seized is not attached with it, and is
 * seen a moment later. */
static int seize_all(struct tracer *t, pid_t pid, struct err *e)
{
	enum { TURNS = 3 };
	bool fresh;
	int r = 0;
	for (unsigned quiet = 0; quiet < TURNS && !r; quiet = fresh ? 0 : quiet + 1) {
		if (quiet)
			nanosleep(&tracee_turn, NULL);
		r = seize_threads(t, pid, &fresh, e);
	}
	return r;
}

static struct tracee *await_one(struct tracer *t, const struct tracee_process *p)
{
	enum { TURNS = 50 };
	struct tracee *x = NULL;
	for (unsigned turn = 0; !(x = tracee_ask_one(t, p)) && turn < TURNS; turn++)
		nanosleep(&tracee_turn, NULL);
	return x;
}

/* Put the trap page in. If no thread can be stopped for it now, the first one that hits a
 * breakpoint will do. */
static void protect(struct tracer *t, const struct tracee_process *p)
{
	bool done = false;
	struct tracee *x = await_one(t, p);
	for (unsigned turn = 0; x && !done && turn < TRACEE_TURNS; turn++) {
		int status;
		pid_t tid = x->tid, got = tracee_wait(tid, WNOHANG, &status);
		if (!got)
			nanosleep(&tracee_turn, NULL);
		if (got != tid)
			continue;
		if (status == TRACEE_QUIET) {
			x->asked = false;
			done = true;
			trap_page_put_in(x, &status);
		}
		if (status == TRACEE_NO_STATUS)
			tracee_resume(x, 0);
		else
			tracee_waited(t, tid, status);
		x = tracee_find(t, tid);
	}
}

int tracee_seize(struct tracer *t, pid_t pid, struct tracee_process **out, struct err *e)
{
	struct breakpoints *space;
	*out = tracee_process_find(t, pid);
	if (*out)
		return 0;
	int r = process_check(pid, e);
	if (!r && process_has_shadow_stack(pid)) {
		err_set(e, -ENOTSUP,
			"process %d has a shadow stack, which ptrace tracing would break", pid);
		err_hint(e, "trace it with: --engine bpf, as root");
		r = -ENOTSUP;
	}
	if (r)
		return r;
	/* One thread first, to see whether this is permitted. */
	r = seize_thread(pid, options);
	if (r)
		return process_seize_error(pid, r, e);
	r = breakpoints_open(pid, t->share, &space, e);
	if (r)
		return r;
	*out = tracee_process_new(t, pid, space);
	if (!*out || !tracee_add(t, pid))
		return err_set(e, -ENOMEM, "no memory");
	r = seize_all(t, pid, e);
	if (r)
		return r;
	r = tracees_settle(t, pid);
	if (r)
		return process_error(pid, r, "trace", e);
	protect(t, *out);
	tracee_watch_linker(*out);
	return 0;
}

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

static void ask_all_to_leave(struct tracer *t)
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
	ask_all_to_leave(t);
	ask_for_pages(t);
	await_stops(t);
	/* The last thread may have ended instead. */
	ask_for_pages(t);
	await_stops(t);
}
