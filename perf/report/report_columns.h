/* The columns of a report: what a row of an aggregate shows to people, and to programs. */
#ifndef PERF_REPORT_REPORT_COLUMNS_H
#define PERF_REPORT_REPORT_COLUMNS_H

#include <stdio.h>

#include "base/err.h"
#include "base/table.h"
#include "perf/report/report.h"

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

#endif
