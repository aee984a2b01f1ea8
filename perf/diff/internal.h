/* Internal to perf/diff: statistics of two samples, and the matching of rows. */
#ifndef PERF_DIFF_INTERNAL_H
#define PERF_DIFF_INTERNAL_H

#include <stddef.h>

#include "perf/diff/trace_diff.h"

/* Whether two lists of observations differ by more than chance. */

/* The median of `n` values, which are sorted in place; 0 for none. */
double significance_median(double *values, size_t n);

/* The q-quantile (0..1) of `n` values, interpolated linearly; sorts them in place. 0 for none. */
double significance_quantile(double *values, size_t n, double q);

/* Robust standard deviation of `n` values, which are overwritten; less than half of them may be
 * outliers. The larger of two estimates from the absolute deviations from the median: their median,
 * and their 90th percentile without those beyond five deviations by the first estimate, each scaled
 * to a normal distribution. The empirical null: Efron, Journal of the American Statistical
 * Association 99, 2004. */
double significance_spread(double *values, size_t n);

/* Variance inflation by autocorrelation: the variance of the mean of such values over that of
 * independent ones, at least 1. One plus twice the sum of the autocorrelations, pooled over both
 * lists and added in pairs of lags up to the first pair that is not positive (initial positive
 * sequence: Geyer, Statistical Science 7, 1992). a and b are in order of time. */
double significance_inflation(const double *a, size_t na, const double *b, size_t nb);

/* Standard error of the difference of the means of a and b, with significance_inflation. Infinite
 * when either has fewer than two values. */
double significance_error(const double *a, size_t na, const double *b, size_t nb);

/* Two-sided p-value of a difference `off` with standard error `error`, by Student's t with
 * `freedom` degrees of freedom (normal approximation: Wallace, Annals of Mathematical Statistics
 * 30, 1959). 1 when off <= 0. */
double significance_student(double off, double error, double freedom);

/* Holm's correction for multiple tests: sets holds[i] for each of the `n` p-values that is
 * significant at the family-wise level `alpha`. 0 or -ENOMEM. */
int significance_holm(const double *p, size_t n, double alpha, unsigned char *holds);

/* Matching of the rows of two traces; for trace_diff.c alone. */

/* Fill out->rows: pairs, and the rows that only one trace has. Rows are paired by op, phase, file
 * name, line, function and shape; the rest with the text of the line in place of its number; the
 * rest of those by all but the shape, by line number and then by text. 0 or -ENOMEM. */
int trace_diff_match(const struct aggregate *a, const struct aggregate *b, struct trace_diff *out);

#endif
