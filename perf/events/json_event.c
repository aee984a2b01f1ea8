#include "perf/events/json_event.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "perf/events/internal.h"
#include "symbolizer/event/names.h"

/* Length of the prefix that needs no escaping. */
static size_t plain_len(const unsigned char *s, size_t len)
{
	size_t n = 0;
	while (n < len && s[n] >= 0x20 && s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
		n++;
	return n;
}

void json_write_string(FILE *f, const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;
	putc('"', f);
	for (size_t i = 0; i < len;) {
		size_t run = plain_len(p + i, len - i);
		fwrite(p + i, 1, run, f);
		i += run;
		if (i == len)
			break;
		uint32_t cp = 0;
		size_t n = text_utf8(s + i, len - i, &cp);
		if (n == 0)
			fputs("\\ufffd", f);
		else if (p[i] == '"' || p[i] == '\\')
			fprintf(f, "\\%c", p[i]);
		else if (!text_is_safe(cp))
			fprintf(f, "\\u%04x", cp);
		else
			fwrite(p + i, 1, n, f);
		i += n ? n : 1;
	}
	putc('"', f);
}

static void put_string(FILE *f, const char *s)
{
	json_write_string(f, s, strlen(s));
}

void json_write_float(FILE *f, double d)
{
	char text[32];
	text_float(text, sizeof(text), d);
	if (isfinite(d))
		fputs(text, f);
	else
		put_string(f, text);
}

static void put_dims(FILE *f, const int64_t *dims, unsigned n)
{
	putc('[', f);
	for (unsigned i = 0; i < n; i++)
		fprintf(f, "%s%" PRId64, i ? "," : "", dims[i]);
	putc(']', f);
}

/* The name, or "what code" for a code without one. */
static void put_name(FILE *f, const char *name, const char *what, int64_t code)
{
	if (name)
		fprintf(f, "\"%s\"", name);
	else
		fprintf(f, "\"%s %" PRId64 "\"", what, code);
}

static void put_device(FILE *f, int type, int index)
{
	char text[32];
	put_string(f, names_device(text, sizeof(text), type, index));
}

/* Write `,"key":`, followed by null when the value is unknown. Returns whether it is known. */
static bool put_key(FILE *f, const char *key, bool unknown)
{
	fprintf(f, ",\"%s\":%s", key, unknown ? "null" : "");
	return !unknown;
}

static void put_tensor(FILE *f, const struct tensor *t)
{
	const struct tensor_meta *m = &t->meta;
	if (put_key(f, "shape", m->unknown & TENSOR_NO_SHAPE))
		put_dims(f, m->shape, m->ndim);
	if (put_key(f, "stride", m->unknown & TENSOR_NO_STRIDE))
		put_dims(f, m->stride, m->ndim);
	if (put_key(f, "storage_offset", m->unknown & TENSOR_NO_OFFSET))
		fprintf(f, "%" PRId64, t->storage_offset);
	if (put_key(f, "numel", m->unknown & TENSOR_NO_SHAPE))
		fprintf(f, "%" PRId64, m->numel);
	if (put_key(f, "dtype", m->unknown & TENSOR_NO_DTYPE))
		put_name(f, names_dtype(m->dtype), "dtype", m->dtype);
	if (put_key(f, "device", m->unknown & TENSOR_NO_DEVICE))
		put_device(f, m->device_type, m->device_index);
	if (put_key(f, "layout", m->unknown & TENSOR_NO_LAYOUT))
		put_name(f, names_layout(m->layout), "layout", m->layout);
	if (put_key(f, "requires_grad", m->unknown & TENSOR_NO_REQUIRES_GRAD))
		fputs(m->requires_grad ? "true" : "false", f);
	if (put_key(f, "data_ptr", m->unknown & TENSOR_NO_DATA_PTR))
		fprintf(f, "%" PRIu64, t->data_ptr);
}

static void put_number(FILE *f, const struct value *v, int kind)
{
	if (kind == VALUE_FLOAT)
		json_write_float(f, v->f);
	else if (kind == VALUE_BOOL)
		fputs(v->i ? "true" : "false", f);
	else if (v->is_unsigned)
		fprintf(f, "%" PRIu64, (uint64_t)v->i);
	else
		fprintf(f, "%" PRId64, v->i);
}

static void put_plain(FILE *f, const struct value *v)
{
	switch (v->kind) {
	case VALUE_INT:
	case VALUE_FLOAT:
	case VALUE_BOOL:
		put_number(f, v, v->kind);
		break;
	case VALUE_SCALAR:
		put_number(f, v, v->scalar);
		break;
	case VALUE_COMPLEX:
		putc('[', f);
		json_write_float(f, v->c.re);
		putc(',', f);
		json_write_float(f, v->c.im);
		putc(']', f);
		break;
	case VALUE_STRING:
		json_write_string(f, v->str, v->count);
		break;
	case VALUE_DTYPE:
		put_name(f, names_dtype((int)v->i), "dtype", v->i);
		break;
	case VALUE_DEVICE:
		put_device(f, v->device.type, v->device.index);
		break;
	case VALUE_LAYOUT:
		put_name(f, names_layout((int)v->i), "layout", v->i);
		break;
	case VALUE_MEMORY_FORMAT:
		put_name(f, names_memory_format((int)v->i), "memory format", v->i);
		break;
	default: /* none; or a generator, whose value means nothing outside its process */
		fputs("null", f);
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
	};
	return v->kind < sizeof(names) / sizeof(names[0]) ? names[v->kind] : "not_decoded";
}

static void put_value(FILE *f, const struct value *v, const char *name)
{
	putc('{', f);
	if (name) {
		fputs("\"name\":", f);
		put_string(f, name);
		putc(',', f);
	}
	fprintf(f, "\"kind\":\"%s\"", kind_name(v));
	if (v->kind == VALUE_TENSOR) {
		put_tensor(f, v->tensor);
	} else if (v->kind == VALUE_LIST) {
		fputs(",\"items\":[", f);
		for (uint32_t i = 0; i < v->count; i++) {
			if (i)
				putc(',', f);
			put_value(f, &v->items[i], NULL);
		}
		putc(']', f);
	} else if (v->kind >= VALUE_NOT_DECODED) {
		fputs(",\"reason\":", f);
		put_string(f, v->kind == VALUE_NOT_DECODED && v->str ? v->str : "unknown kind");
	} else {
		fputs(",\"value\":", f);
		put_plain(f, v);
	}
	putc('}', f);
}

static void put_values(FILE *f, const struct value *v, uint16_t n, const struct op_arg *names,
		       uint16_t nnames)
{
	putc('[', f);
	for (uint16_t i = 0; i < n; i++) {
		if (i)
			putc(',', f);
		put_value(f, &v[i], i < nnames && names[i].name ? names[i].name : "");
	}
	putc(']', f);
}

void json_args(FILE *f, const struct op_event *ev)
{
	put_values(f, ev->args, ev->nargs, ev->op->args, ev->op->nargs);
}

void json_results(FILE *f, const struct op_event *ev)
{
	put_values(f, ev->results, ev->nresults, ev->op->results, ev->op->nresults);
}

static void put_column(FILE *f, const char *key, int32_t column)
{
	if (put_key(f, key, column < 0))
		fprintf(f, "%" PRId32, column);
}

static void put_stack(FILE *f, const struct py_stack *s)
{
	putc('[', f);
	for (uint16_t i = 0; s && i < s->depth; i++) {
		const struct py_frame *p = s->frames[i];
		fputs(i ? ",{\"file\":" : "{\"file\":", f);
		put_string(f, p->file);
		fprintf(f, ",\"line\":%" PRId32 ",\"function\":", p->line);
		put_string(f, p->function);
		put_column(f, "column", p->column);
		put_column(f, "end_column", p->end_column);
		putc('}', f);
	}
	putc(']', f);
}

static void put_id(FILE *f, const char *key, uint64_t n)
{
	if (put_key(f, key, n == 0))
		fprintf(f, "%" PRIu64, n);
}

void json_event(FILE *f, const struct op_event *ev)
{
	fprintf(f, "{\"id\":%" PRIu64, ev->id);
	put_id(f, "parent", ev->parent);
	fprintf(f, ",\"depth\":%u,\"pid\":%" PRId32 ",\"tid\":%" PRId32 ",\"phase\":\"%s\",\"op\":",
		ev->depth, ev->pid, ev->tid, ev->phase == PHASE_BACKWARD ? "backward" : "forward");
	put_string(f, ev->op->name);
	fprintf(f, ",\"start_ns\":%" PRIu64, ev->start_ns);
	put_id(f, "end_ns", ev->end_ns);
	fprintf(f, ",\"thrown\":%s", ev->thrown ? "true" : "false");
	put_id(f, "forward_id", ev->forward_id);
	fputs(",\"args\":", f);
	json_args(f, ev);
	fputs(",\"results\":", f);
	json_results(f, ev);
	fputs(",\"stack\":", f);
	put_stack(f, ev->phase == PHASE_BACKWARD && ev->where_stack ? ev->where_stack : ev->stack);
	putc('}', f);
}

struct stats_rows {
	FILE *f;
	const struct event_stats *stats;
	uint32_t next, rows;
};

static void put_float(FILE *f, const char *key, double d)
{
	fprintf(f, ",\"%s\":", key);
	json_write_float(f, d);
}

static void put_bound(FILE *f, const char *key, const struct stats *s, double bound, int64_t exact)
{
	if (!s->is_int || !s->count)
		put_float(f, key, bound);
	else if (s->is_unsigned)
		fprintf(f, ",\"%s\":%" PRIu64, key, (uint64_t)exact);
	else
		fprintf(f, ",\"%s\":%" PRId64, key, exact);
}

static void put_numbers(FILE *f, const struct stats *s)
{
	fprintf(f,
		",\"nan\":%" PRIu64 ",\"inf\":%" PRIu64 ",\"neg_inf\":%" PRIu64
		",\"zeros\":%" PRIu64,
		s->nan, s->pos_inf, s->neg_inf, s->zeros);
	put_bound(f, "min", s, s->min, s->min_int);
	put_bound(f, "max", s, s->max, s->max_int);
	put_float(f, "mean", s->mean);
	put_float(f, "std", s->std);
	put_float(f, "norm", s->l2);
}

static void put_row(const struct event_row *row, void *arg)
{
	struct stats_rows *r = arg;
	const struct tensor_stats *m = row->value->kind == VALUE_TENSOR
					   ? event_stats_next(r->stats, &row->place, &r->next)
					   : NULL;
	if (!m)
		return;
	fputs(r->rows++ ? ",{\"name\":" : "{\"name\":", r->f);
	json_write_string(r->f, row->name, strlen(row->name));
	fprintf(r->f, ",\"of\":\"%s\"", row->place.is_result ? "results" : "args");
	if (m->why) {
		fputs(",\"reason\":", r->f);
		json_write_string(r->f, m->why, strlen(m->why));
	} else {
		fprintf(r->f, ",\"count\":%" PRIu64, m->stats.count);
		if (m->stats.is_numeric)
			put_numbers(r->f, &m->stats);
		fprintf(r->f, ",\"hash\":\"%016" PRIx64 "\"", m->stats.hash);
	}
	putc('}', r->f);
}

void json_stats(FILE *f, const struct op_event *ev)
{
	struct stats_rows r = {.f = f, .stats = ev->stats};
	fprintf(f, "{\"stats_of\":%" PRIu64 ",\"tensors\":[", ev->id);
	event_rows(ev, put_row, &r);
	fputs("]}", f);
}
