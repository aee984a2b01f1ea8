/* Samples in the call tree. */
#include <errno.h>
#include <string.h>

#include "perf/calls/internal.h"

/* Whether the function is an op's dispatcher: at::_ops::mm::call. */
static bool is_dispatch(const char *function)
{
	static const char ops[] = "at::_ops::";
	return !strncmp(function, ops, sizeof(ops) - 1);
}

/* Number of native frames called by the interpreter's innermost frame; all of them if there is no
 * Python. */
static unsigned inside_python(const struct sample *s)
{
	unsigned i = 0;
	if (!s->native || !(s->python || s->mismatched))
		return s->native ? s->native->depth : 0;
	while (i < s->native->depth &&
	       strncmp(s->native->frames[i]->function, "_PyEval_EvalFrame", 17) != 0)
		i++;
	return i;
}

static unsigned inside_op(const struct sample *s, unsigned most)
{
	for (unsigned i = 0; i < most; i++)
		if (is_dispatch(s->native->frames[i]->function))
			return i;
	return most;
}

static int64_t sample_node(struct call_tree *t, const struct sample *s, enum call_frames which)
{
	struct op_event ev;
	int64_t node = CALL_TREE_ROOT;
	unsigned native = which == CALL_MIXED		      ? inside_python(s)
			  : which == CALL_NATIVE && s->native ? s->native->depth
							      : 0;
	unsigned op = which == CALL_MIXED && s->op ? inside_op(s, native) : native;
	sample_as_event(s, &ev);
	if ((which == CALL_MIXED || which == CALL_PYTHON) && ev.stack)
		node = call_stack_node(t, CALL_TREE_ROOT, ev.stack, 0);
	node = call_native_nodes(t, node, s->native, native, op);
	if (node >= 0 && which != CALL_NATIVE && (s->op || which == CALL_OPS))
		node = call_node_of(t, (uint32_t)node, call_op_name(t, ev.op), true);
	if (node >= 0 && node != CALL_TREE_ROOT && t->nodes[node].is_op)
		t->nodes[node].phase = s->phase;
	node = call_native_nodes(t, node, s->native, op, 0);
	/* A sample without any frame to show still has to be counted. */
	if (node == CALL_TREE_ROOT) {
		static const struct py_frame none = {.file = "-", .function = "(unknown)"};
		node = call_node_of(t, CALL_TREE_ROOT, call_frame_name(t, &none), false);
	}
	return node;
}

int call_tree_sample_node(struct call_tree *t, const struct sample *s, enum call_frames which,
			  uint32_t *out)
{
	int64_t node = sample_node(t, s, which);
	if (node < 0)
		return -ENOMEM;
	t->nodes[node].calls++;
	t->nodes[node].self_ns += s->weight;
	*out = (uint32_t)node;
	return 0;
}

int call_tree_add_sample(struct call_tree *t, const struct sample *s, enum call_frames which)
{
	uint32_t node;
	return call_tree_sample_node(t, s, which, &node);
}
