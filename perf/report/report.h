/* The table of where the time went: at the end of run and attach, and by ditrace report. */
#ifndef PERF_REPORT_REPORT_H
#define PERF_REPORT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/terminal.h"
#include "perf/report/aggregate.h"
#include "perf/trace/trace_format.h"
#include "symbolizer/event/sample.h"
#include "symbolizer/when/when.h"

enum report_sort {
	REPORT_BY_SELF,
	REPORT_BY_TOTAL,
	REPORT_BY_CALLS,
	REPORT_BY_MEAN,
	REPORT_BY_P99,
	REPORT_BY_MAX,
	REPORT_BY_P50,
	REPORT_BY_OP, /* this and those below from A to Z */
	REPORT_BY_LINE,
	REPORT_BY_FILE,
	REPORT_BY_FUNCTION,
	REPORT_BY_THREAD,
	REPORT_BY_MODULE,
	REPORT_BY_SHAPE,
	REPORT_BY_DTYPE,
	REPORT_BY_DEVICE,
	REPORT_BY_PHASE,
	REPORT_BY_SYMBOL,
};

/* Words for --sort in the order of enum report_sort, ended by NULL. */
extern const char *const report_sort_names[];

struct report_thread {
	int32_t pid, tid;
	const char *name;
};

struct report_columns;

/* What there is of samples, beside their rows. */
struct report_samples {
	struct sampling how; /* event NULL: not told */
	uint64_t lost, mismatched, no_python;
};

struct report_opts {
	enum report_sort sort; /* numbers: largest first */
	size_t limit;	       /* rows of each part (forward, backward) to show; 0: all */
	double percent_limit;  /* no rows whose total is below */
	const struct report_columns *columns; /* of the table; NULL: the usual ones */
	const struct report_thread *threads;  /* their names */
	size_t nthreads;
	const struct aggregate *whole; /* what the summary and percentages are of; NULL: the rows */
	const char *about;	       /* a line between the summary and the table; NULL: none */
	struct terminal terminal;      /* width 0: lines are never cut */
	const struct trace_target *targets; /* who was traced; may be NULL */
	size_t ntargets;
	const struct trace_stats *stats;      /* NULL when not known */
	const struct when_counts *when;	      /* what --when left out; NULL without one */
	const struct report_samples *samples; /* rows are of them; NULL: of ops */
};

/* What was traced, the table, "in no op". The columns Self %, Total % (of the time in which the
 * threads were observed, see aggregate_totals), Calls, Mean, P99, Max, and those of what the rows
 * are told apart by: report_columns.h. Of rows by phase those of the backward follow in a part of
 * their own. 0, -ENOMEM or -EIO. */
int report_print(FILE *f, const struct aggregate *a, const struct report_opts *opts);

/* {"summary": {...}, "rows": [...]}; with `when` the summary has left_out and not_known; a row has
 * the keys that there are of op, phase, file, line, function, text (null: not known), pid, tid,
 * thread, module, shape, dtype, device, and calls, thrown, self_ns, total_ns, mean_ns, min_ns,
 * p50_ns, p99_ns, max_ns, self_percent, total_percent. */
int report_print_json(FILE *f, const struct aggregate *a, const struct report_opts *opts);

/* The rows with the same columns and a header line. */
int report_print_csv(FILE *f, const struct aggregate *a, const struct report_opts *opts);

#endif
