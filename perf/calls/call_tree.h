/* The call tree of Python frames and the ops below them, built as events come. Memory grows with
 * the number of distinct stacks, never with the number of events. */
#ifndef PERF_CALLS_CALL_TREE_H
#define PERF_CALLS_CALL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/map.h"
#include "base/text.h"
#include "symbolizer/event/event.h"

enum { CALL_TREE_ROOT = UINT32_MAX };

/* What was done with memory, in bytes. */
struct call_memory {
	uint64_t allocated, freed;
};

struct call_node {
	const char *name; /* op, for people by op_text, or frame "function (train.py:33)"; equal
			     names of a kind share the string */
	uint32_t name_id; /* equal for equal names of one kind */
	uint32_t parent;  /* index, less than the node's own, or CALL_TREE_ROOT */
	bool is_op;
	bool folds;	   /* text leaves it out between others: Python frames
				     of torch and of what imports, native ones of the
				     interpreter and those without a name */
	uint8_t phase;	   /* enum op_phase of an op's first event; of a frame 0; PHASES: what a
			      device did, with is_op */
	uint64_t calls;	   /* of an op: finished calls */
	uint64_t self_ns;  /* of an op: less the ops it called; of a frame 0, except with samples */
	uint64_t total_ns; /* with all nodes below; set by call_tree_nodes */
	/* Of an op less the ops it called; with all nodes below, set by call_tree_nodes. */
	struct call_memory self_memory[MEMORY_KINDS], memory[MEMORY_KINDS];
};

struct call_tree;

/* NULL if out of memory. */
struct call_tree *call_tree_new(void);

/* What becomes a node. Of a sample: MIXED is Python frames, the native frames below the innermost
 * of them, and the op among these; PYTHON is Python frames and the op; NATIVE is native frames.
 * Of an event: OPS is ops alone, PYTHON Python frames and ops, all others also the C++ callers
 * between these, if they were recorded (op_event.native); with
 * BESIDE what autograd runs stands below the frames that locate its forward op, and ops of
 * different phases are different nodes. */
enum call_frames { CALL_MIXED, CALL_PYTHON, CALL_NATIVE, CALL_OPS, CALL_BESIDE };

enum { CALL_FRAME_TEXT_MAX = 512 };

/* The name of a frame's node: "function (train.py:33)", without the line if that is 0. Returns its
 * length. */
size_t call_frame_text(char out[CALL_FRAME_TEXT_MAX], const struct py_frame *f);

/* Add one event; events come in the order in which they started. The ops and stacks they point to
 * must stay valid until call_tree_free. An event whose parent was not added is placed below its
 * Python frames alone. 0 or -ENOMEM. */
int call_tree_add(struct call_tree *t, const struct op_event *ev, enum call_frames which);

/* Add calls that were summed up, below their Python frames alone. 0 or -ENOMEM. */
int call_tree_add_sum(struct call_tree *t, const struct op_sum *s, enum call_frames which);

/* Add what a device did, below the op that launched it and the frames that locate that, as with
 * BESIDE; its calls are the times it ran, its self_ns is the time on the device. What it points to
 * must stay valid until call_tree_free. 0 or -ENOMEM. */
int call_tree_add_activity(struct call_tree *t, const struct activity *a);

/* Add what was done with memory, to the node of the op that did it, whether that was added before,
 * which need not be long ago, or comes; below the op's Python frames alone if it does neither. What
 * it points to must stay valid until call_tree_free. 0 or -ENOMEM. */
int call_tree_add_memory(struct call_tree *t, const struct memory_event *m, enum call_frames which);

/* Whether memory of this kind was added. */
bool call_tree_has_memory(const struct call_tree *t, enum memory_kind kind);

/* Add one sample; what it points to must stay valid until call_tree_free. A node's calls are then
 * the number of samples that end there, its self_ns the sum of their weights. 0 or -ENOMEM. */
int call_tree_add_sample(struct call_tree *t, const struct sample *s, enum call_frames which);

/* Like call_tree_add_sample; *node is the index of the node where the sample ends. */
int call_tree_sample_node(struct call_tree *t, const struct sample *s, enum call_frames which,
			  uint32_t *node);

/* All nodes, with total_ns and memory; valid until the next node is added. */
const struct call_node *call_tree_nodes(struct call_tree *t, size_t *n);

/* The inverted tree: below each op, and each frame with self time, its callers out to the outermost
 * frame. A node's total_ns, and its memory, is what the op has itself when called along that path,
 * its calls are the op's. `t` must outlive it; free with call_tree_free. NULL if out of memory. */
struct call_tree *call_tree_callers(struct call_tree *t);

void call_tree_free(struct call_tree *t);

/* The call graph as text, JSON and CSV. */

struct call_graph_opts {
	bool callers; /* from each op out to its callers; else from the outermost frames in */
	uint64_t observed_ns; /* the base of percentages */
	bool samples;	      /* the tree is of samples */
	bool all;	      /* as text: frames that fold, too */
	double percent_limit; /* leave out nodes below it */
	struct terminal terminal;
};

/* A line for each node, children below their parent, longest time first. Frames of torch are left
 * out, as a stack's are, but those that nothing else called, or was called by: what they called
 * stands in their place. 0, -ENOMEM or -EIO. */
int call_graph_print(FILE *f, struct call_tree *t, const struct call_graph_opts *opts);

/* A JSON array of {"name", "kind" ("op", "frame"), "calls", "self_ns", "total_ns", "percent",
 * "children"}, and, of a trace with memory, what all nodes below did with it, too: "alloc_bytes",
 * "freed_bytes", "device_alloc_bytes", "device_freed_bytes". With callers, self_ns is 0 below the
 * ops, and total_ns the self time of the op when called along that path. 0, -ENOMEM or -EIO. */
int call_graph_print_json(FILE *f, struct call_tree *t, const struct call_graph_opts *opts);

/* CSV with a header: depth, kind, name, calls, self_ns, total_ns, percent, and those of memory. 0,
 * -ENOMEM or -EIO. */
int call_graph_print_csv(FILE *f, struct call_tree *t, const struct call_graph_opts *opts);

/* What is known of calls before they are added, which is when they end: what devices did, and what
 * was done with memory. */

struct awaited_call {
	struct op_event of; /* what it points to is valid as long as the trace is open */
	bool came;
	uint64_t activities, ns;
	struct call_memory memory[MEMORY_KINDS];
};

/* Zero-initialise. */
struct awaited {
	struct map ids; /* index in `calls` */
	struct awaited_call *calls;
	size_t n, room;
};

/* The call, which need not be awaited yet, until the next one is. 0, -ENOMEM, or -ENOSPC: no more
 * can be awaited. */
int awaited_at(struct awaited *a, const struct op_event *of, struct awaited_call **out);

/* The call comes: what is known of it, NULL if that is nothing. */
const struct awaited_call *awaited_take(struct awaited *a, uint64_t id);

/* None is awaited any more. */
void awaited_clear(struct awaited *a);
void awaited_free(struct awaited *a);

#endif
