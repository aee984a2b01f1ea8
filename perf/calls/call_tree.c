/* Events in the call tree, and the tree turned inside out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/calls/internal.h"

struct call_tree *call_tree_new(void)
{
	return calloc(1, sizeof(struct call_tree));
}

static struct tree_thread *thread_of(struct call_tree *t, const struct op_event *ev)
{
	int32_t key[2] = {ev->pid, ev->tid};
	bool is_new;
	int64_t id = intern(&t->thread_ids, key, sizeof(key), &is_new);
	if (id < 0 ||
	    array_grow(&t->threads, &t->threads_room, (size_t)id + 1, sizeof(*t->threads)))
		return NULL;
	if (is_new)
		t->threads[id] = (struct tree_thread){0};
	return &t->threads[id];
}

/* Pop the thread's open ops down to the caller with that id. NULL if it is not open; then all are
 * popped. */
static const struct open_op *parent_of(struct tree_thread *th, uint64_t parent)
{
	for (size_t i = th->n; parent && i--;)
		if (th->open[i].id == parent) {
			th->n = i + 1;
			return &th->open[i];
		}
	th->n = 0;
	return NULL;
}

int64_t call_context_of(struct call_tree *t, const struct open_op *parent,
			const struct py_stack *stack, enum call_frames which)
{
	if (which == CALL_OPS)
		return parent ? parent->node : CALL_TREE_ROOT;
	if (!parent)
		return stack ? call_stack_node(t, CALL_TREE_ROOT, stack, 0) : CALL_TREE_ROOT;
	if (!stack || !parent->stack || stack == parent->stack ||
	    !py_stack_lies_within(stack, parent->stack))
		return parent->node;
	return call_stack_node(t, parent->node, stack, parent->stack->depth);
}

/* The C++ callers of an op, as far as they are not those of the op that encloses it. */
static int64_t callers_of(struct call_tree *t, int64_t node, const struct open_op *parent,
			  const struct op_event *ev, enum call_frames which)
{
	unsigned n =
	    ev->native && which != CALL_OPS && which != CALL_PYTHON ? ev->native->depth : 0;
	const struct py_stack *around =
	    parent && parent->stack == ev->stack ? parent->native : NULL;
	if (n && around)
		n = py_stack_lies_within(ev->native, around) ? n - around->depth : 0;
	return call_native_nodes(t, node, ev->native, n, 0);
}

int call_tree_add(struct call_tree *t, const struct op_event *ev, enum call_frames which)
{
	struct tree_thread *th = thread_of(t, ev);
	bool beside = which == CALL_BESIDE;
	if (!th)
		return -ENOMEM;
	const struct open_op *parent = parent_of(th, ev->parent);
	const struct py_stack *stack = beside && !parent ? ev->where_stack : ev->stack;
	int64_t node = call_context_of(t, parent, stack, which);
	if (node >= 0)
		node = callers_of(t, node, parent, ev, which);
	if (node >= 0)
		node = call_node_in_phase(t, (uint32_t)node, call_op_name(t, ev->op), true,
					  beside ? ev->phase : 0);
	if (node < 0 || array_grow(&th->open, &th->room, th->n + 1, sizeof(*th->open)))
		return -ENOMEM;
	th->open[th->n++] = (struct open_op){
	    .id = ev->id, .node = (uint32_t)node, .stack = ev->stack, .native = ev->native};
	call_tree_remember(t, ev->id, (uint32_t)node);
	if (!t->nodes[node].calls)
		t->nodes[node].phase = ev->phase;
	if (ev->end_ns == 0)
		return 0;
	uint64_t ns = ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0;
	t->nodes[node].calls++;
	t->nodes[node].self_ns += ns > ev->child_ns ? ns - ev->child_ns : 0;
	return 0;
}

int call_tree_add_sum(struct call_tree *t, const struct op_sum *s, enum call_frames which)
{
	bool beside = which == CALL_BESIDE;
	int64_t node = call_context_of(t, NULL, beside ? s->of.where_stack : s->of.stack, which);
	if (node >= 0)
		node = call_node_in_phase(t, (uint32_t)node, call_op_name(t, s->of.op), true,
					  beside ? s->of.phase : 0);
	if (node < 0)
		return -ENOMEM;
	if (!t->nodes[node].calls)
		t->nodes[node].phase = s->of.phase;
	t->nodes[node].calls += s->calls;
	t->nodes[node].self_ns += s->total_ns > s->child_ns ? s->total_ns - s->child_ns : 0;
	return 0;
}

int call_tree_add_activity(struct call_tree *t, const struct activity *a)
{
	int64_t op = call_context_of(t, NULL, a->of.where_stack, CALL_BESIDE);
	if (op >= 0)
		op = call_node_in_phase(t, (uint32_t)op, call_op_name(t, activity_op(a)), a->of.op,
					a->of.phase);
	if (op < 0)
		return -ENOMEM;
	t->nodes[op].phase = a->of.phase;
	int64_t node =
	    call_node_in_phase(t, (uint32_t)op, call_name_of(t, a->name, a->name), true, PHASES);
	if (node < 0)
		return -ENOMEM;
	t->nodes[node].phase = PHASES;
	t->nodes[node].calls++;
	t->nodes[node].self_ns += a->of.end_ns - a->of.start_ns;
	return 0;
}

const struct call_node *call_tree_nodes(struct call_tree *t, size_t *n)
{
	call_tree_end_memory(
	    t); /* without room for them, nodes of ops that are not there are left out */
	*n = t->node_ids.used;
	if (t->has_totals)
		return t->nodes;
	for (size_t i = 0; i < *n; i++) {
		t->nodes[i].total_ns = t->nodes[i].self_ns;
		memcpy(t->nodes[i].memory, t->nodes[i].self_memory, sizeof(t->nodes[i].memory));
	}
	for (size_t i = *n; i--;) {
		if (t->nodes[i].parent == CALL_TREE_ROOT)
			continue;
		t->nodes[t->nodes[i].parent].total_ns += t->nodes[i].total_ns;
		call_memory_add(t->nodes[t->nodes[i].parent].memory, t->nodes[i].memory);
	}
	return t->nodes;
}

/* Copy the names with their ids; the strings still belong to `from`. */
static int take_names(struct call_tree *to, const struct call_tree *from)
{
	if (array_grow(&to->name_texts, &to->names_room, from->names.used + 1,
		       sizeof(*to->name_texts)))
		return -ENOMEM;
	for (uint32_t i = 0; i < from->names.used; i++)
		to->name_texts[i] = from->name_texts[i];
	return 0;
}

/* Add the path from an op out to its outermost frame. */
static int add_callers(struct call_tree *to, const struct call_tree *from, uint32_t op)
{
	int64_t at = CALL_TREE_ROOT;
	const struct call_node *self = &from->nodes[op];
	for (uint32_t i = op; i != CALL_TREE_ROOT; i = from->nodes[i].parent) {
		const struct call_node *n = &from->nodes[i];
		at = call_node_of(to, (uint32_t)at, n->name_id, n->is_op);
		if (at < 0)
			return -ENOMEM;
		to->nodes[at].is_torch = n->is_torch;
		to->nodes[at].calls += self->calls;
		if (i == op)
			to->nodes[at].self_ns += self->self_ns;
		to->nodes[at].total_ns += self->self_ns;
		call_memory_add(to->nodes[at].memory, self->self_memory);
	}
	return 0;
}

struct call_tree *call_tree_callers(struct call_tree *t)
{
	struct call_tree *to = call_tree_new();
	int r = to ? call_tree_end_memory(t) : -ENOMEM;
	r = r ? r : take_names(to, t);
	for (uint32_t i = 0; i < t->node_ids.used && !r; i++)
		if (t->nodes[i].is_op || t->nodes[i].self_ns)
			r = add_callers(to, t, i);
	if (!r) {
		to->has_totals = true;
		memcpy(to->has_memory, t->has_memory, sizeof(to->has_memory));
		return to;
	}
	call_tree_free(to);
	return NULL;
}

void call_tree_free(struct call_tree *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->thread_ids.used && i < t->threads_room; i++)
		free(t->threads[i].open);
	intern_free(&t->thread_ids);
	intern_free(&t->names);
	intern_free(&t->node_ids);
	intern_free(&t->stack_ids);
	map_free(&t->op_names);
	awaited_free(&t->early);
	arena_free(&t->texts);
	free(t->threads);
	free(t->name_texts);
	free(t->stack_nodes);
	free(t->nodes);
	free(t);
}
