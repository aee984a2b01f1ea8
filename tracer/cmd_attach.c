#define _GNU_SOURCE
#include "tracer/cmd_attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "symbolizer/target/process.h"
#include "tracer/intervene_run.h"

static int no_torch(pid_t pid, struct err *e)
{
	char line[256];
	err_set(e, -ENOENT, "process %d (%s) has no PyTorch loaded", pid,
		process_cmdline(pid, line, sizeof(line)));
	return err_hint(e, "if it is going to load it, wait with: ditrace attach --wait %d", pid);
}

/* Children are followed where the kernel permits; tracing the process itself does not depend on it.
 * This begins before the engine is known, so that none is missed. */
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
		follow_free(l->follow);
		l->follow = NULL;
		return session_watch(l->session, l->pid, e);
	}
	if (!l->follow)
		fprintf(stderr, "ditrace: children of %d will not be traced: %s\n", l->pid,
			why->what);
	return 0;
}

int attach_start(struct trace_loop *l, struct session_opts *o, bool wait, struct err *e)
{
	struct err why = {0};
	int r = process_check(l->pid, e);
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
	if (r || has_torch)
		return r;
	fprintf(stderr, "ditrace: waiting for process %d to load PyTorch\n", l->pid);
	return session_has_torch(l->pid) ? session_add(l->session, l->pid, e) : 0;
}

int cmd_attach(int argc, char **argv)
{
	bool wait = false;
	struct intervene_opts change = {0};
	struct session_opts o = {.output = "ditrace.data", .depth = SESSION_ALL_LEVELS};
	const struct option_def options[] = {
	    TRACE_OPTIONS(o),
	    CAPTURE_OPTIONS(o.capture),
	    MEASURE_OPTIONS(o.measure),
	    INTERVENE_OPTIONS(change),
	    {0, "for", OPTION_DURATION, &o.for_ns, "TIME", "detach after TIME (10s, 500ms)", NULL},
	    {0, "count", OPTION_COUNT, &o.count, "N", "detach after N events", NULL},
	    {0, "wait", OPTION_FLAG, &wait, NULL, "wait until the process loads PyTorch", NULL},
	    {0},
	};
	const struct command command = {
	    .name = "attach",
	    .operands = "PID",
	    .about = "Trace a running process and its children; Ctrl-C detaches and it runs on.",
	    .options = options,
	    .min_operands = 1,
	    .max_operands = 1,
	};
	struct err e = {0};
	struct trace_loop l = {0};
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	int r = process_parse_pid(argv[first], &l.pid, &e);
	if (!r && intervene_run_wanted(&change, &o))
		return intervene_attach(&change, &o, l.pid, wait);
	if (!r)
		trace_loop_signals(&l);
	r = r ? r : attach_start(&l, &o, wait, &e);
	r = r ? r : trace_loop_run(&l, &e);
	trace_samples_finish(l.samples);
	if (!r) {
		e = (struct err){0};
		r = session_finish(l.session, &e);
	}
	if (e.code)
		err_print(&e);
	session_close(l.session);
	follow_free(l.follow);
	return r ? EXIT_FAILED : EXIT_GOOD;
}
