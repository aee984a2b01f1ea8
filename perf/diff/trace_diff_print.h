/* A comparison of two traces as people and as programs read it. */
#ifndef PERF_DIFF_TRACE_DIFF_PRINT_H
#define PERF_DIFF_TRACE_DIFF_PRINT_H

#include <stdio.h>

#include "base/terminal.h"
#include "perf/diff/trace_diff.h"

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
