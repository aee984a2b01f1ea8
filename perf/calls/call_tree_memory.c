/* What was done with memory, in the nodes of the ops that did it. */
#include <errno.h>

#include "perf/calls/internal.h"

/* The op became a node: it has what was done with memory before it came. */
void call_tree_remember(struct call_tree *t, uint64_t id, uint32_t node)
{
	const struct awaited_call *c = awaited_take(&t->early, id);
	t->recent_id[id % CALLS_RECENT] = id;
	t->recent_node[id % CALLS_RECENT] = node;
	if (c)
		call_memory_add(t->nodes[node].self_memory, c->memory);
}

/* Of an op that is not among those added: below its frames alone. */
static int place_memory(struct call_tree *t, const struct op_desc *op, const struct py_stack *stack,
			const struct call_memory *is)
{
	int64_t node = call_context_of(t, NULL, stack, t->memory_frames);
	if (node >= 0)
		node = call_node_in_phase(t, (uint32_t)node, call_op_name(t, op), true, 0);
	if (node < 0)
		return -ENOMEM;
	call_memory_add(t->nodes[node].self_memory, is);
	return 0;
}

int call_tree_end_memory(struct call_tree *t)
{
	int r = 0;
	for (size_t i = 0; i < t->early.n && !r; i++) {
		const struct awaited_call *c = &t->early.calls[i];
		if (!c->came)
			r = place_memory(t, c->of.op, c->of.stack, c->memory);
	}
	awaited_clear(&t->early);
	return r;
}

static int let_wait(struct call_tree *t, const struct op_event *of, const struct call_memory *is)
{
	struct awaited_call *c;
	int r = awaited_at(&t->early, of, &c);
	if (r == -ENOSPC && !(r = call_tree_end_memory(t)))
		r = awaited_at(&t->early, of, &c);
	if (!r)
		call_memory_add(c->memory, is);
	return r;
}

int call_tree_add_memory(struct call_tree *t, const struct memory_event *m, enum call_frames which)
{
	const enum memory_kind kind = memory_kind(m->device_type);
	const struct activity a = {.of = m->of, .launch = m->launch};
	const uint64_t id = m->of.id;
	struct call_memory is[MEMORY_KINDS] = {0};
	is[kind] = (struct call_memory){m->freed ? 0 : m->bytes, m->freed ? m->bytes : 0};
	t->has_memory[kind] |= m->bytes > 0;
	t->memory_frames = which;
	if (!id || !m->of.op)
		return place_memory(t, activity_op(&a), m->of.stack, is);
	if (t->recent_id[id % CALLS_RECENT] != id)
		return let_wait(t, &m->of, is);
	call_memory_add(t->nodes[t->recent_node[id % CALLS_RECENT]].self_memory, is);
	return 0;
}

bool call_tree_has_memory(const struct call_tree *t, enum memory_kind kind)
{
	return t->has_memory[kind];
}
