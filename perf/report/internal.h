/* What the files of this folder share. */
#ifndef PERF_REPORT_INTERNAL_H
#define PERF_REPORT_INTERNAL_H

#include <stdio.h>

#include "perf/events/print_event.h"
#include "perf/report/aggregate.h"
#include "perf/report/report.h"

/* What makes two events one row. For aggregate.c alone. */

enum { AGGREGATE_KEY_MAX = 11 << 10, AGGREGATE_KEY_STRING_MAX = 1200 };

struct aggregate_key {
	struct aggregate_row row; /* the keys alone; strings are the event's, or those below */
	char shape[EVENT_TENSORS_MAX], dtype[EVENT_TENSORS_MAX], device[EVENT_TENSORS_MAX];
	char bytes[AGGREGATE_KEY_MAX]; /* equal for equal keys */
};

/* Fill *k with what `keys` (AGGREGATE_*) ask for of the event, valid as long as the event and *k.
 * Returns how many of the bytes count. */
uint32_t aggregate_key(struct aggregate_key *k, unsigned keys, const struct op_event *ev);

/* What a row of an aggregate says to programs: all that there is. */

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
