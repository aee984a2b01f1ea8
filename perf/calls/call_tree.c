/* What is added to a call tree: calls, sums of them, what devices did, memory, samples; and the
 * tree turned inside out. */
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

/* Where an op stands that was called by `parent`, NULL: by none that is open. */
static int64_t context_of(struct call_tree *t, const struct open_op *parent,
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

/* The op became a node: it has what was done with memory before it came. */
static void remember(struct call_tree *t, uint64_t id, uint32_t node)
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
	int64_t node = context_of(t, NULL, stack, t->memory_frames);
	if (node >= 0)
		node = call_node_in_phase(t, (uint32_t)node, call_op_name(t, op), true, 0);
	if (node < 0)
		return -ENOMEM;
	call_memory_add(t->nodes[node].self_memory, is);
	return 0;
}

static int end_memory(struct call_tree *t)
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
	if (r == -ENOSPC && !(r = end_memory(t)))
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

int call_tree_add(struct call_tree *t, const struct op_event *ev, enum call_frames which)
{
	struct tree_thread *th = thread_of(t, ev);
	bool beside = which == CALL_BESIDE;
	if (!th)
		return -ENOMEM;
	const struct open_op *parent = parent_of(th, ev->parent);
	const struct py_stack *stack = beside && !parent ? ev->where_stack : ev->stack;
	int64_t node = context_of(t, parent, stack, which);
	if (node >= 0)
		node = callers_of(t, node, parent, ev, which);
	if (node >= 0)
		node = call_node_in_phase(t, (uint32_t)node, call_op_name(t, ev->op), true,
					  beside ? ev->phase : 0);
	if (node < 0 || array_grow(&th->open, &th->room, th->n + 1, sizeof(*th->open)))
		return -ENOMEM;
	th->open[th->n++] = (struct open_op){
	    .id = ev->id, .node = (uint32_t)node, .stack = ev->stack, .native = ev->native};
	remember(t, ev->id, (uint32_t)node);
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
	int64_t node = context_of(t, NULL, beside ? s->of.where_stack : s->of.stack, which);
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
	int64_t op = context_of(t, NULL, a->of.where_stack, CALL_BESIDE);
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
	end_memory(t); /* without room for them, nodes of ops that are not there are left out */
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
		to->nodes[at].folds = n->folds;
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
	int r = to ? end_memory(t) : -ENOMEM;
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

bool call_tree_has_memory(const struct call_tree *t, enum memory_kind kind)
{
	return t->has_memory[kind];
}

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
