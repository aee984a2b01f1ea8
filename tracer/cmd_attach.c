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
