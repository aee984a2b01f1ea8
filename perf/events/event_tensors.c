#include "perf/events/print_event.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/event/names.h"

enum { SHOWN_MAX = 16 };

struct line {
	char *out;
	size_t size, len;
	unsigned shown;
};

typedef void tensor_fn(struct line *l, const struct tensor_meta *m); /* m is NULL if not decoded */

__attribute__((format(printf, 2, 3))) static void put_text(struct line *l, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(l->out + l->len, l->size - l->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		l->len += (size_t)n < l->size - l->len ? (size_t)n : l->size - l->len - 1;
}

static void put_shape(struct line *l, const struct tensor_meta *m)
{
	if (l->shown++ >= SHOWN_MAX) {
		if (l->shown == SHOWN_MAX + 1)
			put_text(l, " ...");
		return;
	}
	put_text(l, "%s", l->len ? " " : "");
	if (!m || m->unknown & TENSOR_NO_SHAPE) {
		put_text(l, "?");
		return;
	}
	put_text(l, "[");
	for (unsigned i = 0; i < m->ndim; i++)
		put_text(l, "%s%" PRId64, i ? "," : "", m->shape[i]);
	put_text(l, "]");
}

/* Append the word, unless the line has it already. */
static void put_once(struct line *l, const char *word)
{
	size_t n = strlen(word);
	for (const char *s = l->out; (s = strstr(s, word)); s += n)
		if ((s == l->out || s[-1] == ' ') && (s[n] == '\0' || s[n] == ' '))
			return;
	put_text(l, "%s%s", l->len ? " " : "", word);
}

static void put_dtype(struct line *l, const struct tensor_meta *m)
{
	char text[32];
	if (!m || m->unknown & TENSOR_NO_DTYPE) {
		put_once(l, "?");
		return;
	}
	const char *name = names_dtype(m->dtype);
	snprintf(text, sizeof(text), "dtype %u", m->dtype);
	put_once(l, name ? name : text);
}

static void put_device(struct line *l, const struct tensor_meta *m)
{
	char text[32];
	put_once(l, m && !(m->unknown & TENSOR_NO_DEVICE)
			? names_device(text, sizeof(text), m->device_type, m->device_index)
			: "?");
}

static void each(struct line *l, const struct value *v, tensor_fn *fn)
{
	if (v->kind == VALUE_TENSOR)
		fn(l, &v->tensor->meta);
	for (uint32_t i = 0; v->kind == VALUE_LIST && i < v->count; i++)
		each(l, &v->items[i], fn);
}

/* Whether the schema declares the argument as a tensor: an argument that was not decoded is shown
 * only then. */
static bool is_tensor(const struct op_event *ev, uint16_t i)
{
	return i >= ev->op->nargs || strstr(ev->op->args[i].type, "Tensor");
}

static const char *all(char *out, size_t size, const struct op_event *ev, tensor_fn *fn)
{
	struct line l = {.out = out, .size = size};
	out[0] = '\0';
	for (uint16_t i = 0; i < ev->nargs; i++) {
		if (ev->args[i].kind == VALUE_NOT_DECODED && is_tensor(ev, i))
			fn(&l, NULL);
		else
			each(&l, &ev->args[i], fn);
	}
	return out;
}

const char *event_shapes(char *out, size_t size, const struct op_event *ev)
{
	return all(out, size, ev, put_shape);
}

const char *event_dtypes(char *out, size_t size, const struct op_event *ev)
{
	return all(out, size, ev, put_dtype);
}

const char *event_devices(char *out, size_t size, const struct op_event *ev)
{
	return all(out, size, ev, put_device);
}

enum { NAME_MAX_LEN = 200, LIST_ROWS_MAX = 1000 };

struct rows {
	event_row_fn *fn;
	void *arg;
	struct tensor_place place;
};

static uint32_t tensors_in(const struct value *v)
{
	uint32_t n = v->kind == VALUE_TENSOR;
	for (uint32_t i = 0; v->kind == VALUE_LIST && i < v->count; i++)
		n += tensors_in(&v->items[i]);
	return n;
}

static void give(struct rows *r, const char *name, const struct value *v)
{
	char item[NAME_MAX_LEN];
	if (v->kind == VALUE_LIST && value_has_tensor(v)) {
		for (uint32_t i = 0; i < v->count; i++) {
			if (i >= LIST_ROWS_MAX) {
				r->place.tensor += tensors_in(&v->items[i]);
				continue;
			}
			snprintf(item, sizeof(item), "%.180s[%" PRIu32 "]", name, i);
			give(r, item, &v->items[i]);
		}
		return;
	}
	r->fn(&(struct event_row){.name = name, .value = v, .place = r->place}, r->arg);
	r->place.tensor += v->kind == VALUE_TENSOR;
}

static bool is_node(const struct op_event *ev)
{
	return ev->op->kind == OP_BACKWARD;
}

/* The schema's name, or `what`, with an index when there are several. */
static void row_name(char *out, size_t size, const char *what, const char *name, uint16_t i,
		     uint16_t n)
{
	if (name && name[0])
		snprintf(out, size, "%s", name);
	else if (n == 1)
		snprintf(out, size, "%s", what);
	else
		snprintf(out, size, "%s[%u]", what, i);
}

static void give_args(struct rows *r, const struct op_event *ev)
{
	char row[NAME_MAX_LEN];
	for (uint16_t i = 0; i < ev->nargs; i++) {
		const char *name = i < ev->op->nargs ? ev->op->args[i].name : NULL;
		row_name(row, sizeof(row), is_node(ev) ? "grad_outputs" : "inputs", name, i,
			 ev->nargs);
		r->place = (struct tensor_place){.value = i};
		give(r, row, &ev->args[i]);
	}
}

static void give_results(struct rows *r, const struct op_event *ev)
{
	char row[NAME_MAX_LEN], named[NAME_MAX_LEN];
	for (uint16_t i = 0; i < ev->nresults; i++) {
		const char *name = i < ev->op->nresults ? ev->op->results[i].name : NULL;
		row_name(row, sizeof(row), is_node(ev) ? "grad_inputs" : "outputs", name, i,
			 ev->nresults);
		/* A result may have the same name as an argument. */
		snprintf(named, sizeof(named), "outputs %.180s", row);
		r->place = (struct tensor_place){.is_result = true, .value = i};
		give(r, !is_node(ev) && name && name[0] ? named : row, &ev->results[i]);
	}
}

void event_rows(const struct op_event *ev, event_row_fn *fn, void *arg)
{
	struct rows r = {.fn = fn, .arg = arg};
	give_args(&r, ev);
	give_results(&r, ev);
}

struct stats_table {
	struct table *table;
	const struct event_stats *stats;
	uint32_t next;
	uint32_t rows;
};

static void add_count(struct table *t, uint64_t n)
{
	char text[32];
	snprintf(text, sizeof(text), "%" PRIu64, n);
	table_cell(t, text);
}

static void add_float(struct table *t, double d)
{
	char text[32];
	snprintf(text, sizeof(text), "%.6g", d);
	table_cell(t, text);
}

static void add_bound(struct table *t, const struct stats *s, double bound, int64_t exact)
{
	char text[32];
	if (!s->is_int || !s->count) {
		add_float(t, bound);
		return;
	}
	snprintf(text, sizeof(text), s->is_unsigned ? "%" PRIu64 : "%" PRId64, exact);
	table_cell(t, text);
}

static void add_blanks(struct table *t, unsigned n)
{
	while (n--)
		table_cell(t, "");
}

static void add_numbers(struct table *t, const struct stats *s)
{
	table_cell(t, s->nan || s->pos_inf || s->neg_inf ? "True" : "False");
	add_bound(t, s, s->min, s->min_int);
	add_bound(t, s, s->max, s->max_int);
	add_float(t, s->mean);
	add_float(t, s->std);
	add_float(t, s->l2);
	add_count(t, s->nan);
	add_count(t, s->pos_inf);
	add_count(t, s->neg_inf);
	add_count(t, s->zeros);
}

static void add_row(const struct event_row *row, void *arg)
{
	enum { NUMBERS = 10 };
	char text[32];
	struct stats_table *s = arg;
	const struct tensor_stats *m = row->value->kind == VALUE_TENSOR
					   ? event_stats_next(s->stats, &row->place, &s->next)
					   : NULL;
	if (!m)
		return;
	s->rows++;
	table_cell(s->table, row->name);
	if (m->why) {
		table_cell(s->table, m->why);
		add_blanks(s->table, NUMBERS);
		return;
	}
	if (m->stats.is_numeric)
		add_numbers(s->table, &m->stats);
	else
		add_blanks(s->table, NUMBERS);
	snprintf(text, sizeof(text), "%016" PRIx64, m->stats.hash);
	table_cell(s->table, text);
}

int stats_print(struct table *t, FILE *f, const struct op_event *ev, int width)
{
	static const char *const columns[] = {"name", "inf_or_nan", "min", "max",  "mean",  "std",
					      "norm", "nan",	    "inf", "-inf", "zeros", "hash"};
	static const int orders[] = {0, 0, 0, 0, 3, 4, 5, 0, 6, 7, 8, 9};
	struct stats_table s = {.table = t, .stats = ev->stats};
	table_reset(t);
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		table_column_optional(t, columns[i], TABLE_CENTER, orders[i]);
	event_rows(ev, add_row, &s);
	return s.rows ? table_print_boxed(t, f, width) : 0;
}
