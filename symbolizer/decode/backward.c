/* The stack of an op, and in the backward the line that it belongs to. */
#include <string.h>

#include "symbolizer/decode/internal.h"
#include "symbolizer/python/python.h"

const struct py_stack *decoder_frames(struct target *t, const struct item *i,
				      const struct py_stack *around, uint64_t when)
{
	const uint64_t(*frames)[3] = (const uint64_t(*)[3])(i + 1);
	size_t n = i->len / STACK_FRAME_SIZE, own = i->aux >> STACK_OWN_SHIFT;
	bool cut = i->aux & STACK_CUT;
	return own ? py_stack_intern_backward(t->py, frames, n, own, around, cut, when)
		   : py_stack_intern_at(t->py, frames, n, cut, when);
}

bool open_op_is_node(const struct open_op *o)
{
	return o->probe->role == ROLE_NODE || o->probe->role == ROLE_PY_NODE ||
	       o->probe->role == ROLE_NAMED_NODE;
}

/* The number of Python frames outside the backward's own; of a node, outside those of what it
 * calls.
 */
static uint32_t frames_outside(const struct open_op *o)
{
	uint32_t depth = o->ev.stack ? o->ev.stack->depth : 0,
		 own = open_op_is_node(o) ? 0 : o->own;
	return depth > own ? depth - own : 0;
}

/* Whether an op with frames of its own, and that many outside, runs in the backward of the op or
 * node `up`, which encloses it; not if Python code in between has called the engine. */
static bool is_backward_of(const struct open_op *up, uint32_t outside)
{
	return up && phase_is_backward(up->ev.phase) && frames_outside(up) == outside;
}

/* The stack of the forward op in whose backward `up` runs. */
static const struct py_stack *forward_of(const struct open_op *up)
{
	return up->own && !open_op_is_node(up) ? up->ev.backward_of : up->ev.where_stack;
}

void open_op_set_stack(struct target *t, struct open_op *o, const struct open_op *up,
		       const struct items *it, uint64_t when)
{
	const struct item *i = items_stack(it);
	const struct py_stack *known, *around = NULL;
	struct native_raw raw;
	uint32_t unused;
	const bool is_native = items_native(it, &raw) && target_callers(t);
	if (is_native && raw.to_python)
		o->ev.native = native_callers_stack(t->callers, &raw, &unused);
	if (i && i->aux & STACK_LEFT_OUT) {
		o->own = i->aux >> STACK_OWN_SHIFT;
		o->ev.stack = &py_stack_left_out;
		return;
	}
	if (!i || !t->py || (i->aux & STACK_NONE)) {
		if (is_native && !raw.to_python)
			o->ev.stack = native_callers_stack(t->callers, &raw, &o->own);
		return;
	}
	/* Same as the stack of the enclosing op; within a node, Python code of its backward has
	 * called nothing yet. */
	if (i->aux & STACK_SAME) {
		o->ev.stack = up ? up->ev.stack : NULL;
		o->own = up && !open_op_is_node(up) ? up->own : 0;
		return;
	}
	o->own = i->aux >> STACK_OWN_SHIFT;
	if (i->aux & STACK_KNOWN) {
		o->ev.stack = (memcpy(&known, i + 1, sizeof(known)), known);
		return;
	}
	if (is_backward_of(up, i->len / STACK_FRAME_SIZE - o->own))
		around = forward_of(up);
	o->ev.stack = decoder_frames(t, i, around, when);
}

/* The phase of an op that Python code of the backward calls. */
static enum op_phase own_phase(const struct open_op *o)
{
	for (uint32_t i = 0; o->ev.stack && i < o->own && i < o->ev.stack->depth; i++)
		if (py_frame_is_checkpoint(o->ev.stack->frames[i]))
			return PHASE_RECOMPUTE;
	return PHASE_BACKWARD;
}

/* What autograd's engine does with the results of a node (torch/csrc/autograd/engine.cpp). In
 * Engine::evaluate_function the node's apply is followed by validate_outputs, which sums gradients
 * of broadcast arguments (at::sum_to) and converts dtypes, devices and complex ones; by the test
 * for NaN of torch.autograd.detect_anomaly; and by the accumulation into the inputs of the next
 * nodes, which is not the node's: an addition. */
static const char *const ops_after_node[] = {"sum",	 "view",	 "view_copy", "to",
					     "_to_copy", "real",	 "imag",      "isnan",
					     "any",	 "_is_any_true", "item"};

static bool is_after_node(const char *name)
{
	static const char aten[] = "aten::";
	const char *base = name + sizeof(aten) - 1;
	bool is = false;
	if (strncmp(name, aten, sizeof(aten) - 1) != 0)
		return false;
	const size_t len = strcspn(base, ".");
	for (size_t i = 0; i < sizeof(ops_after_node) / sizeof(ops_after_node[0]) && !is; i++)
		is = len == strlen(ops_after_node[i]) && !memcmp(base, ops_after_node[i], len);
	return is;
}

bool after_node_locate(const struct after_node *a, struct op_event *op)
{
	if (!a->is || a->depth != op->depth || a->stack != op->stack ||
	    !(a->accumulates || is_after_node(op->op->name)))
		return false;
	op->where_stack = a->where_stack;
	op->backward_of = a->backward_of;
	op->forward_id = a->forward_id;
	return true;
}

void open_op_locate(struct open_op *o, const struct open_op *up, const struct after_node *after)
{
	bool is_inside = up && phase_is_backward(up->ev.phase);
	o->ev.where_stack = NULL;
	if (o->own && !open_op_is_node(o)) {
		o->ev.where_stack = o->ev.stack;
		o->ev.phase = (uint8_t)own_phase(o);
		if (!is_backward_of(up, frames_outside(o)))
			return;
		o->ev.backward_of = forward_of(up);
		o->ev.forward_id = up->ev.forward_id;
	} else if (is_inside && up->ev.stack == o->ev.stack) {
		o->ev.where_stack = up->ev.where_stack;
		o->ev.backward_of = up->ev.backward_of;
		o->ev.forward_id = up->ev.forward_id;
	} else if (after && !open_op_is_node(o)) {
		after_node_locate(after, &o->ev);
	}
}

bool open_op_is_of_engine(const struct open_op *o)
{
	const struct py_stack *s = o->ev.stack;
	return s && s->depth && py_frame_runs_backward(s->frames[0]);
}

/* AccumulateGrad has no next nodes to which the engine could go on: what it runs then are hooks of
 * the node, as those of DistributedDataParallel. Not in a backward within another one, whose end
 * may run something, too, within the engine's work on the node around it. */
static bool has_only_hooks(const struct op_event *node)
{
	const struct py_stack *s = node->stack;
	unsigned engines = 0;
	if (node->depth || !op_accumulates(node->op->name) || (s && s->truncated))
		return false;
	/* One call of the engine may have two such frames, the one next to the other. */
	for (uint16_t i = 0; s && i < s->depth; i++)
		engines += py_frame_runs_backward(s->frames[i]) &&
			   !(i && py_frame_runs_backward(s->frames[i - 1]));
	return engines <= 1;
}

void after_node_ended(struct after_node *a, const struct op_event *node)
{
	a->is = true;
	a->accumulates = has_only_hooks(node);
	a->depth = node->depth;
	a->stack = node->stack;
	a->where_stack = node->where_stack;
	a->backward_of = node->backward_of;
	a->forward_id = node->forward_id;
}

void after_node_entry(struct after_node *a, uint64_t seq)
{
	a->is &= seq == a->next;
	a->next = seq + 1;
}
