#include "perf/trace/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	META_BYTES_MAX = 16 << 20, /* above this, new metas are written where they are used */
	META_COUNT_MAX = 1 << 18,
};

/* The number of the object with this payload; writes its definition if it is new. */
static int64_t define(struct trace_ids *t, struct intern *table, enum trace_type type,
		      const struct out *o, const uint8_t *start)
{
	bool is_new;
	if (o->full)
		return -EMSGSIZE;
	int64_t id = intern(table, start, (uint32_t)(o->p - start), &is_new);
	if (id < 0 || !is_new)
		return id;
	int r = t->record(t->arg, type, start, (size_t)(o->p - start));
	return r ? r : id;
}

int64_t trace_ids_string(struct trace_ids *t, const char *s)
{
	enum { STRING_MAX = 4000 };
	uint8_t buf[STRING_MAX + 10];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	out_str(&o, s ? s : "", s ? strnlen(s, STRING_MAX) : 0);
	return define(t, &t->strings, TRACE_STRING, &o, buf);
}

static int put_string_id(struct trace_ids *t, struct out *o, const char *s)
{
	int64_t id = trace_ids_string(t, s);
	if (id < 0)
		return (int)id;
	out_u(o, (uint64_t)id);
	return 0;
}

/* The string's number + 1; 0 without a string. */
static int put_string_or_none(struct trace_ids *t, struct out *o, const char *s)
{
	int64_t id = s ? trace_ids_string(t, s) : -1;
	if (s && id < 0)
		return (int)id;
	out_u(o, (uint64_t)(id + 1));
	return 0;
}

static int put_op_args(struct trace_ids *t, struct out *o, const struct op_arg *args, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++) {
		int r = put_string_id(t, o, args[i].name);
		if (!r)
			r = put_string_id(t, o, args[i].type);
		if (r)
			return r;
	}
	return 0;
}

int64_t trace_ids_op(struct trace_ids *t, const struct op_desc *op)
{
	int64_t id = map_get(&t->op_ids, (uintptr_t)op);
	if (id >= 0)
		return id;
	struct out o = {.p = t->scratch, .end = t->scratch + t->scratch_size};
	out_b(&o, op->kind);
	out_b(&o, op->flags);
	int r = put_string_id(t, &o, op->name);
	if (!r)
		r = put_string_id(t, &o, op->schema);
	out_u(&o, op->nargs);
	out_u(&o, op->nresults);
	if (!r)
		r = put_op_args(t, &o, op->args, op->nargs);
	if (!r)
		r = put_op_args(t, &o, op->results, op->nresults);
	if (r)
		return r;
	id = define(t, &t->ops, TRACE_OP, &o, t->scratch);
	if (id < 0)
		return id;
	r = map_put(&t->op_ids, (uintptr_t)op, (uint32_t)id);
	return r ? r : id;
}

static int note_text(struct trace_ids *t, uint32_t frame, bool has_text)
{
	enum { FIRST = 1024 };
	if (frame >= t->frame_has_text_size) {
		uint32_t size = t->frame_has_text_size ? t->frame_has_text_size * 2 : FIRST;
		bool *grown = realloc(t->frame_has_text, size);
		if (!grown)
			return -ENOMEM;
		t->frame_has_text = grown;
		t->frame_has_text_size = size;
	}
	t->frame_has_text[frame] = has_text;
	return 0;
}

static int64_t frame_id(struct trace_ids *t, const struct py_frame *f)
{
	int64_t id = map_get(&t->frame_ids, (uintptr_t)f);
	if (id >= 0)
		return id;
	uint8_t buf[128];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	int r = put_string_id(t, &o, f->file);
	if (!r)
		r = put_string_id(t, &o, f->function);
	if (!r)
		r = put_string_or_none(t, &o, f->text);
	if (r)
		return r;
	out_s(&o, f->line);
	out_s(&o, f->column);
	out_s(&o, f->end_column);
	out_s(&o, f->end_line);
	out_b(&o, f->is_torch);
	uint32_t before = t->frames.used;
	id = define(t, &t->frames, TRACE_FRAME, &o, buf);
	if (id < 0)
		return id;
	r = t->frames.used > before ? note_text(t, (uint32_t)id, f->text) : 0;
	if (r)
		return r;
	r = map_put(&t->frame_ids, (uintptr_t)f, (uint32_t)id);
	return r ? r : id;
}

int64_t trace_ids_stack(struct trace_ids *t, const struct py_stack *s)
{
	int64_t id = map_get(&t->stack_ids, (uintptr_t)s);
	if (id >= 0)
		return id;
	struct out o = {.p = t->scratch, .end = t->scratch + t->scratch_size};
	out_u(&o, s->depth);
	out_b(&o, s->truncated);
	int r = 0;
	for (uint16_t i = 0; i < s->depth; i++) {
		int64_t f = frame_id(t, s->frames[i]);
		if (f < 0)
			return f;
		out_u(&o, (uint64_t)f);
	}
	if (s->module || s->parameter || s->left_out)
		r = put_string_or_none(t, &o, s->module);
	if (!r && (s->parameter || s->left_out))
		r = put_string_or_none(t, &o, s->parameter);
	if (r)
		return r;
	if (s->left_out)
		out_b(&o, 1);
	id = define(t, &t->stacks, TRACE_STACK, &o, t->scratch);
	if (id < 0)
		return id;
	r = map_put(&t->stack_ids, (uintptr_t)s, (uint32_t)id);
	return r ? r : id;
}

int64_t trace_ids_group(struct trace_ids *t, const struct group_desc *g)
{
	struct out o = {.p = t->scratch, .end = t->scratch + t->scratch_size};
	int r = put_string_id(t, &o, g->name);
	out_u(&o, g->n);
	for (uint32_t i = 0; i < g->n; i++)
		out_s(&o, g->ranks[i]);
	return r ? r : define(t, &t->groups, TRACE_GROUP, &o, t->scratch);
}

static int write_thread(struct trace_ids *t, uint64_t number, int32_t pid, int32_t tid,
			const char *name)
{
	uint8_t buf[128];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	out_u(&o, number);
	out_s(&o, pid);
	out_s(&o, tid);
	out_str(&o, name, strnlen(name, 64));
	return t->record(t->arg, TRACE_THREAD, buf, (size_t)(o.p - buf));
}

int trace_ids_frame_text(struct trace_ids *t, const struct py_frame *f)
{
	int64_t id = f->text ? map_get(&t->frame_ids, (uintptr_t)f) : -1;
	if (id < 0 || t->frame_has_text[id])
		return 0;
	uint8_t buf[32];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	out_u(&o, (uint64_t)id);
	int r = put_string_id(t, &o, f->text);
	if (r)
		return r;
	t->frame_has_text[id] = true;
	return t->record(t->arg, TRACE_TEXT, buf, (size_t)(o.p - buf));
}

int64_t trace_ids_thread(struct trace_ids *t, int32_t pid, int32_t tid, const char *name)
{
	int32_t key[2] = {pid, tid};
	bool is_new;
	if (!name && t->threads.used && t->last_pid == pid && t->last_tid == tid)
		return t->last_thread;
	int64_t id = intern(&t->threads, key, sizeof(key), &is_new);
	if (id < 0)
		return id;
	t->last_pid = pid;
	t->last_tid = tid;
	t->last_thread = id;
	if (!is_new && !name)
		return id;
	int r = write_thread(t, (uint64_t)id, pid, tid, name ? name : "");
	return r ? r : id;
}

int64_t trace_ids_meta(void *ids, const void *payload, uint32_t len)
{
	struct trace_ids *t = ids;
	bool is_new;
	if (t->metas.used >= META_COUNT_MAX || t->metas.bytes >= META_BYTES_MAX)
		return intern_find(&t->metas, payload, len);
	int64_t id = intern(&t->metas, payload, len, &is_new);
	if (id < 0 || !is_new)
		return id;
	int r = t->record(t->arg, TRACE_META, payload, len);
	return r ? r : id;
}

void trace_ids_forget(struct trace_ids *t)
{
	map_free(&t->op_ids);
	map_free(&t->frame_ids);
	map_free(&t->stack_ids);
}

static struct intern *table_at(struct trace_ids *t, size_t i)
{
	struct intern *all[] = {&t->strings, &t->ops,	  &t->metas, &t->frames,
				&t->stacks,  &t->threads, &t->groups};
	return i < sizeof(all) / sizeof(all[0]) ? all[i] : NULL;
}

void trace_ids_free(struct trace_ids *t)
{
	struct intern *table;
	for (size_t i = 0; (table = table_at(t, i)); i++)
		intern_free(table);
	trace_ids_forget(t);
	free(t->frame_has_text);
	t->frame_has_text = NULL;
	t->frame_has_text_size = 0;
}
