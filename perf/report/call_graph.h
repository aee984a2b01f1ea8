/* The tree of calls as people and as programs read it. */
#ifndef PERF_REPORT_CALL_GRAPH_H
#define PERF_REPORT_CALL_GRAPH_H

#include <stdbool.h>
#include <stdio.h>

#include "base/terminal.h"
#include "perf/report/call_tree.h"

struct call_graph_opts {
	bool callers;	      /* from each op outwards, else from the outermost frames inwards */
	uint64_t observed_ns; /* what percentages are of */
	bool samples;	      /* the tree is of samples */
	double percent_limit; /* leave out what is below */
	struct terminal terminal;
};

/* A line a node, children below their parent, those with the most time first. 0, -ENOMEM, -EIO. */
int call_graph_print(FILE *f, struct call_tree *t, const struct call_graph_opts *opts);

/* An array of {"name", "kind" ("op", "frame"), "calls", "self_ns", "total_ns", "percent",
 * "children"}. Of callers self_ns is 0 below the ops, and total_ns what an op spent itself when it
 * was called so. */
int call_graph_print_json(FILE *f, struct call_tree *t, const struct call_graph_opts *opts);

/* The same with a header, a line a node: depth, kind, name, calls, self_ns, total_ns, percent. */
int call_graph_print_csv(FILE *f, struct call_tree *t, const struct call_graph_opts *opts);

#endif
