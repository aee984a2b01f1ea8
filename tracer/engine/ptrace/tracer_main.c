#define _GNU_SOURCE
#include "tracer/engine/ptrace/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/spawn.h"

enum { MOST_STOPS = 64, PAYLOAD_MAX = 64 << 20 };

static struct tracer *crashed; /* for on_crash */

/* A crash of this process must not kill the traced ones: restore the code, and rewind the threads
 * that have already stopped at a breakpoint. */
static void on_crash(int sig)
{
	struct tracer *t = crashed;
	crashed = NULL;
	signal(sig, SIG_DFL);
	if (t) {
		share_repair(t->share);
		for (unsigned i = 0; i < 20; i++) {
			int status;
			pid_t tid = waitpid(-1, &status, __WALL | WNOHANG);
			struct tracee *x = tid > 0 ? tracee_find(t, tid) : NULL;
			if (x && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP)
				tracee_rewind(x);
		}
	}
	raise(sig);
}

static void catch_crashes(struct tracer *t)
{
	static const int all[] = {SIGSEGV, SIGFPE, SIGILL, SIGABRT};
	const struct sigaction a = {.sa_handler = on_crash, .sa_flags = SA_NODEFER};
	crashed = t;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		sigaction(all[i], &a, NULL);
	bus_guard(on_crash);
}

/* The signals that sigtimedwait takes, and the terminal's, which this process ignores. */
static void set_signals(sigset_t *waited)
{
	static const int all[] = {SIGCHLD, SIGIO, SIGTERM, SIGUSR1};
	static const int ignored[] = {SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGUSR2};
	sigemptyset(waited);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		signal(all[i], SIG_DFL);
		sigaddset(waited, all[i]);
	}
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	sigprocmask(SIG_SETMASK, waited, NULL);
}

static int set_plans(struct tracer *t, const struct request *q, const void *payload)
{
	if (q->first > t->nplans || q->n > t->nplans - q->first ||
	    q->len != (uint64_t)q->n * sizeof(*t->plans))
		return -E2BIG;
	memcpy(&t->plans[q->first], payload, q->len);
	return 0;
}

static int set_proc(struct tracer *t, const struct request *q, const void *payload)
{
	if (q->proc >= PROC_SLOTS || q->len != sizeof(t->procs[0]))
		return -EINVAL;
	memcpy(&t->procs[q->proc], payload, q->len);
	return 0;
}

static int watch(struct tracer *t, pid_t pid, struct err *e)
{
	struct tracee_process *p;
	return tracee_seize(t, pid, &p, e);
}

static int detach_proc(struct tracer *t, uint16_t proc)
{
	for (struct tracee_process *p = t->processes; p; p = p->next)
		breakpoints_remove(p->space, proc);
	return 0;
}

static int release(struct tracer *t, pid_t tid, int sig)
{
	struct tracee *x = tracee_find(t, tid);
	if (!x || !x->held)
		return -ESRCH;
	if (x->held_by_signal) {
		x->held = x->held_by_signal = false;
		tracee_resume(x, sig);
		return 0;
	}
	bool at_op = x->held_at_op;
	/* Remove breakpoints that a forked child inherited and nobody has claimed. */
	if (x->of && !at_op)
		breakpoints_remove(x->of->space, NO_PROC);
	x->held = x->held_at_op = false;
	int other = TRACEE_NO_STATUS;
	if (!at_op || !tracee_go_on(x, &other))
		tracee_resume(x, 0);
	if (other != TRACEE_NO_STATUS)
		tracee_waited(t, tid, other);
	return 0;
}

static int registers(struct tracer *t, pid_t tid)
{
	const struct tracee *x = tracee_find(t, tid);
	return x ? tracee_registers(x, t->share->regs) : -ESRCH;
}

static void answer(struct tracer *t, const struct request *q, const void *payload)
{
	struct reply r = {0};
	switch (q->kind) {
	case REQUEST_PLANS:
		r.code = set_plans(t, q, payload);
		break;
	case REQUEST_PROC:
		r.code = set_proc(t, q, payload);
		break;
	case REQUEST_WATCH:
		r.code = watch(t, q->pid, &r.err);
		break;
	case REQUEST_ATTACH:
		r.code = tracer_sites_attach(t, q, payload, &r.err);
		break;
	case REQUEST_DETACH:
		r.code = detach_proc(t, q->proc);
		break;
	case REQUEST_RELEASE:
		r.code = release(t, q->pid, q->sig);
		break;
	case REQUEST_AWAY:
		t->away = q->n;
		break;
	case REQUEST_REGS:
		r.code = registers(t, q->pid);
		break;
	default:
		t->ending = true;
		return; /* the end of this process is the answer */
	}
	if (send(t->sock, &r, sizeof(r), MSG_NOSIGNAL) != sizeof(r))
		t->ending = true;
}

/* Handle all pending requests, or the end of ditrace. */
static void serve(struct tracer *t)
{
	struct pollfd p = {.fd = t->sock, .events = POLLIN};
	while (!t->ending && poll(&p, 1, 0) > 0) {
		struct request q;
		void *payload = NULL;
		t->ending = !helper_receive(t->sock, &q, sizeof(q)) || q.len > PAYLOAD_MAX;
		if (!t->ending && q.len) {
			payload = malloc(q.len);
			t->ending = !payload || !helper_receive(t->sock, payload, q.len);
		}
		if (!t->ending)
			answer(t, &q, payload);
		free(payload);
	}
}

/* Ops that are open may have ended unseen. */
static void forget_open(struct tracer *t, const struct tracee_process *p)
{
	for (size_t i = 0; i < TRACEE_SLOTS; i++)
		for (struct tracee *x = t->slot[i]; x; x = x->next)
			if (x->of == p && x->ops)
				x->ops->gap = true;
}

/* Let the next thread that hits a breakpoint see to the trap page. */
static void check_page(struct tracer *t, const struct tracee_process *p)
{
	if (!breakpoints_page(p->space)->addr || !trap_page_is_missing(p->pid))
		return;
	for (size_t i = 0; i < TRACEE_SLOTS; i++)
		for (struct tracee *x = t->slot[i]; x; x = x->next)
			if (x->of == p)
				x->checked = false;
}

static void mend(struct tracer *t)
{
	enum { EVERY_MS = 100, AT_ONCE = 256 };
	static struct timespec last;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if ((now.tv_sec - last.tv_sec) * 1000 + (now.tv_nsec - last.tv_nsec) / 1000000 < EVERY_MS)
		return;
	last = now;
	for (struct tracee_process *p = t->processes; p; p = p->next) {
		check_page(t, p);
		size_t missing = breakpoints_mend(p->space, AT_ONCE);
		if (!missing)
			continue;
		forget_open(t, p);
		t->share->missing_in = p->pid;
		t->share->missing += (uint32_t)missing;
	}
}

static bool holds_any(const struct tracer *t)
{
	for (size_t i = 0; i < TRACEE_SLOTS; i++)
		for (const struct tracee *x = t->slot[i]; x; x = x->next)
			if (x->held)
				return true;
	return false;
}

/* A stopped ditrace releases nobody: let it go on for as long as it takes to do that and to stop
 * itself (trace_loop_halt). Not by SIGTSTP, which would discard the SIGCONT of somebody who
 * continues it now. */
static void rouse(const struct tracer *t, pid_t parent)
{
	enum { EVERY_NS = 100 * 1000 * 1000 };
	static uint64_t last;
	struct process p;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	const union sigval looked = {.sival_ptr = (void *)(uintptr_t)now};
	if (now - last < EVERY_NS)
		return;
	last = now;
	if (!holds_any(t) || process_read(parent, &p, NULL) || p.status.state != 'T')
		return;
	sigqueue(parent, ENGINE_HALTS, looked);
	sigqueue(parent, SIGCONT, looked);
}

static void work(struct tracer *t, const sigset_t *signals, pid_t parent)
{
	const struct timespec patience = {.tv_nsec = 200 * 1000 * 1000};
	while (!t->ending) {
		int status;
		pid_t tid = 0;
		for (unsigned n = 0; n < MOST_STOPS; n++) {
			tid = tracee_wait(-1, WNOHANG, &status);
			if (tid <= 0)
				break;
			tracee_waited(t, tid, status);
		}
		serve(t);
		mend(t);
		rouse(t, parent);
		if (tid > 0 || t->ending)
			continue;
		if (sigtimedwait(signals, NULL, &patience) == SIGTERM || getppid() != parent)
			t->ending = true;
	}
}

/* Never freed: it lives as long as the process. */
static struct tracer *new_tracer(struct share *share, uint32_t nplans)
{
	struct tracer *t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->share = share;
	t->nplans = nplans;
	t->plans = calloc(nplans, sizeof(*t->plans));
	t->mem = remote_new();
	tracer_records_begin(t);
	if (t->plans && t->mem)
		return t;
	free(t->plans);
	remote_free(t->mem);
	free(t);
	return NULL;
}

void tracer_main(struct share *share, int sock, pid_t parent, uint32_t nplans,
		 interesting_fn *interesting)
{
	sigset_t signals;
	helper_begin(TRACER_NAME, sock);
	set_signals(&signals);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	/* Requests and the end of ditrace interrupt the wait for stops by SIGIO. */
	fcntl(sock, F_SETOWN, getpid());
	fcntl(sock, F_SETFL, fcntl(sock, F_GETFL) | O_ASYNC);
	struct tracer *t = new_tracer(share, nplans);
	if (!t)
		return;
	t->sock = sock;
	t->interesting = interesting;
	catch_crashes(t);
	work(t, &signals, parent);
	tracees_leave(t);
}
