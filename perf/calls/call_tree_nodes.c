/* Nodes of the call tree, and their names; and what is known of calls before they are added. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "perf/calls/internal.h"
#include "perf/events/print_event.h"

struct node_key {
	uint32_t parent, name, phase;
};

struct stack_key {
	const struct py_stack *stack;
	uint32_t parent, outer; /* outer: outermost frames to skip */
};

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
	if (f->line)
		snprintf(line, sizeof(line), ":%" PRId32, f->line);
	return (size_t)snprintf(out, CALL_FRAME_TEXT_MAX, file[0] ? "%.200s (%.200s%s)" : "%.200s",
				function, text_base_name(file), line);
}

int64_t call_frame_name(struct call_tree *t, const struct py_frame *f)
{
	char key[2 * CALL_FRAME_TEXT_MAX];
	size_t len = call_frame_text(key, f);
	const char *file = f->file ? f->file : "?";
	size_t whole = strnlen(file, CALL_FRAME_TEXT_MAX - 1);
	memcpy(key + len + 1, file, whole);
	return name_id(t, key, len + 1 + whole, key);
}

/* The id of a name that `of` stands for. */
int64_t call_name_of(struct call_tree *t, const void *of, const char *name)
{
	int64_t id = map_get(&t->op_names, (uintptr_t)of);
	if (id >= 0)
		return id;
	id = name_id(t, name, strlen(name), name);
	if (id >= 0 && map_put(&t->op_names, (uintptr_t)of, (uint32_t)id))
		return -ENOMEM;
	return id;
}

int64_t call_op_name(struct call_tree *t, const struct op_desc *op)
{
	return call_name_of(t, op, op->name);
}

/* `phase`: of an op that is a node of its own in each phase; else 0. */
int64_t call_node_in_phase(struct call_tree *t, uint32_t parent, int64_t name, bool is_op,
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

int64_t call_node_of(struct call_tree *t, uint32_t parent, int64_t name, bool is_op)
{
	return call_node_in_phase(t, parent, name, is_op, 0);
}

static int64_t frame_node(struct call_tree *t, int64_t parent, const struct py_frame *f)
{
	int64_t id = call_node_of(t, (uint32_t)parent, call_frame_name(t, f), false);
	if (id >= 0)
		t->nodes[id].folds = f->is_torch;
	return id;
}

/* The node of the innermost frame of `stack` below `parent`, less the `outer` outermost frames. */
int64_t call_stack_node(struct call_tree *t, uint32_t parent, const struct py_stack *stack,
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
		node = frame_node(t, node, stack->frames[i]);
	if (node >= 0 && stack->parameter) {
		char text[WHERE_TEXT_MAX];
		parameter_text(text, sizeof(text), stack->parameter);
		node = call_node_of(t, (uint32_t)node, name_id(t, text, strlen(text), text), false);
	}
	if (node >= 0 && stack->left_out)
		node = call_node_of(t, (uint32_t)node,
				    name_id(t, py_stack_left_out_text,
					    strlen(py_stack_left_out_text), py_stack_left_out_text),
				    false);
	if (node >= 0)
		t->stack_nodes[id] = (uint32_t)node;
	return node;
}

/* A native frame below Python frames: of the interpreter, or libx.so+0x1234, without a name. */
static bool tells_nothing(const struct py_frame *f)
{
	const char *file = f->file ? f->file : "", *base = text_base_name(file);
	const size_t n = strlen(base);
	return native_file_is_python(file) || (n && f->function && !strncmp(f->function, base, n) &&
					       !strncmp(f->function + n, "+0x", 3));
}

/* Append the frames numbered from - 1 down to `to` (0: innermost) below `node`. */
int64_t call_native_nodes(struct call_tree *t, int64_t node, const struct py_stack *stack,
			  unsigned from, unsigned to)
{
	const bool in_python = node != CALL_TREE_ROOT;
	for (unsigned i = from; i-- > to && node >= 0;) {
		node = frame_node(t, node, stack->frames[i]);
		if (node >= 0)
			t->nodes[node].folds = in_python && tells_nothing(stack->frames[i]);
	}
	return node;
}

enum { AWAITED_MAX = 1 << 16 };

int awaited_at(struct awaited *a, const struct op_event *of, struct awaited_call **out)
{
	int64_t at = map_get(&a->ids, of->id);
	if (at < 0) {
		if (a->n == AWAITED_MAX)
			return -ENOSPC;
		if (array_grow(&a->calls, &a->room, a->n + 1, sizeof(*a->calls)) ||
		    map_put(&a->ids, of->id, (uint32_t)a->n))
			return -ENOMEM;
		at = (int64_t)a->n++;
		a->calls[at].came = true;
	}
	if (a->calls[at].came)
		a->calls[at] = (struct awaited_call){.of = *of};
	*out = &a->calls[at];
	return 0;
}

const struct awaited_call *awaited_take(struct awaited *a, uint64_t id)
{
	int64_t at = a->n ? map_get(&a->ids, id) : -ENOENT;
	if (at < 0 || a->calls[at].came)
		return NULL;
	a->calls[at].came = true;
	return &a->calls[at];
}

void awaited_clear(struct awaited *a)
{
	a->n = 0;
	map_clear(&a->ids);
}

void awaited_free(struct awaited *a)
{
	map_free(&a->ids);
	free(a->calls);
}
