#include "tui/model/view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "perf/report/report.h"

enum { KEY_MAX = 4096, NAME_MAX_BYTES = 512, SHAPES_MAX = 256 };

const char *const grouping_names[] = {"op and line", "op",     "line",
				      "module",	     "thread", "op and shapes"};

const char grouping_no_module[] = "(no module)";

struct grouping {
	enum grouping_by group;
	const char *(*thread_name)(void *arg, int32_t pid, int32_t tid);
	void *arg;
	struct intern keys;
	struct arena arena;
	struct grouping_row **rows;
	const struct op_desc **names; /* stand-ins for the op of the events of a row, which the
					 aggregate then groups by; NULL: its own */
	size_t n, room, names_room;
	struct aggregate *sum;
	bool marks; /* are ops */
};

struct key {
	size_t len;
	char bytes[KEY_MAX];
};

struct grouping *grouping_new(enum grouping_by group, bool marks,
			      const char *(*thread_name)(void *arg, int32_t pid, int32_t tid),
			      void *arg)
{
	struct grouping *t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->group = group;
	t->thread_name = thread_name;
	t->arg = arg;
	t->marks = marks;
	t->sum = aggregate_new(AGGREGATE_DEFAULT | (marks ? AGGREGATE_MARKS : 0));
	if (t->sum)
		return t;
	free(t);
	return NULL;
}

void grouping_free(struct grouping *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		free(t->rows[i]->last.bytes);
	free(t->rows);
	free(t->names);
	aggregate_free(t->sum);
	intern_free(&t->keys);
	arena_free(&t->arena);
	free(t);
}

struct grouping_row *const *grouping_rows(const struct grouping *t, size_t *n)
{
	*n = t->n;
	return t->rows;
}

const struct aggregate *grouping_sum(const struct grouping *t)
{
	return t->sum;
}

static void key_bytes(struct key *k, const void *bytes, size_t len)
{
	if (len > KEY_MAX - k->len)
		len = KEY_MAX - k->len;
	memcpy(k->bytes + k->len, bytes, len);
	k->len += len;
}

static void key_text(struct key *k, const char *s)
{
	size_t n = strnlen(s, NAME_MAX_BYTES);
	key_bytes(k, s, n);
	key_bytes(k, "", 1);
}

static void key_shapes(struct key *k, const struct value *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (v[i].kind == VALUE_LIST) {
			key_shapes(k, v[i].items, v[i].count);
			continue;
		}
		if (v[i].kind != VALUE_TENSOR)
			continue;
		const struct tensor_meta *m = &v[i].tensor->meta;
		uint8_t ndim = m->unknown & TENSOR_NO_SHAPE ? UINT8_MAX : m->ndim;
		key_bytes(k, &ndim, 1);
		if (ndim != UINT8_MAX)
			key_bytes(k, m->shape, ndim * sizeof(*m->shape));
	}
}

static void key_where(struct key *k, const struct py_stack *stack)
{
	const struct py_frame *where = py_stack_where(stack);
	const char *parameter = py_stack_parameter(stack);
	int32_t line = where ? where->line : -1;
	key_bytes(k, &line, sizeof(line));
	key_text(k, where			  ? where->file
		    : parameter			  ? parameter
		    : py_stack_is_left_out(stack) ? py_stack_left_out_text
						  : "");
}

static const char *module_of(const struct op_event *ev)
{
	const char *module = py_stack_module(ev->where_stack);
	return module ? module : grouping_no_module;
}

/* launch: of what a device did, where no op is known, not LAUNCH_IN_OP. */
static void make_key(struct key *k, enum grouping_by group, const struct op_event *ev,
		     enum activity_launch launch)
{
	const uint8_t in_no_op = (uint8_t)launch;
	k->len = 0;
	if (group == GROUPING_THREAD) {
		key_bytes(k, &ev->pid, sizeof(ev->pid));
		key_bytes(k, &ev->tid, sizeof(ev->tid));
		return;
	}
	key_bytes(k, &ev->phase, 1);
	key_bytes(k, &in_no_op, 1);
	if ((group != GROUPING_LINE && group != GROUPING_MODULE) || launch != LAUNCH_IN_OP)
		key_text(k, ev->op->name);
	if (group == GROUPING_MODULE)
		key_text(k, module_of(ev));
	if (group == GROUPING_LINE || group == GROUPING_OP_LINE)
		key_where(k, ev->where_stack);
	if (group == GROUPING_SHAPE)
		key_shapes(k, ev->args, ev->nargs);
}

/* Append to out at *at, cut to its size. */
static void name_append(char *out, size_t size, size_t *at, const char *s)
{
	size_t n = strlen(s);
	if (n >= size - *at)
		n = size - *at - 1;
	memcpy(out + *at, s, n);
	*at += n;
	out[*at] = '\0';
}

static void add_shape(char *out, size_t size, size_t *at, const struct tensor_meta *m)
{
	char dim[24];
	name_append(out, size, at, *at ? " [" : "[");
	if (m->unknown & TENSOR_NO_SHAPE)
		name_append(out, size, at, "?");
	else
		for (unsigned i = 0; i < m->ndim; i++) {
			snprintf(dim, sizeof(dim), "%s%" PRId64, i ? "," : "", m->shape[i]);
			name_append(out, size, at, dim);
		}
	name_append(out, size, at, "]");
}

static void add_shapes(char *out, size_t size, size_t *at, const struct value *v, uint32_t n)
{
	for (uint32_t i = 0; i < n && *at + 1 < size; i++) {
		if (v[i].kind == VALUE_LIST)
			add_shapes(out, size, at, v[i].items, v[i].count);
		else if (v[i].kind == VALUE_TENSOR)
			add_shape(out, size, at, &v[i].tensor->meta);
	}
}

const char *grouping_shapes(char *out, size_t size, const struct op_event *ev)
{
	size_t at = 0;
	out[0] = '\0';
	add_shapes(out, size, &at, ev->args, ev->nargs);
	if (at + 1 == size && size > 4)
		memcpy(out + size - 4, "...", 4);
	return out;
}

static const char *name_of(const struct grouping *t, const struct op_event *ev,
			   enum activity_launch launch, char *out, size_t size)
{
	char shapes[SHAPES_MAX];
	const char *name;
	if (launch != LAUNCH_IN_OP && (t->group != GROUPING_THREAD || !ev->tid))
		return ev->op->name;
	switch (t->group) {
	case GROUPING_LINE:
		snprintf(out, size, "(%s)", op_phase_names[ev->phase]);
		return out;
	case GROUPING_MODULE:
		return module_of(ev);
	case GROUPING_THREAD:
		name = t->thread_name(t->arg, ev->pid, ev->tid);
		snprintf(out, size, "%" PRId32 " %s", ev->tid, name);
		return out;
	case GROUPING_SHAPE:
		snprintf(out, size, "%s %s", ev->op->name,
			 grouping_shapes(shapes, sizeof(shapes), ev));
		return out;
	default:
		return ev->op->name;
	}
}

static int add_row(struct grouping *t, const struct op_event *ev, enum activity_launch launch,
		   bool other)
{
	char text[NAME_MAX_BYTES + SHAPES_MAX];
	const char *name = other ? "(other)" : name_of(t, ev, launch, text, sizeof(text));
	struct op_desc *op = arena_alloc(&t->arena, sizeof(*op));
	struct grouping_row *row = arena_alloc(&t->arena, sizeof(*row));
	if (!op || !row || !(op->name = arena_strndup(&t->arena, name, strlen(name))) ||
	    array_grow(&t->rows, &t->room, t->n + 1, sizeof(struct grouping_row *)) ||
	    array_grow(&t->names, &t->names_room, t->n + 1, sizeof(struct op_desc *)))
		return -ENOMEM;
	row->id = (uint32_t)t->n;
	t->rows[t->n] = row;
	t->names[t->n++] = op;
	return 0;
}

/* The index of the event's row; *other if it is the row "(other)". */
static int64_t row_id(struct grouping *t, const struct op_event *ev, enum activity_launch launch,
		      bool *other)
{
	struct key k;
	bool is_new = false;
	make_key(&k, t->group, ev, launch);
	int64_t id = t->n < GROUPING_ROWS ? intern(&t->keys, k.bytes, (uint32_t)k.len, &is_new)
					  : intern_find(&t->keys, k.bytes, (uint32_t)k.len);
	*other = id == -ENOENT || id == GROUPING_ROWS - 1;
	if (id == -ENOENT)
		id = GROUPING_ROWS - 1;
	if (is_new && add_row(t, ev, launch, *other))
		return -ENOMEM;
	return id;
}

static uint64_t elements(const struct value *v, uint32_t n)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (v[i].kind == VALUE_LIST)
			sum += elements(v[i].items, v[i].count);
		else if (v[i].kind == VALUE_TENSOR)
			sum += (uint64_t)v[i].tensor->meta.numel;
	}
	return sum;
}

static int call_keep(struct grouping_call *c, const struct trace_raw_event *raw)
{
	c->size = raw->size <= GROUPING_CALL_MAX ? raw->size : 0;
	if (c->size > c->room || !c->bytes) {
		uint8_t *more = realloc(c->bytes, c->size + 64);
		if (!more)
			return -ENOMEM;
		c->bytes = more;
		c->room = c->size + 64;
	}
	c->id = raw->id;
	c->last_id = raw->last_id;
	c->last_ns = raw->last_ns;
	memcpy(c->bytes, raw->payload, c->size);
	return 0;
}

/* The index of the event's row; *named: the event as that row has it. */
static int64_t row_of_event(struct grouping *t, const struct op_event *ev,
			    enum activity_launch launch, struct op_event *named)
{
	bool other;
	int64_t id = row_id(t, ev, launch, &other);
	if (id < 0)
		return id;
	*named = *ev;
	named->op = t->names[id];
	bool with_line = t->group == GROUPING_OP_LINE || t->group == GROUPING_LINE;
	if (other || !with_line)
		named->where_stack = NULL;
	if (other || t->group == GROUPING_THREAD)
		named->phase = PHASE_FORWARD;
	return id;
}

/* After an addition to the row, before which the aggregate had `before` rows. */
static void row_added(struct grouping *t, int64_t id, size_t before)
{
	size_t after;
	const struct aggregate_row *const *sums = aggregate_rows(t->sum, &after);
	if (after > before)
		t->rows[id]->sum = sums[after - 1];
}

int grouping_add_sum(struct grouping *t, const struct op_sum *s)
{
	struct op_sum named = *s;
	size_t before;
	if (op_mark(s->of.op) && !t->marks)
		return aggregate_add_sum(t->sum, s);
	int64_t id = row_of_event(t, &s->of, LAUNCH_IN_OP, &named.of);
	if (id < 0)
		return (int)id;
	aggregate_rows(t->sum, &before);
	int r = aggregate_add_sum(t->sum, &named);
	if (!r)
		row_added(t, id, before);
	return r;
}

int grouping_add_activity(struct grouping *t, const struct activity *a)
{
	const bool in_mark = a->of.op && op_mark(a->of.op) && !t->marks,
		   in_no_op = !a->of.op || in_mark;
	const enum activity_launch launch = in_mark    ? LAUNCH_IN_NO_OP
					    : in_no_op ? a->launch
						       : LAUNCH_IN_OP;
	const struct op_desc none = {.name = report_launch_text(launch)};
	struct op_event of = a->of;
	struct activity named = *a;
	size_t before;
	if (t->group == GROUPING_SHAPE)
		return 0;
	of.op = in_no_op ? &none : of.op;
	int64_t id = row_of_event(t, &of, launch, &named.of);
	if (id < 0)
		return (int)id;
	/* The row is the calls', too, or has a name that says what is not known. */
	named.launch = LAUNCH_IN_OP;
	aggregate_rows(t->sum, &before);
	int r = aggregate_add_activity(t->sum, &named);
	if (!r)
		row_added(t, id, before);
	return r;
}

int grouping_add(struct grouping *t, const struct op_event *ev, const struct trace_raw_event *raw,
		 const struct grouping_row **row)
{
	struct op_event named;
	size_t before;
	*row = NULL;
	if (!ev->end_ns || (op_mark(ev->op) && !t->marks))
		return aggregate_add(t->sum, ev);
	int64_t id = row_of_event(t, ev, LAUNCH_IN_OP, &named);
	if (id < 0)
		return (int)id;
	aggregate_rows(t->sum, &before);
	int r = aggregate_add(t->sum, &named);
	if (r)
		return r;
	row_added(t, id, before);
	*row = t->rows[id];
	t->rows[id]->last_elements = elements(ev->args, ev->nargs);
	return call_keep(&t->rows[id]->last, raw);
}
