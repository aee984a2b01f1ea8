/* A database of SQLite: what of a trace becomes which row. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "perf/events/print_event.h"
#include "perf/export/internal.h"
#include "perf/report/blocks.h"
#include "symbolizer/event/names.h"

/* Which rows are written, by id: 1, or 2 for a frame with its text. */
struct seen {
	uint8_t *ids;
	size_t room;
};

struct database {
	struct sql_out sql;
	struct seen ops, frames, stacks;
	struct map names; /* of activities, by address */
	uint64_t samples_lost, activities_lost, memory_lost;
	struct block_pairs blocks;
	const struct export_in *in;
};

/* Raise the state of `id` to `now` and return its previous state. */
static uint8_t raise_seen(struct database *d, struct seen *s, uint32_t id, uint8_t now)
{
	size_t old = s->room;
	if (id >= s->room) {
		if (array_grow(&s->ids, &s->room, (size_t)id + 1, 1)) {
			sql_no_memory(&d->sql);
			return now;
		}
		memset(s->ids + old, 0, s->room - old);
	}
	uint8_t before = s->ids[id];
	if (now > before)
		s->ids[id] = now;
	return before;
}

static void put_op(struct database *d, const struct op_desc *op)
{
	if (raise_seen(d, &d->ops, op->id, 1))
		return;
	sql_row(&d->sql, SQL_OP);
	sql_int(&d->sql, op->id);
	sql_text(&d->sql, op->name);
	sql_text(&d->sql, op->schema[0] ? op->schema : NULL);
	sql_int(&d->sql, op->kind == OP_BACKWARD);
	sql_done(&d->sql);
}

static void put_frame(struct database *d, const struct py_frame *f)
{
	uint8_t now = f->text ? 2 : 1;
	if (raise_seen(d, &d->frames, f->id, now) >= now)
		return;
	sql_row(&d->sql, SQL_FRAME);
	sql_int(&d->sql, (int64_t)f->id + 1);
	sql_text(&d->sql, f->file);
	sql_int(&d->sql, f->line);
	sql_text(&d->sql, f->function);
	sql_text(&d->sql, f->text);
	sql_int(&d->sql, f->is_torch);
	sql_done(&d->sql);
}

static void put_stack(struct database *d, const struct py_stack *s)
{
	if (!s || raise_seen(d, &d->stacks, s->id, 1))
		return;
	for (uint16_t i = 0; i < s->depth; i++) {
		put_frame(d, s->frames[i]);
		sql_row(&d->sql, SQL_STACK);
		sql_int(&d->sql, (int64_t)s->id + 1);
		sql_int(&d->sql, i);
		sql_int(&d->sql, (int64_t)s->frames[i]->id + 1);
		sql_done(&d->sql);
	}
}

static void put_json(struct database *d, const struct op_event *ev, json_values_fn *values)
{
	char *text = NULL;
	size_t len;
	struct json_out j = {.f = open_memstream(&text, &len)};
	if (j.f)
		values(&j, NULL, ev);
	if (j.f && fclose(j.f)) {
		free(text);
		text = NULL;
	}
	sql_given(&d->sql, text);
}

static void put_tensors(struct database *d, const struct op_event *ev)
{
	char text[EVENT_TENSORS_MAX];
	sql_text(&d->sql, event_shapes(text, sizeof(text), ev));
	sql_text(&d->sql, event_dtypes(text, sizeof(text), ev));
	sql_text(&d->sql, event_devices(text, sizeof(text), ev));
}

static void put_times(struct database *d, const struct op_event *ev)
{
	uint64_t ns = ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0;
	sql_int(&d->sql, (int64_t)ev->start_ns);
	sql_known(&d->sql, ev->end_ns);
	if (ev->end_ns)
		sql_int(&d->sql, ns > ev->child_ns ? (int64_t)(ns - ev->child_ns) : 0);
	else
		sql_null(&d->sql);
}

static void put_event(struct database *d, const struct op_event *ev)
{
	const struct py_frame *where = py_stack_where(ev->where_stack);
	const struct py_frame *of = py_stack_where(ev->backward_of);
	put_op(d, ev->op);
	put_stack(d, ev->stack);
	if (where)
		put_frame(d, where);
	if (of)
		put_frame(d, of);
	sql_row(&d->sql, SQL_EVENT);
	sql_int(&d->sql, (int64_t)ev->id);
	sql_known(&d->sql, ev->parent);
	sql_int(&d->sql, ev->depth);
	sql_int(&d->sql, ev->pid);
	sql_int(&d->sql, ev->tid);
	sql_text(&d->sql, op_phase_names[ev->phase]);
	sql_int(&d->sql, ev->op->id);
	put_times(d, ev);
	sql_int(&d->sql, ev->thrown);
	sql_known(&d->sql, ev->forward_id);
	sql_known(&d->sql, ev->stack ? (uint64_t)ev->stack->id + 1 : 0);
	sql_known(&d->sql, where ? (uint64_t)where->id + 1 : 0);
	put_tensors(d, ev);
	put_json(d, ev, json_args);
	put_json(d, ev, json_results);
	sql_known(&d->sql, of ? (uint64_t)of->id + 1 : 0);
	sql_text(&d->sql, py_stack_parameter(ev->where_stack));
	sql_done(&d->sql);
}

static void put_sample(struct database *d, const struct sample *s)
{
	const struct py_frame *where = py_stack_where(s->python);
	bool native = s->native && s->native->depth;
	if (s->op)
		put_op(d, s->op);
	put_stack(d, s->python);
	put_stack(d, s->native);
	sql_row(&d->sql, SQL_SAMPLE);
	sql_int(&d->sql, (int64_t)s->time_ns);
	sql_int(&d->sql, s->pid);
	sql_int(&d->sql, s->tid);
	sql_int(&d->sql, (int64_t)s->weight);
	if (s->op)
		sql_int(&d->sql, s->op->id);
	else
		sql_null(&d->sql);
	sql_text(&d->sql, s->op ? NULL : sample_op_name(s));
	sql_text(&d->sql, op_phase_names[s->phase]);
	sql_int(&d->sql, s->in_kernel);
	sql_int(&d->sql, s->mismatched);
	sql_known(&d->sql, s->python ? (uint64_t)s->python->id + 1 : 0);
	sql_known(&d->sql, s->native ? (uint64_t)s->native->id + 1 : 0);
	sql_known(&d->sql, where ? (uint64_t)where->id + 1 : 0);
	sql_known(&d->sql, native ? (uint64_t)s->native->frames[0]->id + 1 : 0);
	sql_done(&d->sql);
}

/* The row of a name; each file has a name once. */
static int64_t name_id(struct database *d, const char *name)
{
	int64_t id = map_get(&d->names, (uintptr_t)name);
	if (id >= 0)
		return id;
	id = d->names.used + 1;
	if (map_put(&d->names, (uintptr_t)name, (uint32_t)id))
		sql_no_memory(&d->sql);
	sql_row(&d->sql, SQL_NAME);
	sql_int(&d->sql, id);
	sql_text(&d->sql, name);
	sql_done(&d->sql);
	return id;
}

/* The op during which something was launched or done: what its row refers to, before that begins,
 * and its columns. */
static void put_refs(struct database *d, const struct op_event *of)
{
	const struct py_frame *where = py_stack_where(of->where_stack);
	const struct py_frame *forward = py_stack_where(of->backward_of);
	if (of->op)
		put_op(d, of->op);
	put_stack(d, of->stack);
	if (where)
		put_frame(d, where);
	if (forward)
		put_frame(d, forward);
}

static void put_launch(struct database *d, const struct op_event *of, enum activity_launch launch)
{
	const struct py_frame *where = py_stack_where(of->where_stack);
	const struct py_frame *forward = py_stack_where(of->backward_of);
	sql_text(&d->sql, activity_launch_names[launch]);
	if (of->op)
		sql_int(&d->sql, of->op->id);
	else
		sql_null(&d->sql);
	sql_known(&d->sql, of->id);
	sql_text(&d->sql, of->op ? op_phase_names[of->phase] : NULL);
	sql_known(&d->sql, of->stack ? (uint64_t)of->stack->id + 1 : 0);
	sql_known(&d->sql, where ? (uint64_t)where->id + 1 : 0);
	sql_known(&d->sql, forward ? (uint64_t)forward->id + 1 : 0);
	sql_text(&d->sql, py_stack_parameter(of->where_stack));
}

static void put_memory(struct database *d, const struct memory_event *m)
{
	char device[32];
	put_refs(d, &m->of);
	sql_row(&d->sql, SQL_MEMORY);
	sql_int(&d->sql, (int64_t)m->of.start_ns);
	sql_int(&d->sql, m->of.pid);
	sql_known(&d->sql, (uint64_t)m->of.tid);
	sql_text(&d->sql, names_device(device, sizeof(device), m->device_type, m->device_index));
	sql_int(&d->sql, (int64_t)m->address);
	sql_known(&d->sql, m->bytes);
	sql_int(&d->sql, m->freed);
	sql_int(&d->sql, (int64_t)m->total);
	sql_known(&d->sql, m->reserved);
	put_launch(d, &m->of, m->launch);
	sql_done(&d->sql);
}

static void put_activity(struct database *d, const struct activity *a)
{
	char device[32];
	int64_t name = name_id(d, a->name);
	put_refs(d, &a->of);
	sql_row(&d->sql, SQL_ACTIVITY);
	sql_int(&d->sql, a->of.pid);
	sql_known(&d->sql, (uint64_t)a->of.tid);
	sql_text(&d->sql, activity_kind_names[a->kind]);
	sql_text(&d->sql, names_device(device, sizeof(device), a->device_type, a->device_index));
	sql_int(&d->sql, a->stream);
	sql_int(&d->sql, name);
	sql_int(&d->sql, (int64_t)a->of.start_ns);
	sql_int(&d->sql, (int64_t)a->of.end_ns);
	sql_known(&d->sql, a->launched_ns);
	if (a->kind == ACTIVITY_KERNEL)
		sql_null(&d->sql);
	else
		sql_int(&d->sql, (int64_t)a->bytes);
	sql_int(&d->sql, a->in_graph);
	put_launch(d, &a->of, a->launch);
	sql_done(&d->sql);
}

static int put_block(void *arg, const struct code_block *b)
{
	struct database *d = arg;
	const struct py_frame *where = py_stack_where(b->stack);
	if (where)
		put_frame(d, where);
	sql_row(&d->sql, SQL_BLOCK);
	sql_text(&d->sql, b->name);
	sql_int(&d->sql, b->pid);
	sql_int(&d->sql, b->tid);
	sql_int(&d->sql, (int64_t)b->start_ns);
	sql_known(&d->sql, b->end_ns);
	sql_known(&d->sql, where ? (uint64_t)where->id + 1 : 0);
	sql_done(&d->sql);
	return d->sql.error;
}

static void put_build(struct database *d, const struct trace_build *b)
{
	char hex[2 * 64 + 1] = "";
	for (uint32_t i = 0; i < b->len && i < 64; i++)
		snprintf(hex + 2 * (size_t)i, 3, "%02x", b->id[i]);
	sql_row(&d->sql, SQL_BUILD);
	sql_text(&d->sql, b->file);
	sql_text(&d->sql, hex);
	sql_done(&d->sql);
}

static void put_meta(struct database *d, const char *key, uint64_t n)
{
	sql_row(&d->sql, SQL_META);
	sql_text(&d->sql, key);
	sql_int(&d->sql, (int64_t)n);
	sql_done(&d->sql);
}

static void put_sampling(struct database *d, const struct sampling *s)
{
	sql_row(&d->sql, SQL_META);
	sql_text(&d->sql, "sampling_event");
	sql_text(&d->sql, s->event);
	sql_done(&d->sql);
	put_meta(d, "sampling_frequency", s->frequency);
	put_meta(d, "sampling_kernel", s->kernel);
}

static void put_target(struct database *d, const struct trace_target *t)
{
	sql_row(&d->sql, SQL_PROCESS);
	sql_int(&d->sql, t->pid);
	sql_int(&d->sql, t->start_ns);
	sql_text(&d->sql, t->comm);
	sql_text(&d->sql, t->argv);
	sql_text(&d->sql, t->torch_version);
	sql_text(&d->sql, t->python_version);
	sql_text(&d->sql, t->engine);
	sql_done(&d->sql);
}

static void put_thread(struct database *d, int32_t pid, int32_t tid, const char *name)
{
	sql_row(&d->sql, SQL_THREAD);
	sql_int(&d->sql, pid);
	sql_int(&d->sql, tid);
	sql_text(&d->sql, name);
	sql_done(&d->sql);
}

static int put_item(void *arg, const struct trace_item *item)
{
	struct database *d = arg;
	if (item->type == TRACE_EVENT && export_is_mark(d->in, &item->event)) {
		if (block_pairs_add(&d->blocks, &item->event) == -ENOMEM)
			sql_no_memory(&d->sql);
	} else if (item->type == TRACE_EVENT)
		put_event(d, &item->event);
	else if (item->type == TRACE_SAMPLE)
		put_sample(d, &item->sample);
	else if (item->type == TRACE_ACTIVITY)
		put_activity(d, &item->activity);
	else if (item->type == TRACE_MEMORY)
		put_memory(d, &item->memory);
	else if (item->type == TRACE_MEMORY_LOST)
		d->memory_lost += item->lost.count;
	else if (item->type == TRACE_ACTIVITIES_LOST)
		d->activities_lost += item->lost.count;
	else if (item->type == TRACE_SAMPLES_LOST)
		d->samples_lost += item->lost.count;
	else if (item->type == TRACE_SAMPLING)
		put_sampling(d, &item->sampling);
	else if (item->type == TRACE_BUILD)
		put_build(d, &item->build);
	else if (item->type == TRACE_TARGET)
		put_target(d, &item->target);
	else if (item->type == TRACE_THREAD)
		put_thread(d, item->thread.pid, item->thread.tid, item->thread.name);
	sql_commit_now_and_then(&d->sql);
	return d->sql.error;
}

static int fill(struct database *d, struct export_in *in, struct err *e)
{
	int r = export_each(in, put_item, d, e);
	block_pairs_finish(&d->blocks);
	put_meta(d, "origin_ns", trace_query_origin(in->query));
	put_meta(d, "lost", trace_query_lost(in->query));
	put_meta(d, "summed", trace_query_summed(in->query));
	put_meta(d, "samples_lost", d->samples_lost);
	put_meta(d, "activities_lost", d->activities_lost);
	put_meta(d, "memory_lost", d->memory_lost);
	sql_finish(&d->sql);
	return r;
}

int export_sqlite(struct export_in *in, int fd, const char *output, struct err *e)
{
	struct database d = {.blocks = {.end = put_block, .arg = &d}, .in = in};
	int r = 0;
	sql_open(&d.sql, fd);
	if (!d.sql.error)
		r = fill(&d, in, e);
	if (d.sql.error) {
		r = err_set(e, d.sql.error, "cannot write %s: %s", output, sql_message(&d.sql));
		err_hint(e, "name a file in a directory with room, where you may write: -o FILE");
	}
	sql_close(&d.sql);
	free(d.ops.ids);
	free(d.frames.ids);
	free(d.stacks.ids);
	map_free(&d.names);
	block_pairs_free(&d.blocks);
	return r;
}
