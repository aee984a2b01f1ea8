#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replay/numbers/numbers.h"

enum { FIGURES = 3 /* mean, along, scale */, SLICES_MIN = 3, SAMPLES = 4096, DISTINCT_MIN = 16 };

/* Sums over the slices along one dimension. */
struct slices {
	int64_t size, step; /* step: elements from one slice to the next */
	double *sums;	    /* FIGURES for each */
};

struct spread {
	const struct compare_tensor *a, *b;
	const struct compare_params *p;
	double roundoff, floor;
	double means[FIGURES]; /* what is subtracted */
	uint64_t n, parts;
	struct slices dims[COMPARE_DIMS];
	int ndims;
	double squares[FIGURES], divisors[FIGURES];
};

static double part_at(const struct compare_tensor *t, uint64_t i)
{
	const struct number *number = number_of(t->dtype);
	double x;
	number->to_double((const char *)t->data + i * number->itemsize, 0, 1, &x);
	return x;
}

/* How far the errors of a part deviate from their means; false: it has none. */
static bool deviations(const struct spread *s, uint64_t i, double out[FIGURES])
{
	double a = part_at(s->a, i), b = part_at(s->b, i);
	if (!isfinite(a) || !isfinite(b))
		return false;
	double rounding = s->roundoff * fabs(b);
	double unit = rounding + (s->p->allowance ? s->p->allowance[i] : 0) + s->floor;
	double e = (a - b) / unit, outward = signbit(b) ? -e : e, share = rounding / unit;
	out[0] = e - s->means[0];
	out[1] = outward - s->means[1];
	out[2] = (outward - share * s->means[2]) * share;
	return true;
}

static void add_part(struct spread *s, uint64_t i)
{
	double d[FIGURES];
	if (!deviations(s, i, d))
		return;
	for (int f = 0; f < FIGURES; f++)
		s->squares[f] += d[f] * d[f];
	for (int k = 0; k < s->ndims; k++) {
		struct slices *dim = &s->dims[k];
		int64_t at = (int64_t)(i / s->parts) / dim->step % dim->size;
		for (int f = 0; f < FIGURES; f++)
			dim->sums[FIGURES * at + f] += d[f];
	}
}

static int dims_new(struct spread *s)
{
	int64_t step = 1;
	for (int i = s->a->ndim - 1; i >= 0; i--) {
		int64_t size = s->a->shape[i];
		if (size >= SLICES_MIN && (uint64_t)size < s->n) {
			double *sums = calloc((size_t)size, FIGURES * sizeof(*sums));
			if (!sums)
				return -ENOMEM;
			s->dims[s->ndims++] = (struct slices){size, step, sums};
		}
		step *= size;
	}
	return 0;
}

static void dims_free(struct spread *s)
{
	for (int i = 0; i < s->ndims; i++)
		free(s->dims[i].sums);
}

static double largest_error(const struct spread *s, int figure)
{
	double largest = s->squares[figure];
	for (int k = 0; k < s->ndims; k++) {
		const struct slices *d = &s->dims[k];
		double sum = 0;
		for (int64_t i = 0; i < d->size; i++)
			sum += d->sums[FIGURES * i + figure] * d->sums[FIGURES * i + figure];
		largest = fmax(largest, sum * (double)d->size / (double)(d->size - 1));
	}
	return sqrt(largest) / s->divisors[figure];
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* By how much errors grow as the elements of `b` repeat each other. */
static double repetition(const struct spread *s)
{
	static const double all = 1;
	uint64_t step = (s->n * s->parts / SAMPLES) | 1; /* odd: most patterns have even periods */
	double v[SAMPLES];
	size_t n = 0, distinct = 0;
	for (uint64_t i = 0; i < s->n * s->parts && n < SAMPLES; i += step) {
		double x = fabs(part_at(s->b, i));
		if (isfinite(x))
			v[n++] = x;
	}
	if (n < DISTINCT_MIN)
		return (double)INFINITY;
	qsort(v, n, sizeof(*v), by_value);
	for (size_t i = 0; i < n; i++)
		distinct += !i || v[i] != v[i - 1];
	if (distinct < DISTINCT_MIN)
		return (double)INFINITY;
	return distinct > n / 2 ? all : sqrt((double)(s->n * s->parts) / (double)distinct);
}

static double divided(double a, double b)
{
	return b > 0 ? a / b : 0;
}

int compare_spread(const struct compare_tensor *a, const struct compare_tensor *b,
		   const struct compare_params *p, const struct compare_stats *stats,
		   struct compare_spread *out)
{
	double n = stats->finite ? (double)stats->finite : 1;
	double least = compare_smallest(a->dtype) / 2;
	struct spread s = {
	    .a = a,
	    .b = b,
	    .p = p,
	    .roundoff = p->roundoff > 0 ? p->roundoff : compare_roundoff(a->dtype),
	    .floor = fmax(fmax(p->floor, least), 0x1p-1070),
	    .means = {stats->sum / n, stats->along / n, divided(stats->scale, stats->scale2)},
	    .parts = number_of(a->dtype)->parts,
	    .divisors = {n, n, stats->scale2 > 0 ? stats->scale2 : 0}};
	double errors[FIGURES];
	s.n = stats->n / s.parts;
	int r = dims_new(&s);
	for (uint64_t i = 0; i < stats->n && !r; i++)
		add_part(&s, i);
	if (!r) {
		double times = repetition(&s);
		for (int f = 0; f < FIGURES; f++)
			errors[f] = isinf(times) ? times : times * largest_error(&s, f);
		*out = (struct compare_spread){errors[0], errors[1], errors[2]};
	}
	dims_free(&s);
	return r;
}
