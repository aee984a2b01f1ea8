#include "perf/trace_diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "perf/significance.h"
#include "perf/trace_diff_match.h"

/* Fewer rows than this do not say what is typical. */
enum { TYPICAL_ROWS = 10 };
static const double LEVEL = 0.01;
static const double CALLS_CHANGE = 0.05; /* and at least two calls */

/* The observations of a pair. */
struct pair {
	double a[BATCHES_MAX], b[BATCHES_MAX];
	uint32_t na, nb;
};

static double median_of(const double *values, uint32_t n)
{
	double copy[BATCHES_MAX];
	for (uint32_t i = 0; i < n; i++)
		copy[i] = values[i];
	return significance_median(copy, n);
}

/* Whether the pair has enough for a test; the logarithm of the ratio goes to *effect. */
static bool observe(const struct trace_diff_row *r, struct pair *p, double *effect)
{
	*effect = 0;
	if (!r->a || !r->b)
		return false;
	p->na = batches_means(r->a->batches, p->a);
	p->nb = batches_means(r->b->batches, p->b);
	if (!p->na || !p->nb)
		return false;
	*effect = median_of(p->b, p->nb) - median_of(p->a, p->na);
	return p->na >= TRACE_DIFF_BATCHES_MIN && p->nb >= TRACE_DIFF_BATCHES_MIN;
}

/* What the typical row says. */
static int find_typical(struct trace_diff *d)
{
	double *calls = malloc((d->n + 1) * sizeof(*calls)),
	       *times = malloc((d->n + 1) * sizeof(*times));
	size_t ncalls = 0, ntimes = 0;
	struct pair p;
	double effect;
	d->calls_ratio = d->time_ratio = 1;
	for (size_t i = 0; i < d->n && calls && times; i++) {
		const struct trace_diff_row *r = &d->rows[i];
		if (!r->a || !r->b || !r->a->calls || !r->b->calls)
			continue;
		calls[ncalls++] = (double)r->b->calls / (double)r->a->calls;
		if (observe(r, &p, &effect))
			times[ntimes++] = effect;
	}
	if (calls && ncalls)
		d->calls_ratio = significance_median(calls, ncalls);
	if (times && ntimes >= TYPICAL_ROWS)
		d->time_ratio = exp(significance_median(times, ntimes));
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

/* By either test: one asks for independent observations, the other for ones without outliers. */
static double p_value(const struct pair *p, double shift)
{
	return fmax(significance_ranks(p->a, p->na, p->b, p->nb, shift),
		    significance_means(p->a, p->na, p->b, p->nb, shift));
}

/* The duration has changed by itself, and not only along with all others. */
static void test(struct trace_diff_row *r, double common, double threshold)
{
	struct pair p;
	double effect, least = log1p(threshold);
	r->few = !observe(r, &p, &effect);
	if (r->a && r->b)
		r->ratio = exp(effect);
	if (r->few || fabs(effect) < least || fabs(effect - common) < least ||
	    (effect > 0) != (effect - common > 0))
		return;
	double plain = p_value(&p, 0), apart = p_value(&p, -common);
	r->p = plain > apart ? plain : apart;
	r->time = effect > 0 ? 1 : -1;
}

/* All that was tested counts for Holm's correction, whatever came of it. */
static int judge(struct trace_diff *d, double threshold)
{
	double *p = malloc((d->n + 1) * sizeof(*p));
	unsigned char *holds = malloc(d->n + 1);
	size_t tests = 0;
	int r = p && holds ? 0 : -ENOMEM;
	for (size_t i = 0; i < d->n && !r; i++) {
		count_change(&d->rows[i], d->calls_ratio);
		test(&d->rows[i], log(d->time_ratio), threshold);
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

static int compare(const void *x, const void *y)
{
	const struct trace_diff_row *a = x, *b = y;
	if (trace_diff_is_change(a) != trace_diff_is_change(b))
		return trace_diff_is_change(a) ? -1 : 1;
	return (fabs(a->change_ns) < fabs(b->change_ns)) -
	       (fabs(a->change_ns) > fabs(b->change_ns));
}

int trace_diff(const struct aggregate *a, const struct aggregate *b, double threshold,
	       struct trace_diff *out)
{
	*out = (struct trace_diff){0};
	int r = trace_diff_match(a, b, out);
	r = r ? r : find_typical(out);
	r = r ? r : judge(out, threshold);
	if (r) {
		trace_diff_free(out);
		return r;
	}
	qsort(out->rows, out->n, sizeof(*out->rows), compare);
	while (out->changed < out->n && trace_diff_is_change(&out->rows[out->changed]))
		out->changed++;
	return 0;
}

void trace_diff_free(struct trace_diff *d)
{
	free(d->rows);
	*d = (struct trace_diff){0};
}
