/* Whether two lists of observations differ by more than chance. */
#ifndef PERF_SIGNIFICANCE_H
#define PERF_SIGNIFICANCE_H

#include <stddef.h>

/* The median of `n` values, which it sorts; 0 for none. */
double significance_median(double *values, size_t n);

/* How many times the variance of a mean of such values is that of independent ones, at least 1:
 * when values that follow each other are alike there is less in them than their number says. One
 * and twice the sum of the autocorrelations of both lists together, two by two up to the first pair
 * that is none (the initial positive sequence: Geyer, Statistical Science 7, 1992). a, b: in the
 * order of time. */
double significance_inflation(const double *a, size_t na, const double *b, size_t nb);

/* The two-sided p-value of the Wilcoxon-Mann-Whitney rank test of a against b + shift, by its
 * normal approximation with the corrections for ties and continuity (Hollander, Wolfe, Chicken:
 * Nonparametric Statistical Methods, 3rd edition, 4.1), for independent values. 1 when either is
 * empty, and for more than 128 values together. */
double significance_ranks(const double *a, size_t na, const double *b, size_t nb, double shift);

/* The same of Welch's test of their means, for values as alike as significance_inflation says: by
 * Student's distribution with as many degrees of freedom as are left (made normal: Wallace, Annals
 * of Mathematical Statistics 30, 1959). 1 when either has fewer than two. */
double significance_means(const double *a, size_t na, const double *b, size_t nb, double shift);

/* Holm's correction for many tests: which of the `n` p-values hold at the level `alpha` for all of
 * them together. holds[i] is set for each. 0 or -ENOMEM. */
int significance_holm(const double *p, size_t n, double alpha, unsigned char *holds);

#endif
