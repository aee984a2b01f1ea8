/* What the files of this folder share. */
#ifndef PERF_DIFF_INTERNAL_H
#define PERF_DIFF_INTERNAL_H

#include <stddef.h>

#include "perf/diff/trace_diff.h"

/* Whether two lists of observations differ by more than chance. */

/* The median of `n` values, which it sorts; 0 for none. */
double significance_median(double *values, size_t n);

/* The value below which the share q (0..1) of them lies, between two of them in proportion. */
double significance_quantile(double *values, size_t n, double q);

/* The standard deviation of those of `n` values, which it changes, that are alike, whatever less
 * than half of them are: the larger of those of a normal distribution with as many as half and as
 * nine tenths of them as near the median. Those beyond five deviations by the first do not count
 * for the second. The empirical null: Efron, Journal of the American Statistical Association 99,
 * 2004. */
double significance_spread(double *values, size_t n);

/* How many times the variance of a mean of such values is that of independent ones, at least 1:
 * when values that follow each other are alike there is less in them than their number says. One
 * and twice the sum of the autocorrelations of both lists together, two by two up to the first pair
 * that is none (the initial positive sequence: Geyer, Statistical Science 7, 1992). a, b: in the
 * order of time. */
double significance_inflation(const double *a, size_t na, const double *b, size_t nb);

/* The standard error of the difference of the means of a and b, for values as alike as
 * significance_inflation says. Infinite when either has fewer than two. */
double significance_error(const double *a, size_t na, const double *b, size_t nb);

/* The two-sided p-value of being `off` from 0 with that standard error, by Student's distribution
 * (made normal: Wallace, Annals of Mathematical Statistics 30, 1959). 1 when off is not above 0. */
double significance_student(double off, double error, double freedom);

/* Holm's correction for many tests: which of the `n` p-values hold at the level `alpha` for all of
 * them together. holds[i] is set for each. 0 or -ENOMEM. */
int significance_holm(const double *p, size_t n, double alpha, unsigned char *holds);

/* Which rows of two traces are the same. For trace_diff.c alone. */

/* Make out->rows: the pairs, and the rows that only one trace has. Rows are the same when op,
 * phase, file name, line, function and shape are; of what is left when the text of the line is the
 * same instead of its number; of what is left then when all but the shape is. 0 or -ENOMEM. */
int trace_diff_match(const struct aggregate *a, const struct aggregate *b, struct trace_diff *out);

#endif
