/* What changed between two traces, op by op; the method is in docs/trace-diff.md. */
#ifndef PERF_DIFF_TRACE_DIFF_H
#define PERF_DIFF_TRACE_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/text.h"
#include "perf/report/aggregate.h"
#include "perf/report/report.h"

enum {
	TRACE_DIFF_KEYS = AGGREGATE_DEFAULT | AGGREGATE_SHAPE | AGGREGATE_BATCHES,
	TRACE_DIFF_BATCHES_MIN = 8, /* both sides need so many batches for a test */
};

/* Calls of one op, in one phase, from one source line, with one shape, in both traces. */
struct trace_diff_row {
	const struct aggregate_row *a, *b; /* NULL: not in that trace */
	double change_ns;  /* change of total time, with B's scaled to A's number of calls */
	double ratio;	   /* typical duration of a call, B over A; 0: not in both */
	double p;	   /* p-value of the difference of durations; 1: not tested */
	signed char time;  /* 1: significantly slower, -1: faster, 0: neither */
	bool few;	   /* called in too few batches of the traces for a test */
	bool calls, shape; /* the number of calls changed; the shape did */
};

struct trace_diff {
	struct trace_diff_row *rows; /* changed rows first, each part by absolute change_ns */
	size_t n, changed;
	double calls_ratio; /* calls, B over A: median of the rows */
	double time_ratio;  /* duration of a call, B over A: median of the rows; 1: too few rows */
	double spread;	    /* of the rows' ratios about time_ratio (0.05: 5 %); 0: too few rows */
};

/* Compare two aggregates by TRACE_DIFF_KEYS, which must outlive *out. A duration has changed when
 * it differs from A's, and from A's times time_ratio, by at least `threshold` (0.05: 5 %) and
 * significantly, given chance and the spread of all rows (family-wise level 0.001). 0 or -ENOMEM;
 * free with trace_diff_free. */
int trace_diff(const struct aggregate *a, const struct aggregate *b, double threshold,
	       struct trace_diff *out);

bool trace_diff_is_change(const struct trace_diff_row *r);

void trace_diff_free(struct trace_diff *d);

/* A comparison as text, JSON and CSV. */

struct trace_diff_print {
	const struct aggregate *a, *b;
	struct breakdown_result steps_a, steps_b; /* .steps 0: not known */
	bool all;				  /* also rows that have not changed */
	size_t limit;				  /* most rows of the table; 0: all */
	struct terminal terminal;
};

/* What was compared, and a table of the changes. 0, -ENOMEM or -EIO. */
int trace_diff_print(FILE *f, const struct trace_diff *d, const struct trace_diff_print *opts);

/* {"summary": {...}, "rows": [...]}, with all rows. 0 or -EIO. */
int trace_diff_print_json(FILE *f, const struct trace_diff *d, const struct trace_diff_print *opts);

/* A header line and all rows. 0 or -EIO. */
int trace_diff_print_csv(FILE *f, const struct trace_diff *d);

/* significance.c: whether two lists of observations differ by more than chance. */

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

#endif
