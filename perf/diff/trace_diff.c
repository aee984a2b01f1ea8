#include "perf/diff/trace_diff.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"

enum { KEY_MAX = 8192 };

/* What rows are matched by, the strictest first. */
static const struct level {
	bool by_text; /* the text of the line instead of its number */
	bool shape;
} levels[] = {{false, true}, {true, true}, {false, false}, {true, false}};

struct match_entry {
	const struct aggregate_row *row;
	bool of_b, taken;
	const char *key;
};

/* NULL: the row has no key at this level. */
static const char *key_of(struct arena *arena, const struct aggregate_row *r, const struct level *l)
{
	char key[KEY_MAX], line[16];
	if (l->by_text && !r->text)
		return NULL;
	snprintf(line, sizeof(line), "%" PRId32, r->line);
	int n = snprintf(key, sizeof(key), "%s\1%d\1%.1000s\1%.1000s\1%.1000s\1%s", r->op, r->phase,
			 r->file ? text_base_name(r->file) : "", r->function ? r->function : "",
			 l->by_text ? r->text : line, l->shape ? r->shape : "");
	return arena_strndup(arena, key, (size_t)n < sizeof(key) ? (size_t)n : sizeof(key) - 1);
}

/* By key; among equal keys the longest total time first. */
static int compare_pairs(const void *x, const void *y)
{
	const struct match_entry *a = x, *b = y;
	if (!a->key || !b->key)
		return !a->key - !b->key;
	int c = strcmp(a->key, b->key);
	if (c)
		return c;
	if (a->of_b != b->of_b)
		return a->of_b - b->of_b;
	return (a->row->total_ns < b->row->total_ns) - (a->row->total_ns > b->row->total_ns);
}

static void add_pair(struct trace_diff *d, struct match_entry *a, struct match_entry *b)
{
	const char *x = a ? a->row->shape : NULL, *y = b ? b->row->shape : NULL;
	d->rows[d->n++] = (struct trace_diff_row){.a = a ? a->row : NULL,
						  .b = b ? b->row : NULL,
						  .p = 1,
						  .shape = x && y && strcmp(x, y)};
	if (a)
		a->taken = true;
	if (b)
		b->taken = true;
}

/* Pair the entries with the key of entry `i`: the first of A with the first of B, and so on.
 * Returns the index of the next key. */
static size_t pair_equal(struct trace_diff *d, struct match_entry *all, size_t i, size_t n)
{
	size_t end = i, b;
	while (end < n && all[end].key && !strcmp(all[end].key, all[i].key))
		end++;
	for (b = i; b < end && !all[b].of_b;)
		b++;
	for (size_t a = i, first_b = b; a < first_b && b < end; a++, b++)
		add_pair(d, &all[a], &all[b]);
	return end;
}

static int match_level(struct trace_diff *d, struct match_entry *all, size_t n,
		       const struct level *l)
{
	struct arena arena = {0};
	int r = 0;
	for (size_t i = 0; i < n && !r; i++) {
		bool can = !all[i].taken && (!l->by_text || all[i].row->text);
		all[i].key = can ? key_of(&arena, all[i].row, l) : NULL;
		if (can && !all[i].key)
			r = -ENOMEM;
	}
	if (!r) {
		qsort(all, n, sizeof(*all), compare_pairs);
		for (size_t i = 0; i < n && all[i].key;)
			i = pair_equal(d, all, i, n);
	}
	arena_free(&arena);
	return r;
}

/* Fill out->rows: pairs, and the rows that only one trace has. Rows are paired by op, phase, file
 * name, line, function and shape; the rest with the text of the line in place of its number; the
 * rest of those by all but the shape, by line number and then by text. 0 or -ENOMEM. */
static int trace_diff_match(const struct aggregate *a, const struct aggregate *b,
			    struct trace_diff *out)
{
	size_t na, nb, n = 0;
	const struct aggregate_row *const *ra = aggregate_rows(a, &na);
	const struct aggregate_row *const *rb = aggregate_rows(b, &nb);
	struct match_entry *all = calloc(na + nb + 1, sizeof(*all));
	int r = 0;
	out->rows = calloc(na + nb + 1, sizeof(*out->rows));
	if (!all || !out->rows)
		r = -ENOMEM;
	for (size_t i = 0; i < na && !r; i++)
		all[n++] = (struct match_entry){.row = ra[i]};
	for (size_t i = 0; i < nb && !r; i++)
		all[n++] = (struct match_entry){.row = rb[i], .of_b = true};
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]) && !r; i++)
		r = match_level(out, all, n, &levels[i]);
	for (size_t i = 0; i < n && !r; i++)
		if (!all[i].taken)
			add_pair(out, all[i].of_b ? NULL : &all[i], all[i].of_b ? &all[i] : NULL);
	free(all);
	return r;
}

/* With fewer rows than this the typical change is not estimated. */
enum { TYPICAL_ROWS = 10, QUARTILES = 3 };
static const double LEVEL = 0.001;
static const double CALLS_CHANGE = 0.05; /* and at least two calls */

struct judge {
	struct trace_diff *d;
	uint64_t events_a, events_b; /* all events of each trace */
	double least;		     /* log of the smallest ratio to report */
	double common, spread;	     /* typical log ratio of all rows, and its deviation */
	size_t measured; /* rows with a ratio; below TYPICAL_ROWS `common` is 0 and `spread` is
			    `least` */
};

/* The observations of a pair: logarithms of durations, see struct batches. */
struct pair {
	double a[BATCHES_MAX], b[BATCHES_MAX];
	uint32_t na, nb;
	double changes[QUARTILES]; /* of each quartile, from A to B; 0 when either has none */
};

static double quartile(const double *values, uint32_t n, int i)
{
	double copy[BATCHES_MAX];
	for (uint32_t k = 0; k < n; k++)
		copy[k] = values[k];
	return significance_quantile(copy, n, (i + 1) / 4.0);
}

/* Fill *p; whether both sides have enough batches for a test. */
static bool observe(const struct judge *j, const struct trace_diff_row *r, struct pair *p)
{
	*p = (struct pair){0};
	if (!r->a || !r->b)
		return false;
	p->na = batches_means(r->a->batches, j->events_a, p->a);
	p->nb = batches_means(r->b->batches, j->events_b, p->b);
	for (int i = 0; i < QUARTILES && p->na && p->nb; i++)
		p->changes[i] = quartile(p->b, p->nb, i) - quartile(p->a, p->na, i);
	return p->na >= TRACE_DIFF_BATCHES_MIN && p->nb >= TRACE_DIFF_BATCHES_MIN;
}

static double effect_of(const struct pair *p)
{
	return p->changes[QUARTILES / 2];
}

/* Estimate the typical change of calls and durations over all rows. */
static int find_typical(struct judge *j)
{
	struct trace_diff *d = j->d;
	double *calls = malloc((d->n + 1) * sizeof(*calls)),
	       *times = malloc((d->n + 1) * sizeof(*times));
	size_t ncalls = 0, ntimes = 0;
	struct pair p;
	for (size_t i = 0; i < d->n && calls && times; i++) {
		const struct trace_diff_row *r = &d->rows[i];
		if (!r->a || !r->b || !r->a->calls || !r->b->calls)
			continue;
		calls[ncalls++] = (double)r->b->calls / (double)r->a->calls;
		if (observe(j, r, &p))
			times[ntimes++] = effect_of(&p);
	}
	d->calls_ratio = calls && ncalls ? significance_median(calls, ncalls) : 1;
	j->spread = j->least;
	j->measured = ntimes;
	if (times && ntimes >= TYPICAL_ROWS) {
		j->common = significance_median(times, ntimes);
		j->spread = significance_spread(times, ntimes);
		d->spread = expm1(j->spread);
	}
	d->time_ratio = exp(j->common);
	free(calls);
	free(times);
	return calls && times ? 0 : -ENOMEM;
}

static void count_change(struct trace_diff_row *r, double calls_ratio)
{
	double a = r->a ? (double)r->a->total_ns : 0, b = r->b ? (double)r->b->total_ns : 0;
	r->change_ns = b / calls_ratio - a;
	if (!r->a || !r->b)
		return;
	double want = (double)r->a->calls * calls_ratio, off = fabs((double)r->b->calls - want);
	r->calls = off >= 2 && off > CALLS_CHANGE * want;
}

/* The smallest distance of a quartile's change from `common` in the direction of `sign`. */
static double farther(const struct pair *p, double common, double sign)
{
	double least = INFINITY;
	for (int i = 0; i < QUARTILES; i++)
		least = fmin(least, sign * (p->changes[i] - common));
	return least;
}

static double p_value(const struct judge *j, const struct pair *p, double sign)
{
	double freedom = (double)p->na + p->nb - 2,
	       error = significance_error(p->a, p->na, p->b, p->nb);
	double within = significance_student(farther(p, 0, sign), error, freedom);
	if (j->measured >= TYPICAL_ROWS)
		freedom = fmin(freedom, (double)j->measured - 1);
	return fmax(within, significance_student(farther(p, j->common, sign),
						 hypot(error, j->spread), freedom));
}

/* Test one row: its duration must have changed against A, and against the typical change. */
static void test(const struct judge *j, struct trace_diff_row *r)
{
	struct pair p;
	r->few = !observe(j, r, &p);
	double effect = effect_of(&p), apart = effect - j->common;
	if (p.na && p.nb)
		r->ratio = exp(effect);
	if (r->few || fabs(effect) < j->least || fabs(apart) < j->least ||
	    (effect > 0) != (apart > 0))
		return;
	r->time = effect > 0 ? 1 : -1;
	r->p = p_value(j, &p, r->time);
}

/* Holm's correction counts every row tested, significant or not. */
static int judge(const struct judge *j)
{
	struct trace_diff *d = j->d;
	double *p = malloc((d->n + 1) * sizeof(*p));
	unsigned char *holds = malloc(d->n + 1);
	size_t tests = 0;
	int r = p && holds ? 0 : -ENOMEM;
	for (size_t i = 0; i < d->n && !r; i++) {
		count_change(&d->rows[i], d->calls_ratio);
		test(j, &d->rows[i]);
		if (!d->rows[i].few)
			p[tests++] = d->rows[i].p;
	}
	r = r ? r : significance_holm(p, tests, LEVEL, holds);
	tests = 0;
	for (size_t i = 0; i < d->n && !r; i++)
		if (!d->rows[i].few && !holds[tests++])
			d->rows[i].time = 0;
	free(p);
	free(holds);
	return r;
}

bool trace_diff_is_change(const struct trace_diff_row *r)
{
	return !r->a || !r->b || r->time || r->calls || r->shape;
}

static int compare_rows(const void *x, const void *y)
{
	const struct trace_diff_row *a = x, *b = y;
	if (trace_diff_is_change(a) != trace_diff_is_change(b))
		return trace_diff_is_change(a) ? -1 : 1;
	return (fabs(a->change_ns) < fabs(b->change_ns)) -
	       (fabs(a->change_ns) > fabs(b->change_ns));
}

static uint64_t events_of(const struct aggregate *a)
{
	struct aggregate_totals t;
	aggregate_totals(a, &t);
	return t.events + t.passed;
}

int trace_diff(const struct aggregate *a, const struct aggregate *b, double threshold,
	       struct trace_diff *out)
{
	struct judge j = {.d = out,
			  .events_a = events_of(a),
			  .events_b = events_of(b),
			  .least = log1p(threshold)};
	*out = (struct trace_diff){0};
	int r = trace_diff_match(a, b, out);
	r = r ? r : find_typical(&j);
	r = r ? r : judge(&j);
	if (r) {
		trace_diff_free(out);
		return r;
	}
	qsort(out->rows, out->n, sizeof(*out->rows), compare_rows);
	while (out->changed < out->n && trace_diff_is_change(&out->rows[out->changed]))
		out->changed++;
	return 0;
}

void trace_diff_free(struct trace_diff *d)
{
	free(d->rows);
	*d = (struct trace_diff){0};
}
