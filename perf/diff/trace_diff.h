/* What changed from one trace to another, op by op: docs/trace-diff.md says how it is judged. */
#ifndef PERF_DIFF_TRACE_DIFF_H
#define PERF_DIFF_TRACE_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/terminal.h"
#include "perf/report/aggregate.h"

enum {
	TRACE_DIFF_KEYS = AGGREGATE_DEFAULT | AGGREGATE_SHAPE | AGGREGATE_BATCHES,
	TRACE_DIFF_BATCHES_MIN = 8, /* batches of both sides without which nothing is said */
};

/* Calls of one op, in one phase, from one source line, with one shape, in both traces. */
struct trace_diff_row {
	const struct aggregate_row *a, *b; /* NULL: not in that trace */
	double change_ns;  /* of the total time, B's taken for as many calls as A would have */
	double ratio;	   /* of the typical duration of a call, B to A; 0: not in both */
	double p;	   /* of the difference of durations; 1 when it was not tested */
	signed char time;  /* 1: beyond noise slower, -1: faster, 0: not known to be either */
	bool few;	   /* not called in enough stretches of the traces for a test */
	bool calls, shape; /* the number of calls changed, the shape did */
};

struct trace_diff {
	struct trace_diff_row *rows; /* the changed ones first, each by absolute change */
	size_t n, changed;
	double calls_ratio; /* how often B called what A called: the typical row's */
	double time_ratio;  /* how long calls of B took: the typical row's; 1 when too few rows */
	double spread;	    /* of the rows' ratios about that (0.05: 5 %); 0 when too few rows */
};

/* Compare two aggregates by TRACE_DIFF_KEYS, which must stay. A duration has changed when it is
 * farther from what it was, and from what the time_ratio makes of that, than chance and the spread
 * of all rows explain at the level 0.001 for all rows together, and by at least `threshold` (0.05:
 * 5 %). 0 or -ENOMEM; trace_diff_free gives the rows
 * back. */
int trace_diff(const struct aggregate *a, const struct aggregate *b, double threshold,
	       struct trace_diff *out);

bool trace_diff_is_change(const struct trace_diff_row *r);

void trace_diff_free(struct trace_diff *d);

/* A comparison of two traces as people and as programs read it. */

struct trace_diff_print {
	const struct aggregate *a, *b;
	bool all;     /* rows that have not changed, too */
	size_t limit; /* so many rows of the table; 0: all */
	struct terminal terminal;
};

/* What was compared, and a table of what changed. 0, -ENOMEM or -EIO. */
int trace_diff_print(FILE *f, const struct trace_diff *d, const struct trace_diff_print *opts);

/* {"summary": {...}, "rows": [...]}, all rows. */
int trace_diff_print_json(FILE *f, const struct trace_diff *d, const struct trace_diff_print *opts);

/* The rows with a header. */
int trace_diff_print_csv(FILE *f, const struct trace_diff *d);

#endif
