/* Tracing of running processes, from the first to the last: attach, and what monitor uses of it. */
#define _GNU_SOURCE
#include "base/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/thread_facts.h"
#include "tracer/trace_loop.h"

static void tell_attached(struct trace_loop *l)
{
	char n[32];
	unsigned ops = session_ops(l->session);
	fprintf(stderr, "ditrace: attached to %d", l->pid);
	if (l->nothers)
		fprintf(stderr, " and %zu more", l->nothers);
	if (ops)
		fprintf(stderr, ", %s, engine %s", text_counted(n, sizeof(n), ops, "op"),
			session_engine(l->session));
	fputs(", Ctrl-C detaches\n", stderr);
	fflush(stderr);
	status_line_open(&l->progress);
}

/* The first that has PyTorch is the one that decides what is traced. */
static void choose_first(struct process_list *l)
{
	size_t first = 0;
	while (first < l->n && !process_has_torch(l->pids[first]))
		first++;
	if (first == 0 || first == l->n)
		return;
	pid_t pid = l->pids[first];
	memmove(l->pids + 1, l->pids, first * sizeof(*l->pids));
	l->pids[0] = pid;
}

int attach_pids(char **words, int n, bool tree, struct process_list *out, struct err *e)
{
	int r = 0;
	for (int i = 0; i < n && !r; i++) {
		pid_t pid;
		r = process_parse_pid(words[i], &pid, e);
		if (!r && process_list_add(out, pid))
			r = err_set(e, -ENOMEM, "no memory");
	}
	if (!r && tree && process_list_add_below(out))
		r = err_set(e, -ENOMEM, "no memory");
	if (!r)
		choose_first(out);
	return r;
}

/* Before the engine comes: ptrace lets nothing else in. */
static int begin_changes(struct trace_loop *l, struct session_opts *o,
			 struct intervene_opts *change, bool wait, struct err *e)
{
	int r = process_check(l->pid, e);
	r = r ? r : trace_loop_await_thaw(l, e);
	r = r ? r : intervene_await_torch(l, wait, e);
	return r ? r : intervene_beside_open(change, o, l->pid, &l->change, e);
}

int attach_run(const struct process_list *pids, struct session_opts *o,
	       struct intervene_opts *change, bool wait)
{
	struct trace_loop loop = {.pid = pids->pids[0],
				  .others = pids->pids + 1,
				  .nothers = pids->n - 1},
			  *l = &loop;
	struct err e = {0};
	trace_loop_signals(l);
	int r = change ? begin_changes(l, o, change, wait, &e) : 0;
	r = r ? r : start_attached(l, o, wait, &e);
	if (!r)
		tell_attached(l);
	r = r ? r : trace_loop_run(l, &e);
	trace_samples_finish(l->samples);
	if (!r) {
		e = (struct err){0};
		r = session_finish(l->session, &e);
	}
	if (e.code)
		err_print(&e);
	int said = l->session ? session_status(l->session) : EXIT_GOOD;
	session_close(l->session);
	follow_free(l->follow);
	intervene_beside_close(l->change);
	return r ? EXIT_FAILED : said;
}

int cmd_attach(int argc, char **argv)
{
	bool wait = false, tree = false;
	struct process_list pids = {0};
	struct intervene_opts change = {0};
	struct session_opts o = {.depth = SESSION_ALL_LEVELS};
	const struct option_def options[] = {
	    TRACE_OPTIONS(o),
	    CAPTURE_OPTIONS(o.capture),
	    STATS_OPTIONS(o.measure),
	    INTERVENE_OPTIONS(change),
	    PID_OPTION,
	    LIMIT_OPTIONS(o),
	    {0, "tree", OPTION_FLAG, &tree, NULL, "and what it has started: all ranks of torchrun",
	     NULL},
	    {0, "wait", OPTION_FLAG, &wait, NULL, "wait until the process loads PyTorch", NULL},
	    {0},
	};
	const struct command command = {
	    .name = "attach",
	    .operands = "PID...",
	    .about =
		"Trace running processes and their new children; Ctrl-C detaches, they run on.",
	    .options = options,
	    .min_operands = 1,
	    .max_operands = -1,
	};
	struct err e = {0};
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	int r = attach_pids(argv + first, argc - first, tree, &pids, &e);
	if (!r)
		intervene_choose_inside(&change, &o, pids.pids[0]);
	bool traces = intervene_traces(&o), changes = intervene_run_wanted(&change, &o, traces);
	trace_default_output(&o);
	o.one_file = !tree && argc - first == 1;
	r = r ? r : check_options(&o, &change, changes, &e);
	if (!r && changes && pids.n > 1) {
		r = err_set(&e, -EINVAL, "functions are changed in one process at a time");
		err_hint(&e, "start a ditrace for each process");
	}
	if (r) {
		err_print(&e);
		return EXIT_USAGE;
	}
	status = changes && !traces ? intervene_attach(&change, &o, pids.pids[0], wait)
				    : attach_run(&pids, &o, changes ? &change : NULL, wait);
	process_list_free(&pids);
	return status;
}
