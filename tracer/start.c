#include "tracer/internal.h"

#include <errno.h>
#include <stdio.h>

#include "symbolizer/target/process.h"

static int no_torch(pid_t pid, struct err *e)
{
	char line[256];
	err_set(e, -ENOENT, "process %d (%s) has no PyTorch loaded", pid,
		process_cmdline(pid, line, sizeof(line)));
	return err_hint(e, "if it is going to load it, wait with: ditrace attach --wait %d", pid);
}

/* Follow children if the kernel permits it; tracing the process itself does not depend on it.
 * Called before probes are placed, so that no child is missed, even if the engine turns out to
 * follow by itself. */
static void follow(struct trace_loop *l, struct err *why)
{
	if (!follow_new(&l->follow, why) && !follow_add_process(l->follow, l->pid, why))
		return;
	follow_free(l->follow);
	l->follow = NULL;
}

static int follow_by_engine(struct trace_loop *l, const struct err *why, struct err *e)
{
	if (session_follows(l->session)) {
		if (!session_enters(l->session)) {
			follow_free(l->follow);
			l->follow = NULL;
		}
		return session_watch(l->session, l->pid, e);
	}
	if (!l->follow)
		fprintf(stderr, "ditrace: children of %d will not be traced: %s\n", l->pid,
			why->what);
	return 0;
}

/* Those without PyTorch are followed: what they start may have it. */
static int add_other(struct trace_loop *l, pid_t pid, struct err *e)
{
	struct err why = {0};
	int r = process_check(pid, e);
	if (r)
		return r;
	if (l->follow && follow_add_process(l->follow, pid, &why))
		l->trouble = why;
	if (session_has_torch(pid)) {
		session_expect(l->session, pid);
		r = session_add(l->session, pid, e);
	}
	return r || !session_follows(l->session) ? r : session_watch(l->session, pid, e);
}

/* One that has ended meanwhile is none of them any more. */
static int add_others(struct trace_loop *l, struct err *e)
{
	for (size_t i = 0; i < l->nothers; i++) {
		struct err why = {0};
		int r = add_other(l, l->others[i], &why);
		if (r && r != -ESRCH) {
			*e = why;
			return r;
		}
	}
	if (l->nothers)
		session_start_time(l->session);
	return 0;
}

int start_attached(struct trace_loop *l, struct session_opts *o, bool wait, struct err *e)
{
	struct err why = {0};
	int r = process_check(l->pid, e);
	r = r ? r : trace_loop_await_thaw(l, e);
	if (r)
		return r;
	bool has_torch = session_has_torch(l->pid);
	if (!has_torch && !wait)
		return no_torch(l->pid, e);
	o->pid = has_torch ? l->pid : 0;
	o->attach = l->pid;
	r = session_open(o, &l->session, e);
	if (r)
		return r;
	r = trace_samples_open(o->sample, l->session, &l->samples, e);
	r = r ? r : trace_samples_add_process(l->samples, l->pid, e);
	if (r)
		return r;
	follow(l, &why);
	r = has_torch ? session_add(l->session, l->pid, e) : 0;
	if (r)
		return r;
	trace_loop_note(l);
	r = follow_by_engine(l, &why, e);
	r = r ? r : add_others(l, e);
	if (r || has_torch)
		return r;
	fprintf(stderr, "ditrace: waiting for process %d to load PyTorch\n", l->pid);
	return session_has_torch(l->pid) ? session_add(l->session, l->pid, e) : 0;
}

/* Not optional here: without the kernel's records nothing would report that a library was mapped;
 * but where the library inside does, they tell only of those that are started without it. */
static int follow_child(struct trace_loop *l, pid_t pid, struct err *e)
{
	struct err why = {0};
	const bool alone = session_follows(l->session);
	int r = alone ? session_watch(l->session, pid, e) : 0;
	if (r || (alone && !session_enters(l->session)))
		return r;
	r = follow_new(&l->follow, &why);
	r = r ? r : follow_add_child(l->follow, pid, &why);
	if (r && !alone) {
		*e = why;
	} else if (r) {
		follow_free(l->follow);
		l->follow = NULL;
		r = 0;
	}
	return r;
}

int start_program(struct trace_loop *l, const struct session_opts *o, char *const argv[],
		  const struct spawn_caller *caller, int *status, struct err *e)
{
	struct spawn child;
	*status = EXIT_FAILED;
	int r = session_open(o, &l->session, e);
	if (r)
		return r;
	trace_loop_note(l);
	r = spawn_prepare(argv, caller, session_tracer(l->session), &child, e);
	if (r)
		return r;
	r = trace_samples_open(o->sample, l->session, &l->samples, e);
	r = r ? r : trace_samples_add_child(l->samples, child.pid, e);
	r = r ? r : follow_child(l, child.pid, e);
	if (r) {
		spawn_cancel(&child);
		return r;
	}
	l->pid = child.pid;
	trace_loop_signals(l);
	r = spawn_release(&child, argv, e);
	if (r)
		*status = spawn_failure_status(r);
	return r;
}
