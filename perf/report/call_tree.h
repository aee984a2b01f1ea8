/* Who called whom: Python frames and the ops below them, summed up while the events come. Memory
 * grows with the number of distinct stacks, never with the number of events. */
#ifndef PERF_REPORT_CALL_TREE_H
#define PERF_REPORT_CALL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/terminal.h"
#include "symbolizer/event/event.h"

enum { CALL_TREE_ROOT = UINT32_MAX };

struct call_node {
	const char *name; /* of an op; of a frame "function (train.py:33)". Equal names of one kind
			     are the same string */
	uint32_t name_id; /* equal for equal names of one kind */
	uint32_t parent;  /* its index, less than the node's own; CALL_TREE_ROOT: none */
	bool is_op;
	uint64_t calls;	   /* of an op: those that ended */
	uint64_t self_ns;  /* of an op: without other ops that it called; of a frame 0 but by
			      samples */
	uint64_t total_ns; /* with all below; set by call_tree_nodes */
};

struct call_tree;

/* NULL without memory. */
struct call_tree *call_tree_new(void);

/* What makes a branch. Of a sample, in MIXED the native frames are those of what the innermost
 * Python frame called, with the op among them; PYTHON: Python frames and the op. Events have no
 * native frames: but in OPS theirs are Python frames and ops. */
enum call_frames { CALL_MIXED, CALL_PYTHON, CALL_NATIVE, CALL_OPS };

/* Add one event; events come in the order in which they started, and the ops and stacks behind
 * their pointers stay until call_tree_free. An event whose parent was not added stands below its
 * Python frames alone. 0 or -ENOMEM. */
int call_tree_add(struct call_tree *t, const struct op_event *ev, enum call_frames which);

/* Add one sample; what it points to stays until call_tree_free. A node's calls and self_ns are the
 * samples that end there, and their weights. 0 or -ENOMEM. */
int call_tree_add_sample(struct call_tree *t, const struct sample *s, enum call_frames which);

/* The same; *node is the index of the node where it ends. */
int call_tree_sample_node(struct call_tree *t, const struct sample *s, enum call_frames which,
			  uint32_t *node);

/* All nodes; valid until the next call_tree_add. */
const struct call_node *call_tree_nodes(struct call_tree *t, size_t *n);

/* The tree the other way: below each op what called it, out to the outermost frame. A node's
 * total_ns is what the op spent itself when it was called so, and its calls are the op's. `t` must
 * stay; free with call_tree_free. NULL without memory. */
struct call_tree *call_tree_callers(struct call_tree *t);

void call_tree_free(struct call_tree *t);

/* The tree of calls as people and as programs read it. */

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
