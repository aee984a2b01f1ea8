#include "perf/report/call_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/text.h"

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

enum { RECENT = 1 << 15, WAITING_MAX = 1 << 16 };

/* Memory of an op that was not added yet. */
struct waiting_memory {
	const struct op_desc *op;
	const struct py_stack *stack;
	struct call_memory is[MEMORY_KINDS];
};

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
	uint64_t recent_id[RECENT]; /* of ops, by id modulo RECENT, */
	uint32_t recent_node[RECENT];
	struct map waiting_ids;
	struct waiting_memory *waiting;
	size_t nwaiting, waiting_room;
};

struct node_key {
	uint32_t parent, name, phase;
};

struct stack_key {
	const struct py_stack *stack;
	uint32_t parent, outer; /* outer: outermost frames to skip */
};

struct call_tree *call_tree_new(void)
{
	return calloc(1, sizeof(struct call_tree));
}

/* The id of the name with that key of `len` bytes, displayed as `text`. */
static int64_t name_id(struct call_tree *t, const char *key, size_t len, const char *text)
{
	bool is_new;
	int64_t id = intern(&t->names, key, (uint32_t)len, &is_new);
	if (id < 0 || !is_new)
		return id;
	if (array_grow(&t->name_texts, &t->names_room, (size_t)id + 1, sizeof(*t->name_texts)))
		return -ENOMEM;
	t->name_texts[id] = arena_strndup(&t->texts, text, strlen(text));
	return t->name_texts[id] ? id : -ENOMEM;
}

size_t call_frame_text(char out[CALL_FRAME_TEXT_MAX], const struct py_frame *f)
{
	const char *function = f->function ? f->function : "?", *file = f->file ? f->file : "?";
	char line[16] = "";
	if (line_is_of_parameter(function, f->line))
		return (size_t)snprintf(out, CALL_FRAME_TEXT_MAX, "%.200s", file);
	if (f->line)
		snprintf(line, sizeof(line), ":%" PRId32, f->line);
	return (size_t)snprintf(out, CALL_FRAME_TEXT_MAX, file[0] ? "%.200s (%.200s%s)" : "%.200s",
				function, text_base_name(file), line);
}

static int64_t frame_name(struct call_tree *t, const struct py_frame *f)
{
	char key[2 * CALL_FRAME_TEXT_MAX];
	size_t len = call_frame_text(key, f);
	const char *file = f->file ? f->file : "?";
	size_t whole = strnlen(file, CALL_FRAME_TEXT_MAX - 1);
	memcpy(key + len + 1, file, whole);
	return name_id(t, key, len + 1 + whole, key);
}

/* The id of a name that `of` stands for. */
static int64_t name_of(struct call_tree *t, const void *of, const char *name)
{
	int64_t id = map_get(&t->op_names, (uintptr_t)of);
	if (id >= 0)
		return id;
	id = name_id(t, name, strlen(name), name);
	if (id >= 0 && map_put(&t->op_names, (uintptr_t)of, (uint32_t)id))
		return -ENOMEM;
	return id;
}

static int64_t op_name(struct call_tree *t, const struct op_desc *op)
{
	return name_of(t, op, op->name);
}

/* `phase`: of an op that is a node of its own in each phase; else 0. */
static int64_t node_in_phase(struct call_tree *t, uint32_t parent, int64_t name, bool is_op,
			     uint8_t phase)
{
	struct node_key key = {parent, (uint32_t)name, phase};
	bool is_new;
	if (name < 0)
		return name;
	int64_t id = intern(&t->node_ids, &key, sizeof(key), &is_new);
	if (id < 0 || !is_new)
		return id;
	if (array_grow(&t->nodes, &t->nodes_room, (size_t)id + 1, sizeof(*t->nodes)))
		return -ENOMEM;
	t->nodes[id] = (struct call_node){.name = t->name_texts[name],
					  .name_id = (uint32_t)name,
					  .parent = parent,
					  .is_op = is_op};
	return id;
}

static int64_t node_of(struct call_tree *t, uint32_t parent, int64_t name, bool is_op)
{
	return node_in_phase(t, parent, name, is_op, 0);
}

/* The node of the innermost frame of `stack` below `parent`, less the `outer` outermost frames. */
static int64_t stack_node(struct call_tree *t, uint32_t parent, const struct py_stack *stack,
			  uint16_t outer)
{
	struct stack_key key;
	bool is_new;
	memset(&key, 0, sizeof(key));
	key = (struct stack_key){.stack = stack, .parent = parent, .outer = outer};
	int64_t id = intern(&t->stack_ids, &key, sizeof(key), &is_new), node = parent;
	if (id < 0)
		return id;
	if (!is_new)
		return t->stack_nodes[id];
	if (array_grow(&t->stack_nodes, &t->stacks_room, (size_t)id + 1, sizeof(*t->stack_nodes)))
		return -ENOMEM;
	for (uint16_t i = (uint16_t)(stack->depth - outer); i-- && node >= 0;)
		node = node_of(t, (uint32_t)node, frame_name(t, stack->frames[i]), false);
	if (node >= 0)
		t->stack_nodes[id] = (uint32_t)node;
	return node;
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

static int64_t context_of(struct call_tree *t, const struct open_op *parent,
			  const struct py_stack *stack, enum call_frames which)
{
	if (which == CALL_OPS)
		return parent ? parent->node : CALL_TREE_ROOT;
	if (!parent)
		return stack ? stack_node(t, CALL_TREE_ROOT, stack, 0) : CALL_TREE_ROOT;
	if (!stack || !parent->stack || stack == parent->stack ||
	    !py_stack_lies_within(stack, parent->stack))
		return parent->node;
	return stack_node(t, parent->node, stack, parent->stack->depth);
}

/* Append the frames numbered from - 1 down to `to` (0: innermost) below `node`. */
static int64_t native_nodes(struct call_tree *t, int64_t node, const struct py_stack *stack,
			    unsigned from, unsigned to)
{
	for (unsigned i = from; i-- > to && node >= 0;)
		node = node_of(t, (uint32_t)node, frame_name(t, stack->frames[i]), false);
	return node;
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
	return native_nodes(t, node, ev->native, n, 0);
}

static void add_memory(struct call_memory *to, const struct call_memory *from)
{
	for (int k = 0; k < MEMORY_KINDS; k++) {
		to[k].allocated += from[k].allocated;
		to[k].freed += from[k].freed;
	}
}

/* The op became a node: it has what was done with memory before it came. */
static void remember_node(struct call_tree *t, uint64_t id, uint32_t node)
{
	int64_t at = t->nwaiting ? map_get(&t->waiting_ids, id) : -1;
	t->recent_id[id % RECENT] = id;
	t->recent_node[id % RECENT] = node;
	if (at < 0)
		return;
	add_memory(t->nodes[node].self_memory, t->waiting[at].is);
	t->waiting[at] = (struct waiting_memory){0};
}

/* Of an op that is not among those added: below its frames alone. */
static int place_memory(struct call_tree *t, const struct op_desc *op, const struct py_stack *stack,
			const struct call_memory *is)
{
	int64_t node = context_of(t, NULL, stack, t->memory_frames);
	if (node >= 0)
		node = node_in_phase(t, (uint32_t)node, op_name(t, op), true, 0);
	if (node < 0)
		return -ENOMEM;
	add_memory(t->nodes[node].self_memory, is);
	return 0;
}

static int end_waiting(struct call_tree *t)
{
	int r = 0;
	for (size_t i = 0; i < t->nwaiting && !r; i++)
		if (t->waiting[i].op)
			r = place_memory(t, t->waiting[i].op, t->waiting[i].stack,
					 t->waiting[i].is);
	t->nwaiting = 0;
	map_clear(&t->waiting_ids);
	return r;
}

static int let_wait(struct call_tree *t, const struct op_event *of, const struct call_memory *is)
{
	int64_t at = map_get(&t->waiting_ids, of->id);
	if (at < 0) {
		if ((t->nwaiting == WAITING_MAX && end_waiting(t)) ||
		    array_grow(&t->waiting, &t->waiting_room, t->nwaiting + 1,
			       sizeof(*t->waiting)) ||
		    map_put(&t->waiting_ids, of->id, (uint32_t)t->nwaiting))
			return -ENOMEM;
		at = (int64_t)t->nwaiting++;
		t->waiting[at] = (struct waiting_memory){.op = of->op, .stack = of->stack};
	}
	add_memory(t->waiting[at].is, is);
	return 0;
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
	if (t->recent_id[id % RECENT] != id)
		return let_wait(t, &m->of, is);
	add_memory(t->nodes[t->recent_node[id % RECENT]].self_memory, is);
	return 0;
}

bool call_tree_has_memory(const struct call_tree *t, enum memory_kind kind)
{
	return t->has_memory[kind];
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
		node = node_in_phase(t, (uint32_t)node, op_name(t, ev->op), true,
				     beside ? ev->phase : 0);
	if (node < 0 || array_grow(&th->open, &th->room, th->n + 1, sizeof(*th->open)))
		return -ENOMEM;
	th->open[th->n++] = (struct open_op){
	    .id = ev->id, .node = (uint32_t)node, .stack = ev->stack, .native = ev->native};
	remember_node(t, ev->id, (uint32_t)node);
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
		node = node_in_phase(t, (uint32_t)node, op_name(t, s->of.op), true,
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
		op = node_in_phase(t, (uint32_t)op, op_name(t, activity_op(a)), a->of.op,
				   a->of.phase);
	if (op < 0)
		return -ENOMEM;
	t->nodes[op].phase = a->of.phase;
	int64_t node = node_in_phase(t, (uint32_t)op, name_of(t, a->name, a->name), true, PHASES);
	if (node < 0)
		return -ENOMEM;
	t->nodes[node].phase = PHASES;
	t->nodes[node].calls++;
	t->nodes[node].self_ns += a->of.end_ns - a->of.start_ns;
	return 0;
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
		node = stack_node(t, CALL_TREE_ROOT, ev.stack, 0);
	node = native_nodes(t, node, s->native, native, op);
	if (node >= 0 && which != CALL_NATIVE && (s->op || which == CALL_OPS))
		node = node_of(t, (uint32_t)node, op_name(t, ev.op), true);
	if (node >= 0 && node != CALL_TREE_ROOT && t->nodes[node].is_op)
		t->nodes[node].phase = s->phase;
	node = native_nodes(t, node, s->native, op, 0);
	/* A sample without any frame to show still has to be counted. */
	if (node == CALL_TREE_ROOT) {
		static const struct py_frame none = {.file = "-", .function = "(unknown)"};
		node = node_of(t, CALL_TREE_ROOT, frame_name(t, &none), false);
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

const struct call_node *call_tree_nodes(struct call_tree *t, size_t *n)
{
	end_waiting(t); /* without room for them, nodes of ops that are not there are left out */
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
		add_memory(t->nodes[t->nodes[i].parent].memory, t->nodes[i].memory);
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
		at = node_of(to, (uint32_t)at, n->name_id, n->is_op);
		if (at < 0)
			return -ENOMEM;
		to->nodes[at].calls += self->calls;
		if (i == op)
			to->nodes[at].self_ns += self->self_ns;
		to->nodes[at].total_ns += self->self_ns;
		add_memory(to->nodes[at].memory, self->self_memory);
	}
	return 0;
}

struct call_tree *call_tree_callers(struct call_tree *t)
{
	struct call_tree *to = call_tree_new();
	int r = to ? end_waiting(t) : -ENOMEM;
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
	map_free(&t->waiting_ids);
	free(t->waiting);
	arena_free(&t->texts);
	free(t->threads);
	free(t->name_texts);
	free(t->stack_nodes);
	free(t->nodes);
	free(t);
}
