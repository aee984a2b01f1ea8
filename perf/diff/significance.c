#define _GNU_SOURCE
#include "perf/diff/trace_diff.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Half and nine tenths of a normal distribution lie within so many standard deviations. */
static const double HALF = 0.6745, NINE_TENTHS = 1.645;
/* Rows beyond so many deviations are taken as changed and do not count as noise. */
static const double OUTSIDE = 5;

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double significance_quantile(double *values, size_t n, double q)
{
	if (!n)
		return 0;
	qsort(values, n, sizeof(*values), by_number);
	double at = q * (double)(n - 1), below = floor(at);
	size_t i = (size_t)below, next = i + 1 < n ? i + 1 : i;
	return values[i] + (at - below) * (values[next] - values[i]);
}

double significance_median(double *values, size_t n)
{
	return significance_quantile(values, n, 0.5);
}

double significance_spread(double *values, size_t n)
{
	double about = significance_median(values, n);
	size_t within = 0;
	for (size_t i = 0; i < n; i++)
		values[i] = fabs(values[i] - about);
	double half = significance_median(values, n) / HALF;
	while (within < n && values[within] <= OUTSIDE * half)
		within++;
	return fmax(half, significance_quantile(values, within, 0.9) / NINE_TENTHS);
}

static double mean(const double *v, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += v[i];
	return sum / (double)n;
}

/* Sum of the products of values `lag` apart, about their mean: n times the autocovariance. */
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
		/* Deviations from the sample mean bias each autocorrelation low by about sum / n.
		 */
		double alike = two / all + 2 * sum / n;
		if (alike <= 0)
			break;
		sum += 2 * alike;
	}
	return sum;
}

double significance_error(const double *a, size_t na, const double *b, size_t nb)
{
	double m = (double)na, n = (double)nb;
	if (na < 2 || nb < 2)
		return INFINITY;
	double variance = products(a, na, 0) / m / (m - 1) + products(b, nb, 0) / n / (n - 1);
	return sqrt(significance_inflation(a, na, b, nb) * variance);
}

/* The normal deviate with the same tail probability as `t` of Student's distribution. */
static double as_normal(double t, double freedom)
{
	return (8 * freedom + 1) / (8 * freedom + 3) * sqrt(freedom * log1p(t * t / freedom));
}

double significance_student(double off, double error, double freedom)
{
	if (off <= 0)
		return 1;
	return error > 0 ? erfc(as_normal(off / error, freedom) / sqrt(2)) : 0;
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
