/* A trace as ditorch's table of times: a row for each forward op. */
#ifndef PERF_EXPORT_EXPORT_CSV_H
#define PERF_EXPORT_EXPORT_CSV_H

#include <stdio.h>

#include "base/err.h"
#include "perf/export/export.h"

/* Write the trace to `f`. Columns:
 *
 *   name, forward_id           of the op
 *   forward_elapsed            its duration in `unit`, empty when it had not ended
 *   backward_elapsed           the sum over the backward nodes that it made, empty when none ran
 *   unit                       "ms"
 *   input, output              JSON arrays as in json_event.h
 *   grad_inputs, grad_outputs  JSON arrays of {"node", "values"}, one for each backward node, in
 *                              the order in which they ran
 *
 * Rows in the order in which the ops started. A backward node whose forward op is not known has a
 * row of its own without forward_id and forward_elapsed. Ops that backward nodes call have none:
 * their time is in backward_elapsed. The part and the condition choose among the rows: a forward op
 * by its own event, with all that ran backward for it. What the nodes say waits in a temporary
 * file, so that memory grows by about 50 bytes for an op with a backward.
 *
 * Returns as trace_read_next at the end of the file (0: all of it). */
int export_csv(struct export_in *in, FILE *f, struct err *e);

#endif
