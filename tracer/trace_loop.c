#define _GNU_SOURCE
#include "tracer/trace_loop.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"
#include "base/text.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "symbolizer/target/target_files.h"
#include "tracer/engine/shim/injector.h"
#include "tracer/proc/seize.h"

void trace_default_output(struct session_opts *o)
{
	if (!o->output && ((!o->print && !o->prometheus) || o->sample))
		o->output = "ditrace.data";
}

const char *const trace_phases[] = {"all", "forward", "backward", "recompute", NULL};

static int add_process(struct trace_loop *l, pid_t pid)
{
	struct err why = {0};
	int r = session_add(l->session, pid, &why);
	if (r && why.code != -ESRCH && why.code != -ENODATA)
		l->trouble = why;
	return r;
}

/* With bpf a forked process runs until it is frozen, or its probes are in; with the shim it has its
 * parent's jumps from the start. */
static void count_fork(struct trace_loop *l, uint64_t forked_ns, uint64_t until_ns)
{
	uint64_t ran = until_ns > forked_ns ? until_ns - forked_ns : 0;
	if (strcmp(session_engine(l->session), "bpf") != 0)
		return;
	l->forks++;
	l->forks_ran_ns = ran > l->forks_ran_ns ? ran : l->forks_ran_ns;
}

static void tell_forks(const struct trace_loop *l)
{
	char forks[40], ran[32];
	if (l->forks && !session_is_quiet(l->session))
		fprintf(
		    stderr,
		    "ditrace: %s: up to %s passed until the probes of a new process were in; the "
		    "ops that it ran by then are missing (--engine shim misses none)\n",
		    text_counted(forks, sizeof(forks), l->forks, "fork"),
		    text_ns(ran, sizeof(ran), l->forks_ran_ns));
}

static void on_fork(struct trace_loop *l, const struct follow_event *ev)
{
	enum { WAIT_MS = 100 };
	struct freeze *frozen = NULL;
	if (process_shares_memory(ev->pid, ev->parent ? ev->parent : l->pid))
		return;
	freeze_thread(ev->pid, WAIT_MS, &frozen);
	uint64_t until = clock_ns(CLOCK_MONOTONIC);
	if (process_has_all_torch(ev->pid) && !add_process(l, ev->pid))
		count_fork(l, ev->time_ns, frozen ? until : clock_ns(CLOCK_MONOTONIC));
	freeze_release(frozen);
}

/* Freeze the loading thread while probes are placed, so that no op runs without them. If that is
 * not permitted, the thread runs on and the first ops may be missing. */
static void on_map(struct trace_loop *l, const struct follow_event *ev)
{
	enum { WAIT_MS = 1000 };
	struct freeze *frozen = NULL;
	if (injector_is_library(ev->path))
		session_library_came(l->session, ev->pid);
	if (!library_is_needed(ev->path))
		return;
	freeze_thread(ev->tid, WAIT_MS, &frozen);
	if (process_has_all_torch(ev->pid))
		add_process(l, ev->pid);
	freeze_release(frozen);
}

static void on_follow(const struct follow_event *ev, void *arg)
{
	struct trace_loop *l = arg;
	switch (ev->kind) {
	case FOLLOW_MAP:
		if (session_follows(l->session))
			add_process(l, ev->pid);
		else
			on_map(l, ev);
		break;
	case FOLLOW_FORK:
		if (session_follows(l->session))
			add_process(l, ev->pid);
		else
			on_fork(l, ev);
		break;
	case FOLLOW_EXEC:
		session_remove(l->session, ev->pid);
		break;
	case FOLLOW_EXIT:
		session_remove(l->session, ev->pid);
		l->gone |= ev->pid == l->pid && !l->is_child && !l->nothers;
		break;
	case FOLLOW_LEFT:
		err_set(&l->trouble, -ENOSPC,
			"process %d, a child of %d, is not traced: there is no room for more "
			"breakpoints, or its code is not its parent's",
			ev->pid, ev->parent);
		err_hint(&l->trouble, "choose fewer ops, with --ops: each takes some");
		break;
	case FOLLOW_LOST:
		l->lost = true;
		break;
	default:
		break;
	}
}

/* Beside an engine that follows what it is in. */
static void on_follow_beside(const struct follow_event *ev, void *arg)
{
	struct trace_loop *l = arg;
	if ((ev->kind == FOLLOW_MAP && library_is_needed(ev->path)) || ev->kind == FOLLOW_FORK)
		strays_see(&l->strays, l->session, ev->pid);
	l->lost |= ev->kind == FOLLOW_LOST;
}

static void find_process(struct trace_loop *l, pid_t pid)
{
	if (session_follows(l->session))
		strays_see(&l->strays, l->session, pid);
	else if (process_has_all_torch(pid))
		add_process(l, pid);
}

/* Find in /proc what lost records may have reported. */
static void rescan(struct trace_loop *l)
{
	pid_t *pids = NULL;
	struct process p;
	ssize_t n = follow_processes(l->follow, &pids);
	for (ssize_t i = 0; i < n; i++)
		if (!process_read(pids[i], &p, NULL) &&
		    !process_shares_memory(pids[i], p.status.ppid))
			find_process(l, pids[i]);
	free(pids);
}

static void say_once(struct trace_loop *l, int code, const char *what)
{
	if (l->told_lost)
		return;
	l->told_lost = true;
	err_set(&l->trouble, code, "%s; they are looked for in /proc", what);
	err_hint(&l->trouble, "ops of new processes may be missing until they are found; --engine "
			      "ptrace needs no such records");
}

static void read_follow(struct trace_loop *l)
{
	follow_fn *fn = session_follows(l->session) ? on_follow_beside : on_follow;
	int r = follow_read(l->follow, fn, l);
	if (r >= 0 && !l->lost)
		return;
	l->lost = false;
	rescan(l);
	if (r < 0)
		say_once(l, r, "records of new processes cannot be read");
	else
		say_once(l, -ENOBUFS, "records of new processes may have been lost");
}

void trace_loop_note_files(void)
{
	struct err why = {0};
	if (target_files_check(&why))
		err_print(&why);
}

void trace_loop_note(const struct trace_loop *l)
{
	const char *note = session_note(l->session);
	if (note)
		fprintf(stderr, "ditrace: %s\n", note);
	else if (l->is_child && !session_is_quiet(l->session))
		fprintf(stderr, "ditrace: engine %s\n", session_engine(l->session));
	trace_loop_note_files();
}

/* WNOWAIT: the PID stays valid until `child` is cleared, so that signals can be passed on, and
 * until trace_loop_wait /proc tells with which rights what the process named may be opened. */
static int wait_child(struct trace_loop *l, int options)
{
	siginfo_t info = {0};
	while (waitid(P_PID, (id_t)l->pid, &info, WEXITED | WNOWAIT | options))
		if (errno != EINTR)
			return -errno;
	if (info.si_pid != l->pid)
		return 0;
	trace_loop_child_ended();
	l->gone = true;
	l->dumped = info.si_code == CLD_DUMPED;
	l->killed_by = info.si_code == CLD_KILLED || l->dumped ? info.si_status : 0;
	return 0;
}

void trace_loop_tell_end(struct trace_loop *l)
{
	int sig = l->killed_by;
	const char *name = sigabbrev_np(sig);
	l->killed_by = 0;
	if (!sig || sig == SIGINT || sig == SIGPIPE)
		return;
	if (name)
		fprintf(stderr, "ditrace: the program was ended by SIG%s", name);
	else
		fprintf(stderr, "ditrace: the program was ended by signal %d", sig);
	fprintf(stderr, "%s\n", l->dumped ? ", core dumped" : "");
}

int trace_loop_wait(struct trace_loop *l)
{
	int r = l->gone ? 0 : wait_child(l, 0);
	while (!r && waitpid(l->pid, &l->status, 0) < 0)
		r = errno == EINTR ? 0 : -errno;
	return r;
}

int trace_loop_await_thaw(const struct trace_loop *l, struct err *e)
{
	const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
	struct frozen f = {0};
	bool told = false;
	while (frozen_find(l->pid, &f)) {
		if (trace_loop_stopped())
			return frozen_error(l->pid, &f, "nothing was done", e);
		struct err why = {0};
		frozen_error(l->pid, &f, "ditrace waits until it is thawed", &why);
		if (!told)
			err_print(&why);
		told = true;
		fflush(stderr);
		nanosleep(&pause, NULL);
	}
	return 0;
}

static bool is_any_alive(const struct trace_loop *l)
{
	bool alive = process_alive(l->pid);
	for (size_t i = 0; i < l->nothers && !alive; i++)
		alive = process_alive(l->others[i]);
	return alive;
}

void trace_loop_look(struct trace_loop *l)
{
	if (l->is_child)
		wait_child(l, WNOHANG);
	else
		l->gone |= !is_any_alive(l);
}

static void print_failure(struct trace_loop *l, struct err *e)
{
	if (e->code) {
		status_line_clear(&l->progress);
		err_print(e);
	}
	*e = (struct err){0};
}

/* One round. 0; 1: a limit is reached; -errno with *e. */
static int turn(struct trace_loop *l, struct err *e)
{
	struct err output = {0};
	int r = trace_samples_read(l->samples, e);
	if (r)
		return r;
	if (l->follow)
		read_follow(l);
	strays_enter(l->strays, l->session, &l->trouble);
	if (session_follows(l->session))
		session_follow(l->session, on_follow, l);
	r = session_step(l->session, &output);
	if (r < 0) {
		*e = output;
		return r;
	}
	print_failure(l, &output);
	print_failure(l, &l->trouble);
	return r;
}

static int some_turns(struct trace_loop *l, struct err *e)
{
	enum { TURNS = 8 };
	int r = 0;
	for (unsigned i = 0; i < TURNS && !r; i++)
		r = turn(l, e);
	return r;
}

/* What came in between is handled before threads are stopped again: theirs no longer are. */
static int halt(struct trace_loop *l, struct err *e)
{
	status_line_clear(&l->progress);
	session_set_away(l->session, true);
	int r = some_turns(l, e);
	if (r)
		return r;
	intervene_beside_set_away(l->change, true);
	trace_loop_halt(
	    "what did not fit into its buffers meanwhile is summed up (engine shim), or "
	    "lost, and counted as such");
	intervene_beside_set_away(l->change, false);
	r = some_turns(l, e);
	session_set_away(l->session, false);
	return r;
}

static void show_status(struct trace_loop *l)
{
	uint64_t ops, bytes, lost;
	session_progress(l->session, &ops, &bytes, &lost);
	status_line_show(&l->progress, "op", ops, bytes, lost);
}

int trace_loop_run(struct trace_loop *l, struct err *e)
{
	struct pollfd fds[] = {
	    {.fd = l->follow ? follow_fd(l->follow) : -1, .events = POLLIN},
	    {.fd = session_wake(l->session), .events = POLLIN},
	    {.fd = trace_samples_fd(l->samples), .events = POLLIN},
	};
	int r = 0;
	thread_hurry(false); /* the engine's ring buffer overflows unless it is drained in time */
	for (unsigned n = 0; !trace_loop_stopped() && !l->gone && r == 0; n++) {
		poll(fds, 3, session_pause(l->session));
		r = trace_loop_halts() ? halt(l, e) : turn(l, e);
		if (n % 16 == 0)
			trace_loop_look(l);
		if (status_line_due(&l->progress))
			show_status(l);
	}
	status_line_clear(&l->progress);
	strays_free(l->strays);
	l->strays = NULL;
	tell_forks(l);
	return r < 0 ? r : 0;
}
