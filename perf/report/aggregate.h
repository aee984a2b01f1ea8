/* Events summed up while they come, by op and source line or by what else they have. Memory grows
 * with the number of distinct rows and threads, never with the number of events. */
#ifndef PERF_REPORT_AGGREGATE_H
#define PERF_REPORT_AGGREGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/intern.h"
#include "symbolizer/event/event.h"

/* Means of a row's calls over stretches of the trace, in little memory, however many calls come:
 * what a test of significance takes for its observations. Calls near each other in time are alike
 * (caches, clock, neighbours), so single calls are not independent; means over long stretches
 * nearly are. All rows have the same stretches: one whose calls all come in a single moment has but
 * one observation, however many they are. */

enum { BATCHES_MAX = 64 };

/* Zero-initialise. */
struct batches {
	uint64_t size; /* of a stretch, in events of all rows; doubled when there are too many */
	uint32_t calls[BATCHES_MAX];
	double sums[BATCHES_MAX];
};

/* at: how many events of all rows were before it. */
void batches_add(struct batches *b, uint64_t at, double value);

/* The means of the stretches that have calls, in the order of time, in a trace of so many events;
 * the last one is left out when it was less than half over, unless it is alone. Returns how many.
 */
uint32_t batches_means(const struct batches *b, uint64_t events, double *out);

/* A histogram of durations whose buckets grow with the value: quantiles to about 3 % in little
 * memory. */

enum {
	HISTOGRAM_SUB_BITS = 5, /* 32 buckets for each power of two: 3.1 % wide */
	HISTOGRAM_SUB = 1 << HISTOGRAM_SUB_BITS,
	HISTOGRAM_OCTAVES = 64 - HISTOGRAM_SUB_BITS + 1,
};

/* Zero-initialise. Memory comes with the first value of each power of two. */
struct histogram {
	uint64_t count;
	uint64_t *octaves[HISTOGRAM_OCTAVES]; /* HISTOGRAM_SUB counts each, NULL: none */
};

/* 0 or -ENOMEM. */
int histogram_add(struct histogram *h, uint64_t value);

/* Fetches into the processor's cache what histogram_add of the value will need: first where its
 * count is found, and with `second`, a while later, the count. */
void histogram_prefetch(const struct histogram *h, uint64_t value, bool second);

/* The value below or at which the share q (0..1) of all lies: the middle of its bucket. 0 when
 * empty. */
uint64_t histogram_quantile(const struct histogram *h, double q);

/* How many values lie in each of `n` parts of low..high (with both ends), whose bounds grow by
 * equal ratios; a value counts as the middle of its bucket, and those outside with the first or
 * last part.
 */
void histogram_spread(const struct histogram *h, uint64_t low, uint64_t high, uint64_t *counts,
		      unsigned n);

void histogram_free(struct histogram *h);

/* What rows are told apart by. */
enum {
	AGGREGATE_OP = 1 << 0,
	AGGREGATE_LINE = 1 << 1, /* and its file */
	AGGREGATE_FILE = 1 << 2,
	AGGREGATE_FUNCTION = 1 << 3, /* and its file */
	AGGREGATE_THREAD = 1 << 4,   /* and its process */
	AGGREGATE_SHAPE = 1 << 5,    /* of the tensors given, see perf/events/print_event.h */
	AGGREGATE_DTYPE = 1 << 6,
	AGGREGATE_DEVICE = 1 << 7,
	AGGREGATE_PHASE = 1 << 8,
	AGGREGATE_MODULE = 1 << 13, /* of where_stack, as struct py_stack has it */
	AGGREGATE_DEFAULT = AGGREGATE_OP | AGGREGATE_LINE | AGGREGATE_PHASE,
	/* No key: backward nodes are counted in the row of their forward op, apart from its own
	 * calls, and what nodes call is in no row. Not with AGGREGATE_PHASE. A forward op that is
	 * AGGREGATE_SIDES_MAX events back is forgotten: such a node has a row of its own. */
	AGGREGATE_SIDES = 1 << 9,
	AGGREGATE_SIDES_MAX = 1 << 22,
	/* No key: of the ops and stacks of the events the same address is the same one, as those of
	 * one trace reader are, until aggregate_forget. */
	AGGREGATE_STEADY = 1 << 14,
	AGGREGATE_BATCHES = 1 << 10, /* no key: rows have batches */
	AGGREGATE_SAMPLES = 1 << 11, /* no key: of samples as events; the whole is their sum */
	AGGREGATE_SYMBOL = 1 << 12,  /* the innermost native frame, and its file: of samples */
};

/* Calls that are alike in all keys. What is no key is NULL or 0. The source line is that of
 * py_stack_where of the event's where_stack. Strings are the aggregate's own. */
struct aggregate_row {
	/* What each call changes or needs is together, for the sake of the processor's cache. */
	const char *text; /* NULL: not known */
	uint64_t calls;	  /* those that ended */
	uint64_t
	    total_ns; /* time in the op; a call inside another call of the same row counts once */
	uint64_t self_ns; /* without the time in other ops that it called */
	uint64_t sum_ns;  /* of all calls, nested ones too: sum_ns / calls is the mean */
	uint64_t min_ns, max_ns;
	struct batches *batches; /* AGGREGATE_BATCHES: of the logarithms of the durations */
	struct histogram times;	 /* of the calls' durations */
	uint64_t thrown;	 /* calls left by an exception */
	uint64_t backward_calls, backward_ns; /* AGGREGATE_SIDES: of the nodes, with what they call
					       */
	const char *op;
	const char *file; /* NULL: no Python frame, and then function and text are NULL too */
	const char *function;
	int32_t line;
	const char *module; /* NULL: in none, or not known */
	const char *shape, *dtype, *device;
	const char *symbol, *object; /* NULL: not known */
	int32_t pid, tid;
	uint8_t phase; /* enum op_phase */
};

struct aggregate_totals {
	uint64_t events;     /* that ended */
	uint64_t passed;     /* see aggregate_pass */
	uint64_t unfinished; /* that had not: in no row */
	uint64_t thrown, lost;
	uint64_t threads;
	/* The time in which threads were observed: for each thread, from the start of its first
	 * event to the end of its last, added up. What percentages are of. */
	uint64_t observed_ns;
	uint64_t self_ns; /* of all rows: the observed time spent in ops */
};

struct aggregate;

/* Rows by AGGREGATE_DEFAULT. NULL without memory. */
struct aggregate *aggregate_new(void);

/* Rows by `keys`. NULL without memory. */
struct aggregate *aggregate_new_by(unsigned keys);

unsigned aggregate_keys(const struct aggregate *a);

/* Add one event; events of a thread come in the order in which they ended (children before
 * parents). To count nested calls of a row once, the calls inside of an op that has not ended are
 * remembered, up to 65,536 different ones a thread; should that not do, total_ns of rows that call
 * themselves counts calls twice. 0 or -ENOMEM; after that the aggregate is to be freed, nothing
 * else. */
int aggregate_add(struct aggregate *a, const struct op_event *ev);

/* Ops and stacks are freed: with AGGREGATE_STEADY, others may come at their addresses. */
void aggregate_forget(struct aggregate *a);

/* A hint that this event will be added after `after` others, 3, 2 or 1: to be given for each of
 * these, it fetches what adding it will need into the processor's cache. */
void aggregate_prefetch(const struct aggregate *a, const struct op_event *ev, int after);

/* An event of the trace that is in no row: for the batches time goes on. */
void aggregate_pass(struct aggregate *a);

/* `count` events were lost. */
void aggregate_lost(struct aggregate *a, uint64_t count);

/* All rows, in the order of their first event; valid until the next aggregate_add. */
const struct aggregate_row *const *aggregate_rows(const struct aggregate *a, size_t *n);

void aggregate_totals(const struct aggregate *a, struct aggregate_totals *out);

/* The row's quantile of call durations (q 0..1), within its minimum and maximum. */
uint64_t aggregate_quantile(const struct aggregate_row *row, double q);

void aggregate_free(struct aggregate *a);

/* The time in which a thread was in no op: between one outermost op and the next. */

/* Zero-initialise. */
struct gaps {
	struct intern threads;
	uint64_t *ends; /* of each thread's outermost op before */
	size_t room;
};

/* See the next event of its thread, in the order in which they end. 1: *gap is the time since the
 * op before, as an event of the op "(in no op)", located where Python was when the gap ended; it
 * shares what ev points to. 0: there is no gap that ends with this event. -ENOMEM. */
int gaps_see(struct gaps *g, const struct op_event *ev, struct op_event *gap);

void gaps_free(struct gaps *g);

#endif
