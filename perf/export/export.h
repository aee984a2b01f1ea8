/* A trace in a form that other programs read: what the exports share. */
#ifndef PERF_EXPORT_EXPORT_H
#define PERF_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "perf/trace/trace_read.h"
#include "perf/trace/trace_span.h"

struct export_in {
	const char *path;
	struct trace_when *when;       /* which events */
	const struct trace_span *span; /* and of which part of the trace; NULL: of all */
	bool samples;		       /* these, and not the events */
	bool both;		       /* without `samples`: these and the events */
	uint64_t lost;		       /* out: events in LOST records */
	uint64_t origin_ns;	       /* out, before the first item: when the file was begun */
};

/* Called with each item; an event only when it is in the part and the condition chooses it. 0 or
 * -errno, which ends it.
 */
typedef int export_item_fn(void *arg, const struct trace_item *item);

/* Whether the event is to be exported. Counts what the condition leaves out. */
bool export_chooses(const struct export_in *in, const struct op_event *ev);

/* Read the trace, events in the order in which they started (see trace_order.h). Returns as
 * trace_read_next at the end of the file, or what `fn` returned with *e set. */
int export_each(struct export_in *in, export_item_fn *fn, void *arg, struct err *e);

/* Trace Event JSON (the "Trace Event Format" of Chrome's about:tracing, which Perfetto reads): a
 * complete event an op ("X"; "B" without an end for one that had not ended), named processes and
 * threads, a flow from each forward op to the backward nodes that it made. ts and dur are
 * microseconds, ts since origin_ns. Memory beside what is open: a bit an event. Samples are CPU
 * profiles as V8 writes them ("P", which Perfetto and Chrome's own tools read), one a thread; their
 * stacks take memory for each different one. */
int export_chrome(struct export_in *in, FILE *f, struct err *e);

/* Folded stacks as flamegraph.pl reads them: Python frames, outermost first, then ops, and the ns
 * spent in the last op itself. Memory grows with the number of distinct stacks. Of
 * samples: mixed stacks (perf/report/call_tree.h) and their weights. */
int export_folded(struct export_in *in, FILE *f, struct err *e);

/* speedscope's file format (https://www.speedscope.app/file-format-schema.json): an evented profile
 * a thread, in ns since origin_ns; an op that had not ended reaches to its thread's last event. The
 * events of each thread wait in a temporary file. */
int export_speedscope(struct export_in *in, FILE *f, struct err *e);

/* The same of samples: one profile, with the mixed stacks that there were and their weights. */
int export_speedscope_samples(struct export_in *in, FILE *f, struct err *e);

/* A row for each sample. */
int export_csv_samples(struct export_in *in, FILE *f, struct err *e);

/* An SQLite 3 database into the empty or new file `output`; its tables are described in
 * ditrace-export(1). */
int export_sqlite(struct export_in *in, const char *output, struct err *e);

/* A trace as ditorch's table of times: a row for each forward op. */

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
