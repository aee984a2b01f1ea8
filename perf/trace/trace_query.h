/* A trace file as commands read it: which events (--when), which part (--time, --step), and in
 * which order. */
#ifndef PERF_TRACE_TRACE_QUERY_H
#define PERF_TRACE_TRACE_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/when/when.h"

struct trace_query;

/* The arguments of QUERY_OPTIONS, owned by the caller; NULL: all. */
struct trace_choice {
	const char *ops;     /* only these, see symbolizer/ops/filter.h */
	const char *not_ops; /* not these */
	const char *when;    /* see symbolizer/when/when.h */
	const char *time;    /* "3s-5s", "3s-", "-500ms": since the start of the file */
	const char *step;    /* "3", "2-4": training steps of each process, counted from 1 */
	const char *rank;    /* "0,3-5": of these ranks only */
	const char *step_op; /* which op ends a step, see symbolizer/ops/filter.h */
	bool whole_steps;    /* only steps whose start and end were recorded */
};

/* The options of all commands that read a trace file; `c` is a struct trace_choice. */
#define QUERY_OPTIONS(c)                                                                           \
	{0, "ops", OPTION_STRING, &(c).ops, "LIST", "only these ops", NULL},                       \
	    {0, "not-ops", OPTION_STRING, &(c).not_ops, "LIST", "leave these ops out", NULL},      \
	    {0,		"when", OPTION_STRING,                                                     \
	     &(c).when, "EXPR", "only calls for which EXPR holds: 'self.dim() == 2'",              \
	     NULL},                                                                                \
	    {0,		"time", OPTION_STRING,                                                     \
	     &(c).time, "A-B",	"only what started between, since the trace was begun: 3s-5s",     \
	     NULL},                                                                                \
	    {0,		"rank", OPTION_STRING,                                                     \
	     &(c).rank, "N",	"only of these ranks of a training on many processes: 0 or 0,3-5", \
	     NULL},                                                                                \
	    {0,		"step", OPTION_STRING,                                                     \
	     &(c).step, "N",	"only these training steps, counted from 1: 3 or 2-4",             \
	     NULL},                                                                                \
	{                                                                                          \
		0, "step-op", OPTION_STRING, &(c).step_op, "OP",                                   \
		    "a step ends with a call of OP (default: of the optimizer's step)", NULL       \
	}

enum trace_kinds {
	TRACE_OPS_AND_SAMPLES,
	TRACE_OPS,
	TRACE_SAMPLES,
	TRACE_OPS_OR_SAMPLES, /* ops; samples if the file has none */
};

/* Called with each item of the first pass, as recorded and unfiltered. 0, or -errno with *e, which
 * ends the pass. */
typedef int trace_first_fn(void *arg, const struct trace_item *item, struct err *e);

struct trace_query_opts {
	struct trace_choice choice;
	enum trace_kinds kinds;
	bool by_start; /* events in the order of their starts; else as recorded: of their ends */
	/* The file is read while it is written: steps are counted as they come, and a step that is
	 * not there yet is no error. Requires by_start. */
	bool follow;
	/* Also return events that --ops, --not-ops or --when leave out; the caller uses
	 * trace_query_chooses. */
	bool unchosen;
	bool samples_too;      /* with TRACE_OPS_OR_SAMPLES: of a file with ops also its samples */
	trace_first_fn *first; /* NULL: the caller needs no first pass */
	void *first_arg;
};

/* Whether it leaves out calls by what they are: by --ops, --not-ops or --when. */
bool trace_choice_of_calls(const struct trace_choice *c);

/* Whether the arguments make sense, whatever file they are for. 0, or -EINVAL with *e. */
int trace_choice_check(const struct trace_choice *c, struct err *e);

/* Whether `path` begins as a trace file does, or is a folder with a file NAME.data that does. */
bool trace_query_can_read(const char *path);

/* Open `path`, a trace file or a folder of them, which is read as one trace (`follow`: as of the
 * files that are there now, with the events of each file in order). It must outlive the query. The
 * file is read once beforehand if `first`, a condition (for its ops) or steps (unless followed)
 * need it, and up to the first event for TRACE_OPS_OR_SAMPLES. If it is damaged or truncated, that
 * pass sees what there is. 0 or -errno with *e: those of trace_reader_open, -EINVAL for a malformed
 * argument, -ENOENT if the trace has no such step or op, -ENOMEM, or what `first` returned. */
int trace_query(const char *path, const struct trace_query_opts *opts, struct trace_query **out,
		struct err *e);

/* Like trace_read_next, with the events and samples that are chosen and all items of other types.
 */
int trace_query_next(struct trace_query *q, struct trace_item *item, struct err *e);

/* Whether --ops, --not-ops and the condition choose the event. Counts those they do not. */
bool trace_query_chooses(struct trace_query *q, const struct op_event *ev);

/* From now on, return events without their values; see trace_reader_no_values. */
void trace_query_no_values(struct trace_query *q);

/* Whether TRACE_SAMPLES or TRACE_OPS_OR_SAMPLES selected the samples. */
bool trace_query_of_samples(const struct trace_query *q);

/* When the recording of the file began, CLOCK_MONOTONIC ns. */
uint64_t trace_query_origin(const struct trace_query *q);

/* The share of the file that was read so far, 0 to 1, not counting a first pass. */
double trace_query_share(const struct trace_query *q);

/* The same moment, CLOCK_REALTIME ns. */
uint64_t trace_query_begun(const struct trace_query *q);

/* How many steps were chosen, of the process that made most; 0: all events were. */
uint64_t trace_query_steps(const struct trace_query *q);

/* Totals of what was read so far: all samples, and the events in LOST records. */
uint64_t trace_query_samples(const struct trace_query *q);
uint64_t trace_query_lost(const struct trace_query *q);

/* Of what was read so far: calls in the sums that were returned; and in those that were left out,
 * since it is not known whether the condition, the steps or the time choose them. */
uint64_t trace_query_summed(const struct trace_query *q);
uint64_t trace_query_sums_left_out(const struct trace_query *q);
bool trace_query_has_sums(const struct trace_query *q); /* any of either */

/* Counts of what trace_query_chooses left out so far; NULL if it chooses all. */
const struct when_counts *trace_query_counts(const struct trace_query *q);

/* Free the query, as trace_query_end does, and print nothing. */
void trace_query_close(struct trace_query *q);

/* What trace_query_end prints in addition. */
enum { TRACE_SAY_LEFT_OUT = 1, TRACE_SAY_LOST = 2, TRACE_SAY_SUMMED = 4 };

/* Print on stderr how reading ended, and free the query. `code` and `e` are the last ones from
 * trace_query_next, or from trace_query if that failed (`q` is then NULL). Returns the command's
 * exit status: EXIT_GOOD for a whole file and for one that is still being written, otherwise
 * EXIT_FAILED. */
int trace_query_end(struct trace_query *q, unsigned say, int code, const struct err *e);

#endif
