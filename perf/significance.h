/* Whether two lists of observations differ by more than chance. */
#ifndef PERF_SIGNIFICANCE_H
#define PERF_SIGNIFICANCE_H

#include <stddef.h>

/* The median of `n` values, which it sorts; 0 for none. */
double significance_median(double *values, size_t n);

/* The two-sided p-value of the Wilcoxon-Mann-Whitney rank test of a against b + shift, by its
 * normal approximation with the corrections for ties and continuity (Hollander, Wolfe, Chicken:
 * Nonparametric Statistical Methods, 3rd edition, 4.1). 1 when either is empty, and for more than
 * 128 values together. */
double significance_ranks(const double *a, size_t na, const double *b, size_t nb, double shift);

/* Holm's correction for many tests: which of the `n` p-values hold at the level `alpha` for all of
 * them together. holds[i] is set for each. 0 or -ENOMEM. */
int significance_holm(const double *p, size_t n, double alpha, unsigned char *holds);

#endif
