/* Internal to perf/calls: the nodes of a call tree. */
#ifndef PERF_CALLS_INTERNAL_H
#define PERF_CALLS_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "perf/calls/call_tree.h"

/* An op whose children may still come. */
struct open_op {
	uint64_t id;
	uint32_t node;
	const struct py_stack *stack, *native;
};

struct tree_thread {
	struct open_op *open;
	size_t n, room;
};

enum { CALLS_RECENT = 1 << 15 };

struct call_tree {
	struct intern thread_ids;
	struct tree_thread *threads;
	size_t threads_room;
	struct intern names;	 /* frames (file, label) and ops */
	const char **name_texts; /* by id in `names` */
	size_t names_room;
	struct arena texts;
	struct intern node_ids;	 /* struct node_key */
	struct intern stack_ids; /* struct stack_key */
	uint32_t *stack_nodes;	 /* by id in `stack_ids`: the node of the innermost frame */
	size_t stacks_room;
	struct map op_names; /* op_desc to id in `names` */
	struct call_node *nodes;
	size_t nodes_room;
	bool has_totals; /* set by call_tree_callers, not summed from children */
	bool has_memory[MEMORY_KINDS];
	enum call_frames memory_frames;
	uint64_t recent_id[CALLS_RECENT]; /* of ops, by id modulo CALLS_RECENT, */
	uint32_t recent_node[CALLS_RECENT];
	struct awaited early; /* memory of ops that were not added yet */
};

/* Of nodes and names: ids, or -ENOMEM. */

/* Of an op; of what `of` stands for, by its address; of a frame. */
int64_t call_op_name(struct call_tree *t, const struct op_desc *op);
int64_t call_name_of(struct call_tree *t, const void *of, const char *name);
int64_t call_frame_name(struct call_tree *t, const struct py_frame *f);

/* name: an id, or an error, which is returned. phase: of an op that is a node of its own in
 * each phase; else 0. */
int64_t call_node_in_phase(struct call_tree *t, uint32_t parent, int64_t name, bool is_op,
			   uint8_t phase);
int64_t call_node_of(struct call_tree *t, uint32_t parent, int64_t name, bool is_op);

/* The node of the innermost frame of `stack` below `parent`, less the `outer` outermost
 * frames. */
int64_t call_stack_node(struct call_tree *t, uint32_t parent, const struct py_stack *stack,
			uint16_t outer);

/* That of frame `to` (0: innermost), with those from `from` - 1 on above it, below `node`.
 */
int64_t call_native_nodes(struct call_tree *t, int64_t node, const struct py_stack *stack,
			  unsigned from, unsigned to);

static inline void call_memory_add(struct call_memory *to, const struct call_memory *from)
{
	for (int k = 0; k < MEMORY_KINDS; k++) {
		to[k].allocated += from[k].allocated;
		to[k].freed += from[k].freed;
	}
}

#endif
