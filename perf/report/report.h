/* The table of where the time went: at the end of run and attach, and by ditrace report. */
#ifndef PERF_REPORT_REPORT_H
#define PERF_REPORT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "base/table.h"
#include "base/terminal.h"
#include "perf/report/aggregate.h"
#include "perf/trace/trace_format.h"
#include "symbolizer/event/event.h"
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

/* The columns of a report: what a row of an aggregate shows to people, and to programs. */

enum { REPORT_COLUMNS_MAX = 32 };

/* Which columns, by their place in the list of all. */
struct report_columns {
	size_t n;
	unsigned char which[REPORT_COLUMNS_MAX];
};

/* Those for rows by `keys` (AGGREGATE_*). */
void report_columns_default(unsigned keys, struct report_columns *out);

/* Read "calls,mean,op". 0, or -EINVAL: no such column, one that rows by `keys` do not have, too
 * many. */
int report_columns_parse(const char *text, unsigned keys, struct report_columns *out,
			 struct err *e);

void report_columns_head(struct table *t, const struct report_columns *c);

/* The cells of a row; percentages are of `observed_ns`. */
void report_columns_row(struct table *t, const struct report_columns *c,
			const struct aggregate_row *r, uint64_t observed_ns,
			const struct report_opts *opts);

/* The numbers that rows are sorted by, too. */
uint64_t report_mean(const struct aggregate_row *r);
double report_percent(uint64_t part, uint64_t whole);

/* The name of the row's thread, "" when it is not known. */
const char *report_thread_name(const struct report_opts *opts, const struct aggregate_row *r);

/* --group and --sort of a report, as they are written. */

/* Read "op,line,shape" into AGGREGATE_* keys. 0 or -EINVAL. */
int group_parse(const char *text, unsigned *keys, struct err *e);

/* Read the name of a key to sort rows by `keys` by. 0, or -EINVAL: there is no such key, or the
 * rows do not have it. */
int group_parse_sort(const char *text, unsigned keys, enum report_sort *sort, struct err *e);

#endif
