#include "perf/events/print_stats.h"

#include <inttypes.h>

#include "perf/events/event_rows.h"
#include "symbolizer/event/value_text.h"

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

int stats_print(struct table *t, FILE *f, const struct op_event *ev)
{
	static const char *const columns[] = {"name", "inf_or_nan", "min", "max",  "mean",  "std",
					      "norm", "nan",	    "inf", "-inf", "zeros", "hash"};
	struct stats_table s = {.table = t, .stats = ev->stats};
	table_reset(t);
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		table_column(t, columns[i], TABLE_CENTER);
	event_rows(ev, add_row, &s);
	return s.rows ? table_print_boxed(t, f) : 0;
}
