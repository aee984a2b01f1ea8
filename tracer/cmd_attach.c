#define _GNU_SOURCE
#include "base/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "symbolizer/target/process.h"
#include "tracer/internal.h"

static void tell_attached(struct trace_loop *l)
{
	char n[32];
	unsigned ops = session_ops(l->session);
	fprintf(stderr, "ditrace: attached to %d", l->pid);
	if (ops)
		fprintf(stderr, ", %s, engine %s", text_counted(n, sizeof(n), ops, "op"),
			session_engine(l->session));
	fputs(", Ctrl-C detaches\n", stderr);
	fflush(stderr);
	status_line_open(&l->progress);
}

int cmd_attach(int argc, char **argv)
{
	bool wait = false;
	struct intervene_opts change = {0};
	struct session_opts o = {.depth = SESSION_ALL_LEVELS};
	const struct option_def options[] = {
	    TRACE_OPTIONS(o),
	    CAPTURE_OPTIONS(o.capture),
	    STATS_OPTIONS(o.measure),
	    INTERVENE_OPTIONS(change),
	    {0, "for", OPTION_DURATION, &o.for_ns, "TIME", "detach after TIME (10s, 500ms)", NULL},
	    {0, "count", OPTION_POSITIVE, &o.count, "N", "detach after N events", NULL},
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
	trace_default_output(&o);
	o.one_file = true;
	int r = process_parse_pid(argv[first], &l.pid, &e);
	bool changes = intervene_run_wanted(&change, &o);
	r = r ? r : check_options(&o, &change, changes, &e);
	if (r) {
		err_print(&e);
		return EXIT_USAGE;
	}
	if (changes)
		return intervene_attach(&change, &o, l.pid, wait);
	trace_loop_signals(&l);
	r = start_attached(&l, &o, wait, &e);
	if (!r)
		tell_attached(&l);
	r = r ? r : trace_loop_run(&l, &e);
	trace_samples_finish(l.samples);
	if (!r) {
		e = (struct err){0};
		r = session_finish(l.session, &e);
	}
	if (e.code)
		err_print(&e);
	bool found = l.session && session_found(l.session);
	session_close(l.session);
	follow_free(l.follow);
	return r ? EXIT_FAILED : found ? EXIT_FOUND : EXIT_GOOD;
}
