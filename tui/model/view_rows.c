#define _GNU_SOURCE

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "perf/report/report.h"
#include "tui/model/internal.h"

static double percent_capped(uint64_t part, uint64_t whole)
{
	return part >= whole ? 100 : 100.0 * (double)part / (double)whole;
}

static double ops_per_s(const struct view *v)
{
	enum { IDLE_NS = 2000000000 };
	if (v->now_ns > v->last_ns + IDLE_NS || v->last_ns == v->first_ns)
		return 0;
	if (v->ops_per_s > 0)
		return v->ops_per_s;
	return (double)v->second.ops * 1e9 / (double)(v->last_ns - v->first_ns);
}

enum { LOOKS_LEAST = 20 };

static uint64_t looks_of(const struct off_op_part *p)
{
	return p->ran + p->waited;
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

/* A share that rounds to 0 needs no samples: its division does not show. */
static bool is_looked_at(double percent, const struct off_op_part *p)
{
	return percent < 0.5 || looks_of(p) >= LOOKS_LEAST;
}

static void tell_outside(const struct off_op *o, struct view_head *out)
{
	const struct off_op_part *p = &o->python, *n = &o->other;
	out->python_ran = out->other_ran = out->waited = -1;
	out->python = out->outside * share(p->ns, p->ns + n->ns);
	out->other = out->outside - out->python;
	/* Threads are looked at in ops that were summed up, too, as if they were in none. */
	if (out->summed || (!looks_of(p) && !looks_of(n)))
		return;
	if (!is_looked_at(out->python, p) || !is_looked_at(out->other, n))
		return;
	out->python_ran = out->python * share(p->ran, looks_of(p));
	out->other_ran = out->other * share(n->ran, looks_of(n));
	out->waited = out->outside - out->python_ran - out->other_ran;
}

/* The off-op time of what is shown. */
static const struct off_op *view_shown_outside(const struct view *v)
{
	return !v->interval ? &v->all_outside : v->whole ? &v->whole_outside : &v->going_outside;
}

void view_head(const struct view *v, struct view_head *out)
{
	uint64_t ns;
	*out = (struct view_head){.target = v->targets ? &v->target : NULL,
				  .targets = v->targets,
				  .stats = v->has_stats ? &v->stats : NULL,
				  .lost = v->lost,
				  .summed = v->summed,
				  .steps = &v->steps,
				  .in_ops = -1,
				  .outside = -1,
				  .python_ran = -1,
				  .probes = -1};
	aggregate_totals(grouping_sum(view_shown(v, &ns)), &out->totals);
	out->wall_ns = v->last_ns - v->first_ns;
	out->ops_per_s = ops_per_s(v);
	if (out->totals.observed_ns) {
		out->in_ops = percent_capped(out->totals.self_ns, out->totals.observed_ns);
		out->outside = 100 - out->in_ops;
		tell_outside(view_shown_outside(v), out);
	}
	const struct cost *from = &v->costs[v->interval ? 1 : 0], *to = &v->costs[2];
	if (to->probe_ns > from->probe_ns && to->cpu_ns > from->cpu_ns) {
		out->probes =
		    report_slowdown(to->probe_ns - from->probe_ns, to->cpu_ns - from->cpu_ns);
		out->probes_are_least = v->stats.probe_is_least;
		out->probes_most = out->probes < 0;
	}
}

const char *const view_column_names[] = {"Self%", "Total%", "Calls/s", "Mean",	"P99",
					 "Dev%",  "Op",	    "Shapes",  "Where", NULL};

const struct grouping *view_shown(const struct view *v, uint64_t *ns)
{
	if (v->interval) {
		*ns = v->whole ? v->whole_ns : v->going_last - v->going_first;
		return v->whole ? v->whole : v->going;
	}
	*ns = v->last_ns - v->first_ns;
	return v->all[v->group];
}

int view_set_group(struct view *v, enum grouping_by group)
{
	v->group = group;
	v->nrows = 0;
	v->tree.shown = v->tree.shown && group == GROUPING_MODULE;
	return view_begin_interval(v);
}

enum grouping_by view_group(const struct view *v)
{
	return v->group;
}

int view_set_interval(struct view *v, bool interval)
{
	v->interval = interval;
	v->nrows = 0;
	return view_begin_interval(v);
}

bool view_interval(const struct view *v)
{
	return v->interval;
}

void view_sort(struct view *v, enum view_column column)
{
	v->reversed = column == v->column && !v->reversed;
	v->column = column;
}

enum view_column view_sorted(const struct view *v, bool *reversed)
{
	*reversed = v->reversed;
	return v->column;
}

void view_set_filter(struct view *v, const char *text)
{
	v->filter[0] = '\0';
	strncat(v->filter, text, sizeof(v->filter) - 1);
}

const char *view_filter(const struct view *v)
{
	return v->filter;
}

bool view_has(const struct view *v, enum view_column column)
{
	return column != VIEW_DEVICE ||
	       (v->devices && !v->tree.shown && v->group != GROUPING_SHAPE);
}

static bool contains(const char *s, const char *part)
{
	return s && strcasestr(s, part);
}

static bool passes(const struct view *v, const struct aggregate_row *r)
{
	const char *f = v->filter;
	return !f[0] || contains(r->op, f) || contains(r->file, f) || contains(r->function, f) ||
	       contains(r->parameter, f) || contains(r->text, f);
}

static int by_number(double a, double b)
{
	return (a < b) - (a > b);
}

static int by_text(const char *a, const char *b)
{
	if (!a || !b)
		return !a - !b;
	return strcmp(a, b);
}

static int by_where(const struct aggregate_row *a, const struct aggregate_row *b)
{
	int c = by_text(a->file, b->file);
	c = c ? c : by_text(a->parameter, b->parameter);
	return c ? c : (a->line > b->line) - (a->line < b->line);
}

static int compare_by(const struct view_row *a, const struct view_row *b, enum view_column column)
{
	switch (column) {
	case VIEW_TOTAL:
		return by_number((double)a->sum->total_ns, (double)b->sum->total_ns);
	case VIEW_CALLS:
		return by_number((double)a->sum->calls, (double)b->sum->calls);
	case VIEW_MEAN:
		return by_number((double)a->mean_ns, (double)b->mean_ns);
	case VIEW_P99:
		return by_number((double)a->p99_ns, (double)b->p99_ns);
	case VIEW_DEVICE:
		return by_number((double)a->sum->device_ns, (double)b->sum->device_ns);
	case VIEW_SHAPES:
		return by_number((double)a->row->last_elements, (double)b->row->last_elements);
	case VIEW_OP:
		return by_text(a->sum->op, b->sum->op);
	case VIEW_WHERE:
		return by_where(a->sum, b->sum);
	default:
		return by_number((double)a->sum->self_ns, (double)b->sum->self_ns);
	}
}

static int compare_rows(const void *x, const void *y, void *arg)
{
	const struct view *v = arg;
	const struct view_row *a = x, *b = y;
	int c = compare_by(a, b, v->column);
	if (v->reversed)
		c = -c;
	return c ? c : (a->row->id > b->row->id) - (a->row->id < b->row->id);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static struct view_row view_row_of(const struct grouping_row *row,
				   const struct aggregate_totals *totals, uint64_t wall_ns)
{
	const struct aggregate_row *s = row->sum;
	return (struct view_row){
	    .row = row,
	    .sum = s,
	    .mean_ns = s->calls ? s->sum_ns / s->calls : 0,
	    .p99_ns = aggregate_quantile(s, 0.99),
	    .self_percent = percent(s->self_ns, totals->observed_ns),
	    .total_percent = percent(s->total_ns, totals->observed_ns),
	    .device_percent = percent(s->device_ns, totals->busy_ns),
	    .calls_per_s = wall_ns ? (double)s->calls * 1e9 / (double)wall_ns : 0,
	};
}

static int add_rows(struct view *v)
{
	uint64_t wall_ns;
	size_t all;
	struct aggregate_totals totals;
	const struct grouping *t = view_shown(v, &wall_ns);
	struct grouping_row *const *rows = grouping_rows(t, &all);
	aggregate_totals(grouping_sum(t), &totals);
	v->nrows = 0;
	if (array_grow(&v->rows, &v->rows_room, all + 1, sizeof(*v->rows)))
		return -ENOMEM;
	/* Only one of several rows with the same name has the sum of their calls. */
	for (size_t i = 0; i < all; i++)
		if (rows[i]->sum && passes(v, rows[i]->sum))
			v->rows[v->nrows++] = view_row_of(rows[i], &totals, wall_ns);
	qsort_r(v->rows, v->nrows, sizeof(*v->rows), compare_rows, v);
	return 0;
}

const struct view_row *view_rows(struct view *v, size_t *n)
{
	int r = v->tree.shown ? view_tree_rows(v) : add_rows(v);
	*n = r ? 0 : v->nrows;
	return r ? NULL : v->rows;
}
