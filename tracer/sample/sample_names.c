#include "tracer/sample/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { KEY_MOST = 4096, PART_MOST = 1900 };

/* Two strings as one key, truncated. */
static uint32_t key_of(char *key, const char *a, const char *b)
{
	int n = snprintf(key, KEY_MOST, "%.*s%c%.*s", PART_MOST, a, 1, PART_MOST, b);
	return (uint32_t)n;
}

static const char *names_copy_text(struct sample_names *n, const char *text)
{
	return arena_strndup(&n->arena, text, strnlen(text, PART_MOST));
}

const struct py_frame *sample_frame(struct sample_names *n, const char *file, const char *function,
				    bool *is_new)
{
	char key[KEY_MOST];
	bool fresh;
	int64_t id = intern(&n->frame_ids, key, key_of(key, file, function), &fresh);
	if (is_new)
		*is_new = id >= 0 && fresh;
	if (id < 0 || (!fresh && (size_t)id < n->frames_room))
		return id < 0 ? NULL : n->frames[id];
	struct py_frame *f = arena_alloc(&n->arena, sizeof(*f));
	if (!f || array_grow(&n->frames, &n->frames_room, (size_t)id + 1, sizeof(*n->frames)))
		return NULL;
	*f = (struct py_frame){.id = (uint32_t)id,
			       .file = names_copy_text(n, file),
			       .function = names_copy_text(n, function),
			       .column = -1,
			       .end_column = -1};
	n->frames[id] = f->file && f->function ? f : NULL;
	return n->frames[id];
}

const struct py_stack *sample_stack(struct sample_names *n, const struct py_frame *const *frames,
				    unsigned depth, bool truncated)
{
	struct py_stack *s = arena_alloc(&n->arena, sizeof(*s) + depth * sizeof(s->frames[0]));
	size_t size = depth * sizeof(s->frames[0]);
	bool fresh;
	if (!s)
		return NULL;
	/* The struct itself is the key, so set nothing in it that may differ between equal stacks.
	 */
	s->depth = (uint16_t)depth;
	s->truncated = truncated;
	memcpy(s->frames, frames, size);
	int64_t id = intern(&n->stack_ids, s, (uint32_t)(sizeof(*s) + size), &fresh);
	if (id < 0 || (!fresh && (size_t)id < n->stacks_room))
		return id < 0 ? NULL : n->stacks[id];
	if (array_grow(&n->stacks, &n->stacks_room, (size_t)id + 1, sizeof(*n->stacks)))
		return NULL;
	s->id = (uint32_t)id;
	n->stacks[id] = s;
	return s;
}

const struct op_desc *sample_op(struct sample_names *n, const char *name, enum op_kind kind)
{
	char key[KEY_MOST];
	bool fresh;
	int64_t id =
	    intern(&n->op_ids, key, key_of(key, name, kind == OP_BACKWARD ? "b" : ""), &fresh);
	if (id < 0 || (!fresh && (size_t)id < n->ops_room))
		return id < 0 ? NULL : n->ops[id];
	struct op_desc *op = arena_alloc(&n->arena, sizeof(*op));
	if (!op || array_grow(&n->ops, &n->ops_room, (size_t)id + 1, sizeof(*n->ops)))
		return NULL;
	*op = (struct op_desc){.id = (uint32_t)id,
			       .kind = (uint8_t)kind,
			       .name = names_copy_text(n, name),
			       .schema = ""};
	n->ops[id] = op->name ? op : NULL;
	return n->ops[id];
}

void sample_names_free(struct sample_names *n)
{
	intern_free(&n->frame_ids);
	intern_free(&n->stack_ids);
	intern_free(&n->op_ids);
	arena_free(&n->arena);
	free(n->frames);
	free(n->stacks);
	free(n->ops);
	*n = (struct sample_names){0};
}
