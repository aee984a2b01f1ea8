/* Exports of a trace to the formats of other programs. */
#ifndef PERF_EXPORT_EXPORT_H
#define PERF_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "perf/trace/trace_read.h"

/* What a long export tells while it runs. */
struct export_watch {
	/* Called each thousand items: the share of the file that was read, 0 to 1. Returns 0, or
	 * -errno, which ends the export. */
	int (*look)(void *arg, double share);
	void *arg;
	uint64_t bytes; /* set aside so far, to be written at the end */
	uint64_t items;
};

struct export_in {
	const char *path;
	struct export_watch watch;	   /* look NULL: none */
	const struct trace_choice *choice; /* of `query` */
	bool devices;			   /* export_folded, export_svg: time on devices */
	struct trace_query *query;	   /* of `path`; events in the order of their starts */
	struct export_notes *notes;	   /* from the first pass; NULL: none */
};

/* The first pass (trace_first_fn, `in` is a struct export_in) of a query for export_csv and for
 * export_chrome: notes the backward nodes. */
int export_csv_note(void *in, const struct trace_item *item, struct err *e);
int export_chrome_note(void *in, const struct trace_item *item, struct err *e);
void export_notes_free(struct export_notes *n); /* NULL allowed */

/* For those that read a trace by themselves: to be called with each item of `q`. Returns like
 * export_watch.look. */
int export_look(struct export_in *in, const struct trace_query *q);

/* Whether the event is a mark (op_mark), of which blocks are made, and so no call of an op: --ops
 * does not ask for it. */
bool export_is_mark(const struct export_in *in, const struct op_event *ev);

/* Called with each item of the query. 0, or -errno, which stops reading. */
typedef int export_item_fn(void *arg, const struct trace_item *item);

/* Read the query to its end. Returns like trace_query_next at the end of the file, or what `fn`
 * returned with *e set. */
int export_each(struct export_in *in, export_item_fn *fn, void *arg, struct err *e);

/* Trace Event JSON (the "Trace Event Format" of Chrome's about:tracing, which Perfetto reads): a
 * complete event for each op ("X"), Python frames around them ("B" and "E", as for an unfinished
 * op), names of processes and threads, whole training steps and modules as tracks of their own, and
 * a flow from each forward op to its backward nodes. ts and dur are microseconds, ts since
 * origin_ns. Memory grows with flows, steps and activities. Samples become CPU profiles as V8
 * writes them ("P", read by Perfetto and Chrome's own tools), one a thread; memory grows with the
 * number of distinct stacks. */
int export_chrome(struct export_in *in, FILE *f, struct err *e);

/* The same but samples as Perfetto's own packets (protocol buffers, names interned), a fraction of
 * its size. The first pass is export_chrome_note. */
int export_perfetto(struct export_in *in, FILE *f, struct err *e);

/* Folded stacks as flamegraph.pl reads them: Python frames, outermost first, then ops, and the self
 * time of the last op in ns. With `devices`: the frames that locate an op, the op, what it
 * launched, and the time of that on the device. With samples: mixed stacks
 * (perf/calls/call_tree.h) and their weights. Memory grows with the number of distinct stacks. */
int export_folded(struct export_in *in, FILE *f, struct err *e);

/* A flame graph as a picture (SVG) without scripts: Python frames and ops, with the backward beside
 * its forward. Memory as for export_folded. */
int export_svg(struct export_in *in, FILE *f, struct err *e);

/* speedscope's file format (https://www.speedscope.app/file-format-schema.json): an evented profile
 * for each thread, of Python frames and ops, in ns since origin_ns; an unfinished op extends to its
 * thread's last event.
 * Events are buffered in a temporary file. */
int export_speedscope(struct export_in *in, FILE *f, struct err *e);

/* The same for samples: one profile of the mixed stacks and their weights. */
int export_speedscope_samples(struct export_in *in, FILE *f, struct err *e);

/* A page of HTML for a browser, of at most 5 MB: steps, flame graphs, timelines of some steps,
 * tables, all in one file, which loads nothing. Reads the trace twice more by itself. Memory grows
 * with the number of distinct stacks. The query must have samples, too. */
int export_html(struct export_in *in, FILE *f, struct err *e);

/* CSV with a row for each sample. */
int export_csv_samples(struct export_in *in, FILE *f, struct err *e);

/* Write an SQLite 3 database to `fd`, an empty file open for reading and writing, which remains the
 * caller's; `output` is its name for messages. Its tables are described in ditrace-export(1). */
int export_sqlite(struct export_in *in, int fd, const char *output, struct err *e);

/* What the first pass (export_parquet_note, whose `arg` it is) notes for export_parquet: steps and
 * collectives. NULL if out of memory; free with parquet_notes_free, NULL allowed. */
struct parquet_notes;
struct parquet_notes *parquet_notes_new(void);
void parquet_notes_free(struct parquet_notes *n);
int export_parquet_note(void *arg, const struct trace_item *item, struct err *e);

/* A data set of Parquet files, FOLDER/TABLE/host=HOST/rank=RANK/BEGUN.parquet, as described in
 * ditrace-export(1), by pyarrow of `python`. Files of other traces in the folder stay, those of the
 * same trace are replaced. Files get their names at the end; of an export that fails nothing stays.
 * Memory: up to a million rows. Returns like trace_query_next at the end of the file. */
int export_parquet(struct export_in *in, struct parquet_notes *notes, const char *python,
		   const char *folder, struct err *e);

/* CSV with a row for each forward op, also for those that checkpoints recompute, in the layout of
 * ditorch's table of times. Columns:
 *
 *   name, forward_id           of the op
 *   forward_elapsed            its duration in `unit`, empty if the op had not ended
 *   backward_elapsed           the sum over its backward nodes, empty when none ran
 *   unit                       "ms"
 *   input, output              JSON arrays as in print_event.h
 *   grad_inputs, grad_outputs  JSON arrays of {"node", "values"}, one for each backward node, in
 *                              the order in which they ran
 *   phase                      "forward" or "recompute", of a node's own row "backward"
 *
 * Rows are in order of the ops' start. A backward node without a known forward op has a row of its
 * own, without forward_id and forward_elapsed. Ops called by backward nodes have no row: their time
 * is in backward_elapsed. The forward op's event decides whether a row is selected; it then
 * includes all of its backward. Values of backward nodes are buffered in a temporary file; memory
 * grows by about 50 bytes for each op with a backward.
 *
 * The query must have `unchosen` set. Returns like trace_query_next at the end of the file (0: read
 * completely). */
int export_csv(struct export_in *in, FILE *f, struct err *e);

/* A stream that compresses as gzip(1) what is written to it, into `fd`, which is closed with it or
 * on failure. NULL with errno. */
FILE *export_gzip(int fd);

#endif
