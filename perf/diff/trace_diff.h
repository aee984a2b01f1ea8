/* What changed between two traces, op by op; the method is in docs/trace-diff.md. */
#ifndef PERF_DIFF_TRACE_DIFF_H
#define PERF_DIFF_TRACE_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/text.h"
#include "perf/report/aggregate.h"

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
	bool all;     /* also rows that have not changed */
	size_t limit; /* most rows of the table; 0: all */
	struct terminal terminal;
};

/* What was compared, and a table of the changes. 0, -ENOMEM or -EIO. */
int trace_diff_print(FILE *f, const struct trace_diff *d, const struct trace_diff_print *opts);

/* {"summary": {...}, "rows": [...]}, with all rows. 0 or -EIO. */
int trace_diff_print_json(FILE *f, const struct trace_diff *d, const struct trace_diff_print *opts);

/* A header line and all rows. 0 or -EIO. */
int trace_diff_print_csv(FILE *f, const struct trace_diff *d);

#endif
