/* What a row of an aggregate says to programs: all that there is. */
#ifndef PERF_REPORT_REPORT_FIELDS_H
#define PERF_REPORT_REPORT_FIELDS_H

#include <stdio.h>

#include "perf/report/report.h"

/* Of a row by `keys` (AGGREGATE_*), in JSON as `"op":"...",...` without braces, in CSV as a line
 * with its newline, of which report_fields_header writes the header. Percentages are of
 * `observed_ns`.
 */
void report_fields_json(FILE *f, unsigned keys, const struct aggregate_row *r, uint64_t observed_ns,
			const struct report_opts *opts);
void report_fields_csv(FILE *f, unsigned keys, const struct aggregate_row *r, uint64_t observed_ns,
		       const struct report_opts *opts);
void report_fields_header(FILE *f, unsigned keys);

#endif
