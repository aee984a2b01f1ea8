#define _GNU_SOURCE
#include "tracer/engine/shim/injector.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"
#include "symbolizer/target/process.h"
#include "tracer/engine/shim/internal.h"
#include "tracer/engine/shim/jumps.h"
#include "tracer/proc/spawn.h"
#include "tracer/proc/thread_facts.h"

#define NAME "ditrace-enter"
enum { STOP_MS = 3000, CALL_MS = 20000, SEARCH_MS = 20000 };
/* For as long as what a killed ditrace has started may go on; not in a stopped process. */
enum { LEAVES_MS = CALL_MS + STOP_MS, SOON_MS = 5000 };

/* State of the injecting process. */
struct entering {
	pid_t pid, parent;
	enum injector_part part;
	struct shim_listener *listener;
	struct injector_points points;
	struct safepoints *places;
	uint64_t come; /* address of come_of(part); 0: the library is not loaded yet */
	unsigned looks;
	bool stuck;	   /* the thread chosen last did not stop */
	uint64_t stood_ns; /* how long the thread that made the call was stopped */
	struct err err;
};

static const char *come_of(enum injector_part part)
{
	return part == INJECTOR_MODES ? SHIM_MODES_COME : SHIM_COME;
}

static int32_t phase_of(const struct shim_state *s, enum injector_part part)
{
	return part == INJECTOR_MODES ? s->modes : s->phase;
}

struct answer {
	int32_t code;
	bool stuck;
	unsigned looks;
	struct err err;
};

/* A filter inherited from the parent (a container's) has let the loader work before. One that the
 * program installed itself may kill it for what dlopen does. */
static bool has_filter_of_its_own(const struct process *p)
{
	struct process parent;
	const struct process_status *s = &p->status;
	if (!s->seccomp || process_read(s->ppid, &parent, NULL))
		return s->seccomp;
	return s->seccomp != parent.status.seccomp ||
	       s->seccomp_filters > parent.status.seccomp_filters;
}

/* Whether the ditrace that the library is connected to has ended; its number may be that of another
 * process, or of a thread, by now. */
static bool tracer_ended(const struct shim_state *s)
{
	struct process p;
	if (!process_alive(s->tracer) || process_read(s->tracer, &p, NULL) || p.pid != s->tracer)
		return true;
	const uint64_t tick = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
	const uint64_t now = clock_ns(CLOCK_MONOTONIC), slept = clock_ns(CLOCK_BOOTTIME) - now;
	return p.start_ticks * tick > s->since_ns + slept;
}

/* Whether the library is about to be in use, or out of use, as its ditrace has ended. */
static bool is_moving(const struct shim_state *s, enum injector_part part)
{
	int32_t phase = phase_of(s, part);
	return phase == SHIM_COMING || phase == SHIM_GOING ||
	       (part == INJECTOR_RECORDS && phase == SHIM_IN && s->tracer > 0 && tracer_ended(s));
}

/* Whether a helper process of some ditrace holds the process, or one has just let it go. */
static bool is_held(const struct process *p)
{
	struct process by;
	return p->status.tracer && (process_read(p->status.tracer, &by, NULL) ||
				    !strcmp(by.comm, NAME) || !strcmp(by.comm, JUMPS_NAME));
}

/* What a killed ditrace has begun in the process ends soon: wait for it. 0 with *p and the state of
 * the library, of which `in` says whether there is one; or -errno with *e. */
static int await_others(pid_t pid, enum injector_part part, struct process *p, struct shim_state *s,
			bool *in, struct err *e)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	const uint64_t since = clock_ns(CLOCK_MONOTONIC);
	for (;; nanosleep(&pause, NULL)) {
		int r = process_read(pid, p, e);
		if (r)
			return r;
		struct err why = {0};
		r = injector_state(pid, s, &why);
		*in = !r;
		if (r && r != -ENOENT && r != -EPROTO) {
			if (e)
				*e = why;
			return r;
		}
		const uint64_t ms = p->status.state == 'T' ? SOON_MS : LEAVES_MS;
		if ((!is_held(p) && !(*in && is_moving(s, part))) ||
		    clock_ns(CLOCK_MONOTONIC) - since >= ms * 1000000)
			return 0;
	}
}

static int is_in_use(pid_t pid, enum injector_part part, const struct shim_state *s, struct err *e)
{
	if (phase_of(s, part) == SHIM_OUT)
		return 0;
	if (is_moving(s, part)) {
		err_set(e, -EBUSY,
			"the library of a ditrace that has ended is still in use in process %d",
			pid);
		return err_hint(
		    e, "it leaves by itself, unless the process is stopped: kill -CONT %d", pid);
	}
	if (part == INJECTOR_MODES) {
		err_set(e, -EBUSY, "a ditrace changes functions of process %d already", pid);
		return err_hint(e, "ditrace ctl %d status tells which", pid);
	}
	err_set(e, -EALREADY, "process %d is recorded by another ditrace (process %d) already", pid,
		s->tracer);
	return err_hint(
	    e,
	    "ditrace ctl %d off takes its library out; only with --engine bpf can there "
	    "be several",
	    pid);
}

int injector_check(pid_t pid, enum injector_part part, struct err *e)
{
	struct process p;
	struct shim_state s;
	struct injector_points points;
	bool in;
	int r = process_check(pid, e);
	r = r ? r : await_others(pid, part, &p, &s, &in, e);
	if (r)
		return r;
	if (p.status.tracer)
		return process_seize_error(pid, -EPERM, e);
	if (process_has_shadow_stack(pid))
		return injector_cannot_load(pid, "it has a shadow stack", e);
	if (has_filter_of_its_own(&p))
		return injector_cannot_load(
		    pid,
		    "it has forbidden itself system calls (seccomp), and loading "
		    "a library might end it",
		    e);
	r = in ? is_in_use(pid, part, &s, e) : 0;
	return r ? r : injector_find_points(pid, &points, e);
}

/* System calls that a stop ends with EINTR even if no signal is delivered (signal(7)). */
static bool would_be_disturbed(pid_t pid, pid_t tid)
{
	static const long disturbed[] = {
	    SYS_epoll_wait, SYS_epoll_pwait, SYS_semop,	       SYS_semtimedop,
	    SYS_msgrcv,	    SYS_msgsnd,	     SYS_io_getevents, SYS_rt_sigtimedwait,
	};
	long nr = thread_syscall(pid, tid);
	for (size_t i = 0; i < sizeof(disturbed) / sizeof(disturbed[0]); i++)
		if (nr == disturbed[i])
			return true;
	return false;
}

/* A different thread each time; in the first round none that a stop would disturb. 0: none. */
static pid_t choose(const struct entering *x)
{
	pid_t *tids, tid = 0;
	ssize_t n = process_threads(x->pid, &tids);
	if (n <= 0)
		return 0;
	for (ssize_t i = 0; i < n && !tid; i++) {
		pid_t t = tids[(x->looks + (unsigned)i) % (unsigned)n];
		struct process p;
		if (process_read(t, &p, NULL) || p.status.state == 'D' || p.status.state == 'Z' ||
		    !strcmp(p.comm, SHIM_THREAD))
			continue;
		if (x->looks >= (unsigned)n || !would_be_disturbed(x->pid, t))
			tid = t;
	}
	free(tids);
	return tid;
}

static int ask_dlerror(struct entering *x, struct remote_thread *t)
{
	const struct remote_call c = {.function = x->points.dlerror,
				      .sigreturn = x->points.sigreturn};
	struct mem mem = mem_process(x->pid);
	uint64_t at = 0;
	char text[256] = "";
	if (!remote_thread_ask(t, &c, CALL_MS, &at) && at)
		mem_read_str(&mem, at, text, sizeof(text));
	err_set(&x->err, -ELIBACC, "process %d cannot load ditrace's library: %s", x->pid,
		*text ? text : "no reason given");
	return err_hint(&x->err, "trace it with --engine bpf or --engine ptrace");
}

static int load(struct entering *x, pid_t tid, struct remote_thread *t)
{
	const struct remote_call c = {
	    .function = x->points.dlopen,
	    .sigreturn = x->points.sigreturn,
	    .data = x->listener->library,
	    .size = strlen(x->listener->library) + 1,
	    .second = RTLD_NOW | RTLD_LOCAL,
	};
	int r = shim_listener_fits(x->listener, tid) ? remote_thread_call(t, &c, CALL_MS) : -EPERM;
	if (r)
		return r;
	r = injector_find_library(x->pid, come_of(x->part), &x->come);
	return r ? ask_dlerror(x, t) : 0;
}

static int call(struct entering *x, struct remote_thread *t)
{
	const struct remote_call c = {
	    .function = x->come,
	    .sigreturn = x->points.sigreturn,
	    .data = x->listener->socket,
	    .size = strlen(x->listener->socket) + 1,
	};
	return remote_thread_call(t, &c, CALL_MS);
}

/* Have thread `tid` make the calls. 0; -EAGAIN: try again; -errno. */
static int try_thread(struct entering *x, pid_t tid)
{
	struct remote_thread *t;
	uint64_t since = clock_ns(CLOCK_MONOTONIC);
	int r = remote_thread_stop(tid, STOP_MS, &t);
	/* Nobody may trace a thread that ends. */
	if (r == -ESRCH || (r == -EPERM && process_thread_ended(x->pid, tid)))
		return -EAGAIN;
	x->stuck = r == -ETIMEDOUT;
	if (r)
		return r == -EPERM ? process_seize_error(x->pid, r, &x->err) : r;
	if (safepoint(x->places, tid, remote_thread_regs(t))) {
		if (!x->come)
			r = load(x, tid, t);
		r = r ? r : call(x, t);
	} else {
		r = -EAGAIN;
	}
	remote_thread_release(t);
	x->stood_ns = clock_ns(CLOCK_MONOTONIC) - since;
	return r;
}

/* Of varying length, so as not to sample a periodic thread always at the same place. */
static void pause_a_bit(unsigned look)
{
	nanosleep(&(struct timespec){.tv_nsec = (1 + look * 7 % 11) * 500 * 1000}, NULL);
}

static int search(struct entering *x)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + SEARCH_MS * 1000000ULL;
	int r = -EAGAIN;
	for (; r == -EAGAIN && clock_ns(CLOCK_MONOTONIC) < until; x->looks++) {
		if (getppid() != x->parent)
			return -ECHILD;
		pid_t tid = choose(x);
		if (tid)
			r = try_thread(x, tid);
		else if (!process_alive(x->pid))
			return process_error(x->pid, -ESRCH, "enter", &x->err);
		if (r == -EAGAIN)
			pause_a_bit(x->looks);
	}
	return r;
}

static int say(struct entering *x, int r)
{
	if (!r || x->err.code)
		return r;
	err_set(&x->err, r, "cannot load ditrace's library into process %d: %s", x->pid,
		r == -EAGAIN	  ? "no thread of it was at a place where a library can be loaded"
		: r == -ETIMEDOUT ? "a thread of it did not stop, or loading the library takes long"
		: r == -EFAULT	  ? "there is no room on its stack"
				  : strerror(-r));
	return err_hint(&x->err, "try again, or trace it with --engine bpf or --engine ptrace");
}

static int enter(struct entering *x)
{
	int r = injector_find_points(x->pid, &x->points, &x->err);
	if (!r && injector_find_library(x->pid, come_of(x->part), &x->come))
		x->come = 0;
	r = r ? r : safepoints_new(x->pid, &x->places, &x->err);
	r = r ? r : say(x, search(x));
	if (!r)
		injector_set_stood(x->pid, x->stood_ns);
	safepoints_free(x->places);
	return r;
}

static void enter_main(int sock, void *entering)
{
	struct entering *x = entering;
	helper_begin(NAME, sock);
	/* Who connects when ditrace has been killed is to be refused at once. */
	helper_keep(sock, x->listener->dir); /* its lock keeps the folder */
	struct answer a = {.code = enter(x)};
	a.err = x->err;
	a.stuck = x->stuck;
	a.looks = x->looks;
	helper_send(sock, &a, sizeof(a));
}

/* By a process of its own: only its end lets go of a thread that did not stop. */
static int enter_once(struct entering *x, struct answer *a, struct err *e)
{
	int sock;
	pid_t child = helper_start(enter_main, x, &sock);
	if (child < 0)
		return err_set(e, child, "cannot enter process %d: %s", x->pid, strerror(-child));
	bool answered = helper_answer(sock, child, a, sizeof(*a));
	close(sock);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	if (!answered)
		return err_set(e, -ECHILD,
			       "the helper that was to load the library into %d has ended", x->pid);
	return a->code;
}

int injector_enter(pid_t pid, enum injector_part part, struct shim_listener *listener,
		   struct err *e)
{
	struct entering x = {.pid = pid, .parent = getpid(), .part = part, .listener = listener};
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + SEARCH_MS * 1000000ULL;
	struct answer a = {0};
	int r = injector_check(pid, part, e);
	if (r)
		return r;
	do {
		x.looks = a.looks;
		a = (struct answer){0};
		r = enter_once(&x, &a, e);
	} while (a.stuck && clock_ns(CLOCK_MONOTONIC) < until);
	if (a.code && e)
		*e = a.err;
	return r;
}
