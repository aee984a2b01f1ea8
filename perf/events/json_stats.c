#include "perf/events/json_stats.h"

#include <inttypes.h>
#include <string.h>

#include "perf/events/event_rows.h"
#include "perf/events/json_event.h"

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
