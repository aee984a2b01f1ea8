#include "perf/events/print_event.h"

#include <inttypes.h>

#include "symbolizer/event/names.h"

/* null for NULL: unknown. */
static void put_dims(struct json_out *j, const char *key, const int64_t *dims, unsigned n)
{
	if (!dims) {
		json_nothing(j, key);
		return;
	}
	json_open(j, key, '[');
	for (unsigned i = 0; i < n; i++)
		json_i64(j, NULL, dims[i]);
	json_close(j, ']');
}

/* The name, or "what code" for a code without one. */
static void put_name(struct json_out *j, const char *key, const char *name, const char *what,
		     int64_t code)
{
	if (name)
		json_text(j, key, name);
	else
		json_format(j, key, "\"%s %" PRId64 "\"", what, code);
}

static void put_device(struct json_out *j, const char *key, int type, int index)
{
	char text[32];
	json_text(j, key, names_device(text, sizeof(text), type, index));
}

/* Write null when the value is unknown. Returns whether it is known. */
static bool known(struct json_out *j, const char *key, bool unknown)
{
	if (unknown)
		json_nothing(j, key);
	return !unknown;
}

static void put_tensor(struct json_out *j, const struct tensor *t)
{
	const struct tensor_meta *m = &t->meta;
	put_dims(j, "shape", m->unknown & TENSOR_NO_SHAPE ? NULL : m->shape, m->ndim);
	put_dims(j, "stride", m->unknown & TENSOR_NO_STRIDE ? NULL : m->stride, m->ndim);
	if (known(j, "storage_offset", m->unknown & TENSOR_NO_OFFSET))
		json_i64(j, "storage_offset", t->storage_offset);
	if (known(j, "numel", m->unknown & TENSOR_NO_SHAPE))
		json_i64(j, "numel", m->numel);
	if (known(j, "dtype", m->unknown & TENSOR_NO_DTYPE))
		put_name(j, "dtype", names_dtype(m->dtype), "dtype", m->dtype);
	if (known(j, "device", m->unknown & TENSOR_NO_DEVICE))
		put_device(j, "device", m->device_type, m->device_index);
	if (known(j, "layout", m->unknown & TENSOR_NO_LAYOUT))
		put_name(j, "layout", names_layout(m->layout), "layout", m->layout);
	if (known(j, "requires_grad", m->unknown & TENSOR_NO_REQUIRES_GRAD))
		json_bool(j, "requires_grad", m->requires_grad);
	if (known(j, "data_ptr", m->unknown & TENSOR_NO_DATA_PTR))
		json_u64(j, "data_ptr", t->data_ptr);
}

static void put_number(struct json_out *j, const struct value *v, int kind)
{
	if (kind == VALUE_FLOAT)
		json_float(j, "value", v->f);
	else if (kind == VALUE_BOOL)
		json_bool(j, "value", v->i);
	else if (v->is_unsigned)
		json_u64(j, "value", (uint64_t)v->i);
	else
		json_i64(j, "value", v->i);
}

static void put_complex(struct json_out *j, const struct value *v)
{
	json_open(j, "value", '[');
	json_float(j, NULL, v->c.re);
	json_float(j, NULL, v->c.im);
	json_close(j, ']');
}

static void put_group(struct json_out *j, const struct value *v)
{
	json_u64(j, "address", v->group.address);
	if (v->group.rank < 0) {
		json_nothing(j, "rank");
		json_nothing(j, "size");
		return;
	}
	json_i64(j, "rank", v->group.rank);
	json_i64(j, "size", v->group.size);
}

static void put_work(struct json_out *j, const struct value *v)
{
	json_u64(j, "address", v->work.address);
	json_text(j, "backend", v->work.backend);
}

static void put_plain(struct json_out *j, const struct value *v)
{
	switch (v->kind) {
	case VALUE_INT:
	case VALUE_FLOAT:
	case VALUE_BOOL:
		put_number(j, v, v->kind);
		break;
	case VALUE_SCALAR:
		put_number(j, v, v->scalar);
		break;
	case VALUE_COMPLEX:
		put_complex(j, v);
		break;
	case VALUE_STRING:
		json_bytes(j, "value", v->str, v->count);
		break;
	case VALUE_DTYPE:
		put_name(j, "value", names_dtype((int)v->i), "dtype", v->i);
		break;
	case VALUE_DEVICE:
		put_device(j, "value", v->device.type, v->device.index);
		break;
	case VALUE_LAYOUT:
		put_name(j, "value", names_layout((int)v->i), "layout", v->i);
		break;
	case VALUE_MEMORY_FORMAT:
		put_name(j, "value", names_memory_format((int)v->i), "memory format", v->i);
		break;
	case VALUE_GROUP:
		put_group(j, v);
		break;
	case VALUE_WORK:
		put_work(j, v);
		break;
	default: /* none; or a generator, whose value means nothing outside its process */
		json_nothing(j, "value");
	}
}

static const char *kind_name(const struct value *v)
{
	static const char *const names[] = {
	    [VALUE_NONE] = "none",
	    [VALUE_TENSOR] = "tensor",
	    [VALUE_LIST] = "list",
	    [VALUE_INT] = "int",
	    [VALUE_FLOAT] = "float",
	    [VALUE_BOOL] = "bool",
	    [VALUE_SCALAR] = "scalar",
	    [VALUE_COMPLEX] = "complex",
	    [VALUE_STRING] = "string",
	    [VALUE_DTYPE] = "dtype",
	    [VALUE_DEVICE] = "device",
	    [VALUE_LAYOUT] = "layout",
	    [VALUE_MEMORY_FORMAT] = "memory_format",
	    [VALUE_GENERATOR] = "generator",
	    [VALUE_NOT_DECODED] = "not_decoded",
	    [VALUE_GROUP] = "process_group",
	    [VALUE_WORK] = "work",
	};
	return v->kind < sizeof(names) / sizeof(names[0]) ? names[v->kind] : "not_decoded";
}

static void put_value(struct json_out *j, const struct value *v, const char *name)
{
	json_open(j, NULL, '{');
	if (name)
		json_text(j, "name", name);
	json_text(j, "kind", kind_name(v));
	if (v->kind == VALUE_TENSOR) {
		put_tensor(j, v->tensor);
	} else if (v->kind == VALUE_LIST) {
		json_open(j, "items", '[');
		for (uint32_t i = 0; i < v->count; i++)
			put_value(j, &v->items[i], NULL);
		json_close(j, ']');
	} else if (v->kind == VALUE_NOT_DECODED || v->kind >= VALUE_KINDS) {
		json_text(j, "reason",
			  v->kind == VALUE_NOT_DECODED && v->str ? v->str : "unknown kind");
	} else {
		put_plain(j, v);
	}
	json_close(j, '}');
}

static void put_values(struct json_out *j, const char *key, const struct value *v, uint16_t n,
		       const struct op_arg *names, uint16_t nnames)
{
	json_open(j, key, '[');
	for (uint16_t i = 0; i < n; i++)
		put_value(j, &v[i], i < nnames && names[i].name ? names[i].name : "");
	json_close(j, ']');
}

void json_args(struct json_out *j, const char *key, const struct op_event *ev)
{
	put_values(j, key, ev->args, ev->nargs, ev->op->args, ev->op->nargs);
}

void json_results(struct json_out *j, const char *key, const struct op_event *ev)
{
	put_values(j, key, ev->results, ev->nresults, ev->op->results, ev->op->nresults);
}

static void put_column(struct json_out *j, const char *key, int32_t column)
{
	if (known(j, key, column < 0))
		json_i64(j, key, column);
}

static void put_stack(struct json_out *j, const char *key, const struct py_stack *s)
{
	json_open(j, key, '[');
	for (uint16_t i = 0; s && i < s->depth; i++) {
		const struct py_frame *p = s->frames[i];
		json_open(j, NULL, '{');
		json_text(j, "file", p->file);
		json_i64(j, "line", p->line);
		json_text(j, "function", p->function);
		put_column(j, "column", p->column);
		put_column(j, "end_column", p->end_column);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_id(struct json_out *j, const char *key, uint64_t n)
{
	if (known(j, key, n == 0))
		json_u64(j, key, n);
}

void json_event(FILE *f, const struct op_event *ev)
{
	struct json_out j = {.f = f};
	json_open(&j, NULL, '{');
	json_u64(&j, "id", ev->id);
	put_id(&j, "parent", ev->parent);
	json_u64(&j, "depth", ev->depth);
	json_i64(&j, "pid", ev->pid);
	json_i64(&j, "tid", ev->tid);
	json_text(&j, "phase", op_phase_names[ev->phase]);
	json_text(&j, "op", ev->op->name);
	json_u64(&j, "start_ns", ev->start_ns);
	put_id(&j, "end_ns", ev->end_ns);
	json_bool(&j, "thrown", ev->thrown);
	put_id(&j, "forward_id", ev->forward_id);
	json_args(&j, "args", ev);
	json_results(&j, "results", ev);
	put_stack(&j, "stack", ev->where_stack ? ev->where_stack : ev->stack);
	put_stack(&j, "backward_of", ev->backward_of);
	json_text(&j, "parameter", py_stack_parameter(ev->where_stack));
	if (ev->native)
		put_stack(&j, "native", ev->native);
	json_close(&j, '}');
}

/* The op during which something was launched or done. */
static void put_of(struct json_out *j, const struct op_event *of, enum activity_launch launch)
{
	json_i64(j, "pid", of->pid);
	put_id(j, "tid", (uint64_t)of->tid);
	json_text(j, "launch", activity_launch_names[launch]);
	json_text(j, "op", of->op ? of->op->name : NULL);
	put_id(j, "op_id", of->id);
	json_text(j, "phase", of->op ? op_phase_names[of->phase] : NULL);
	put_stack(j, "stack", of->where_stack);
	put_stack(j, "backward_of", of->backward_of);
	json_text(j, "parameter", py_stack_parameter(of->where_stack));
}

void activity_json(FILE *f, const struct activity *a)
{
	struct json_out j = {.f = f};
	char device[32];
	json_open(&j, NULL, '{');
	json_text(&j, "activity", activity_kind_names[a->kind]);
	json_text(&j, "name", a->name);
	json_text(&j, "device",
		  names_device(device, sizeof(device), a->device_type, a->device_index));
	json_u64(&j, "stream", a->stream);
	json_u64(&j, "start_ns", a->of.start_ns);
	json_u64(&j, "end_ns", a->of.end_ns);
	put_id(&j, "launched_ns", a->launched_ns);
	if (known(&j, "bytes", a->kind == ACTIVITY_KERNEL))
		json_u64(&j, "bytes", a->bytes);
	json_bool(&j, "in_graph", a->in_graph);
	put_of(&j, &a->of, a->launch);
	json_close(&j, '}');
}

void memory_json(FILE *f, const struct memory_event *m)
{
	struct json_out j = {.f = f};
	json_open(&j, NULL, '{');
	json_text(&j, "memory", m->freed ? "freed" : "allocated");
	json_u64(&j, "time_ns", m->of.start_ns);
	put_device(&j, "device", m->device_type, m->device_index);
	json_u64(&j, "address", m->address);
	put_id(&j, "bytes", m->bytes);
	json_u64(&j, "total", m->total);
	put_id(&j, "reserved", m->reserved);
	put_of(&j, &m->of, m->launch);
	json_close(&j, '}');
}

struct stats_rows {
	struct json_out j;
	const struct event_stats *stats;
	uint32_t next;
};

static void put_bound(struct json_out *j, const char *key, const struct stats *s, double bound,
		      int64_t exact)
{
	if (!s->is_int || !s->count)
		json_float(j, key, bound);
	else if (s->is_unsigned)
		json_u64(j, key, (uint64_t)exact);
	else
		json_i64(j, key, exact);
}

static void put_numbers(struct json_out *j, const struct stats *s)
{
	json_u64(j, "nan", s->nan);
	json_u64(j, "inf", s->pos_inf);
	json_u64(j, "neg_inf", s->neg_inf);
	json_u64(j, "zeros", s->zeros);
	put_bound(j, "min", s, s->min, s->min_int);
	put_bound(j, "max", s, s->max, s->max_int);
	json_float(j, "mean", s->mean);
	json_float(j, "std", s->std);
	json_float(j, "norm", s->l2);
}

static void put_row(const struct event_row *row, void *arg)
{
	struct stats_rows *r = arg;
	struct json_out *j = &r->j;
	const struct tensor_stats *m = row->value->kind == VALUE_TENSOR
					   ? event_stats_next(r->stats, &row->place, &r->next)
					   : NULL;
	if (!m)
		return;
	json_open(j, NULL, '{');
	json_text(j, "name", row->name);
	json_text(j, "of", row->place.is_result ? "results" : "args");
	if (m->why) {
		json_text(j, "reason", m->why);
	} else {
		json_u64(j, "count", m->stats.count);
		if (m->stats.is_numeric)
			put_numbers(j, &m->stats);
		json_format(j, "hash", "\"%016" PRIx64 "\"", m->stats.hash);
	}
	json_close(j, '}');
}

void json_stats(FILE *f, const struct op_event *ev)
{
	struct stats_rows r = {.j.f = f, .stats = ev->stats};
	json_open(&r.j, NULL, '{');
	json_u64(&r.j, "stats_of", ev->id);
	json_open(&r.j, "tensors", '[');
	event_rows(ev, put_row, &r);
	json_close(&r.j, ']');
	json_close(&r.j, '}');
}
