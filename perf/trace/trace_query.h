/* A trace file as the commands ask for it: which events (--when), of which part (--time, --step),
 * in which order. */
#ifndef PERF_TRACE_TRACE_QUERY_H
#define PERF_TRACE_TRACE_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/when/when.h"

struct trace_query;

/* The texts of QUERY_OPTIONS, the caller's; NULL: all. */
struct trace_choice {
	const char *when;    /* see symbolizer/when/when.h */
	const char *time;    /* "3s-5s", "3s-", "-500ms": since the file was begun */
	const char *step;    /* "3", "2-4": training steps of each process, counted from 1 */
	const char *step_op; /* which op ends a step, see symbolizer/ops/filter.h */
};

/* The options that all commands that read a trace file have; `c` is a struct trace_choice. */
#define QUERY_OPTIONS(c)                                                                           \
	{0,	    "when", OPTION_STRING,                                                         \
	 &(c).when, "EXPR", "only calls for which EXPR holds: 'self.dim() == 2'",                  \
	 NULL},                                                                                    \
	    {0,		"time", OPTION_STRING,                                                     \
	     &(c).time, "A-B",	"only what started between, since the trace was begun: 3s-5s",     \
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
	TRACE_OPS_OR_SAMPLES, /* ops; of a file that has none the samples */
};

/* Called with each item of the first pass, as recorded, whatever is chosen. 0, or -errno with *e,
 * which ends it. */
typedef int trace_first_fn(void *arg, const struct trace_item *item, struct err *e);

struct trace_query_opts {
	struct trace_choice choice;
	enum trace_kinds kinds;
	bool by_start; /* events in the order in which they started; else as recorded: ended */
	/* The file is read while it is written. Steps are counted as they come: it is no error
	 * that one is not there yet. Goes with by_start. */
	bool follow;
	/* Events that the condition leaves out come, too: the caller asks trace_query_chooses. */
	bool unchosen;
	trace_first_fn *first; /* NULL: the caller needs no first pass */
	void *first_arg;
};

/* Open `path`, which must outlive the query. The file is read once before when `first`, a condition
 * (its ops), steps (unless followed) or TRACE_OPS_OR_SAMPLES (up to the first event) need it; of
 * one that is damaged or cut this sees what there is. 0 or -errno with *e: what trace_reader_open
 * gives, -EINVAL for a text, -ENOENT when the trace has no such step, -ENOMEM, or what `first`
 * returned. */
int trace_query(const char *path, const struct trace_query_opts *opts, struct trace_query **out,
		struct err *e);

/* As trace_read_next: events and samples that are chosen, and all items of other types. */
int trace_query_next(struct trace_query *q, struct trace_item *item, struct err *e);

/* Whether the condition chooses an event; counts it when not. */
bool trace_query_chooses(struct trace_query *q, const struct op_event *ev);

/* From now on events come without their values, see trace_reader_no_values. */
void trace_query_no_values(struct trace_query *q);

/* Whether it is the samples that TRACE_SAMPLES or TRACE_OPS_OR_SAMPLES give. */
bool trace_query_of_samples(const struct trace_query *q);

/* When the file was begun, CLOCK_MONOTONIC ns. */
uint64_t trace_query_origin(const struct trace_query *q);

/* What was read so far: all samples, and the events in LOST records. */
uint64_t trace_query_samples(const struct trace_query *q);
uint64_t trace_query_lost(const struct trace_query *q);

/* What the condition left out so far; NULL without one. */
const struct when_counts *trace_query_counts(const struct trace_query *q);

/* What trace_query_end prints besides. */
enum { TRACE_SAY_LEFT_OUT = 1, TRACE_SAY_LOST = 2 };

/* Print on stderr how reading ended, and free the query: `code` and `e` as trace_query_next gave
 * them last, or trace_query when it failed (`q` is NULL then). Returns the exit status of the
 * command: EXIT_GOOD for a whole file and for one that is still being written, else EXIT_FAILED. */
int trace_query_end(struct trace_query *q, unsigned say, int code, const struct err *e);

#endif
