#define _GNU_SOURCE
#include "perf/significance.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { VALUES_MAX = 128 };

struct value {
	double x;
	bool of_a;
};

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int by_value(const void *a, const void *b)
{
	return by_number(&((const struct value *)a)->x, &((const struct value *)b)->x);
}

double significance_median(double *values, size_t n)
{
	if (!n)
		return 0;
	qsort(values, n, sizeof(*values), by_number);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The sum of the ranks of a's values; *ties becomes the sum of t^3 - t over groups of t equal
 * values. */
static double rank_sum(const struct value *v, size_t n, double *ties)
{
	double sum = 0;
	*ties = 0;
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && v[end].x == v[i].x;)
			end++;
		double t = (double)(end - i), rank = ((double)i + 1 + (double)end) / 2;
		*ties += t * t * t - t;
		for (size_t k = i; k < end; k++)
			sum += v[k].of_a ? rank : 0;
	}
	return sum;
}

static double mean(const double *v, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += v[i];
	return sum / (double)n;
}

/* The sum of the products of values `lag` apart, about their mean. */
static double products(const double *v, size_t n, size_t lag)
{
	double about = mean(v, n), sum = 0;
	for (size_t i = lag; i < n; i++)
		sum += (v[i] - about) * (v[i - lag] - about);
	return sum;
}

double significance_inflation(const double *a, size_t na, const double *b, size_t nb)
{
	double all = products(a, na, 0) + products(b, nb, 0), n = (double)(na + nb) / 2, sum = 1;
	size_t most = (na < nb ? na : nb) / 2;
	for (size_t lag = 1; lag + 1 < most && all > 0; lag += 2) {
		double two = products(a, na, lag) + products(b, nb, lag) +
			     products(a, na, lag + 1) + products(b, nb, lag + 1);
		/* About its own mean a list of n values shows that much too little. */
		double alike = two / all + 2 * sum / n;
		if (alike <= 0)
			break;
		sum += 2 * alike;
	}
	return sum;
}

double significance_ranks(const double *a, size_t na, const double *b, size_t nb, double shift)
{
	struct value v[VALUES_MAX];
	double ties, m = (double)na, n = (double)nb, all = m + n;
	if (!na || !nb || na + nb > VALUES_MAX)
		return 1;
	for (size_t i = 0; i < na; i++)
		v[i] = (struct value){a[i], true};
	for (size_t i = 0; i < nb; i++)
		v[na + i] = (struct value){b[i] + shift, false};
	qsort(v, na + nb, sizeof(*v), by_value);
	double u = rank_sum(v, na + nb, &ties) - m * (m + 1) / 2;
	double variance = m * n / 12 * (all + 1 - ties / (all * (all - 1)));
	double off = fabs(u - m * n / 2) - 0.5;
	if (!(variance > 0) || off <= 0)
		return 1;
	return erfc(off / sqrt(2 * variance));
}

/* The normal value that is as rare as `t` of Student's distribution. */
static double as_normal(double t, double freedom)
{
	return (8 * freedom + 1) / (8 * freedom + 3) * sqrt(freedom * log1p(t * t / freedom));
}

double significance_means(const double *a, size_t na, const double *b, size_t nb, double shift)
{
	double m = (double)na, n = (double)nb, more = significance_inflation(a, na, b, nb);
	if (na < 2 || nb < 2)
		return 1;
	double variance =
	    more * (products(a, na, 0) / m / (m - 1) + products(b, nb, 0) / n / (n - 1));
	double off = fabs(mean(b, nb) + shift - mean(a, na));
	if (!(variance > 0))
		return off > 0 ? 0 : 1;
	return erfc(as_normal(off / sqrt(variance), fmax((m + n) / more - 2, 1)) / sqrt(2));
}

static int by_p(const void *a, const void *b, void *p)
{
	const double *all = p;
	return by_number(&all[*(const size_t *)a], &all[*(const size_t *)b]);
}

int significance_holm(const double *p, size_t n, double alpha, unsigned char *holds)
{
	size_t *order = malloc((n + 1) * sizeof(*order));
	bool good = true;
	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), by_p, (void *)p);
	for (size_t i = 0; i < n; i++) {
		good = good && p[order[i]] <= alpha / (double)(n - i);
		holds[order[i]] = good;
	}
	free(order);
	return 0;
}
