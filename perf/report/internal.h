/* Internal to perf/report: keys of rows, and their fields for programs. */
#ifndef PERF_REPORT_INTERNAL_H
#define PERF_REPORT_INTERNAL_H

#include <stdio.h>

#include "base/json.h"
#include "perf/events/print_event.h"
#include "perf/report/aggregate.h"
#include "perf/report/report.h"

/* The first lines of a report, two to four of them: what a step waits for, how long steps took and
 * of what they consist, the slowest ops. They fit into the terminal. `files`: those of the rows and
 * of `b`. 0, -ENOMEM or -EIO. */
int headline_print(FILE *f, const struct breakdown_result *b, const struct aggregate *a,
		   const struct report_opts *opts, const struct file_names *files);

/* Rows by module and phase as a tree: modules by their paths, each with the self times of all ops
 * in it and in its submodules. Modules below opts->percent_limit are counted. 0, -ENOMEM or -EIO.
 */
int module_tree_print(FILE *f, const struct aggregate *a, const struct report_opts *opts);

/* The key of an event's row; for aggregate.c alone. */

enum { AGGREGATE_KEY_MAX = 11 << 10, AGGREGATE_KEY_STRING_MAX = 1200 };

struct aggregate_key {
	struct aggregate_row row; /* keys only; strings are the event's or in the buffers below */
	char shape[EVENT_TENSORS_MAX], dtype[EVENT_TENSORS_MAX], device[EVENT_TENSORS_MAX];
	char bytes[AGGREGATE_KEY_MAX]; /* equal for equal keys */
};

/* Fill *k with the keys of the event, of a worker or not, that `keys` (AGGREGATE_*) selects; valid
 * as long as the event and *k are. Returns the number of bytes in k->bytes. */
uint32_t aggregate_key(struct aggregate_key *k, unsigned keys, const struct op_event *ev,
		       bool worker);

/* A row of an aggregate in JSON and CSV, with all its fields. */

/* A row by `keys` (AGGREGATE_*): in JSON an object, in CSV a line with its newline;
 * report_fields_header writes the header line. Percentages are of `observed_ns`. */
void report_fields_json(struct json_out *j, unsigned keys, const struct aggregate_row *r,
			uint64_t observed_ns, const struct report_opts *opts);
void report_fields_csv(FILE *f, unsigned keys, const struct aggregate_row *r, uint64_t observed_ns,
		       const struct report_opts *opts);
void report_fields_header(FILE *f, unsigned keys);

#endif
