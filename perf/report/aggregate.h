/* Running totals of events by op and source line, or by other keys. Memory grows with the number of
 * distinct rows and threads, never with the number of events. */
#ifndef PERF_REPORT_AGGREGATE_H
#define PERF_REPORT_AGGREGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "symbolizer/event/event.h"

/* Batch means: means of a row's calls over consecutive stretches of the trace, in constant memory.
 * They are the observations of significance tests. Calls close in time are correlated (caches,
 * clock frequency, other load), so single calls are not independent; means over long stretches
 * nearly are. The stretches are the same for all rows: a row whose calls all fall into one stretch
 * has one observation, however many calls. */

enum { BATCHES_MAX = 64 };

/* Zero-initialise. */
struct batches {
	uint64_t size; /* events of all rows in a stretch; doubled when BATCHES_MAX are full */
	uint32_t calls[BATCHES_MAX];
	double sums[BATCHES_MAX];
};

/* at: number of events of all rows before this one. */
void batches_add(struct batches *b, uint64_t at, double value);

/* The means of the stretches that have calls, in order of time, for a trace of `events` events; out
 * has room for BATCHES_MAX. The last stretch is left out if less than half of it has passed, unless
 * it is the only one. Returns their number. */
uint32_t batches_means(const struct batches *b, uint64_t events, double *out);

/* A histogram with buckets of constant relative width: quantiles to about 3 % in little memory. */

enum {
	HISTOGRAM_SUB_BITS = 5, /* 32 buckets for each power of two: 3.1 % wide */
	HISTOGRAM_SUB = 1 << HISTOGRAM_SUB_BITS,
	HISTOGRAM_OCTAVES = 64 - HISTOGRAM_SUB_BITS + 1,
};

/* Zero-initialise. Memory is allocated with the first value of each power of two. */
struct histogram {
	uint64_t count;
	uint64_t *octaves[HISTOGRAM_OCTAVES]; /* HISTOGRAM_SUB counts each, or NULL */
};

/* 0 or -ENOMEM. */
int histogram_add(struct histogram *h, uint64_t value);

/* Prefetch for histogram_add of the value: first the pointer to its octave; then, somewhat later
 * and with `second`, the count itself. */
void histogram_prefetch(const struct histogram *h, uint64_t value, bool second);

/* The q-quantile (0..1): the middle of its bucket. 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double q);

/* Count the values in `n` parts of low..high (inclusive), whose bounds are a geometric sequence. A
 * value counts as the middle of its bucket; those outside go to the first or last part. */
void histogram_spread(const struct histogram *h, uint64_t low, uint64_t high, uint64_t *counts,
		      unsigned n);

void histogram_free(struct histogram *h);

/* The keys of rows, and flags. */
enum {
	AGGREGATE_OP = 1 << 0,
	AGGREGATE_LINE = 1 << 1, /* and its file */
	AGGREGATE_FILE = 1 << 2,
	AGGREGATE_FUNCTION = 1 << 3, /* and its file */
	AGGREGATE_THREAD = 1 << 4,   /* and its process */
	AGGREGATE_SHAPE = 1 << 5,    /* of the tensor arguments, see perf/events/print_event.h */
	AGGREGATE_DTYPE = 1 << 6,
	AGGREGATE_DEVICE = 1 << 7,
	AGGREGATE_PHASE = 1 << 8,
	AGGREGATE_MODULE = 1 << 13, /* of where_stack, see struct py_stack */
	AGGREGATE_DEFAULT = AGGREGATE_OP | AGGREGATE_LINE | AGGREGATE_PHASE,
	/* Flag: backward nodes count in the row of their forward op, in fields of their own, and
	 * ops called by nodes in no row. Not with AGGREGATE_PHASE. A forward op more than
	 * AGGREGATE_SIDES_MAX events back is forgotten; the node then has a row of its own. */
	AGGREGATE_SIDES = 1 << 9,
	AGGREGATE_SIDES_MAX = 1 << 22,
	/* Flag: until aggregate_forget, ops and stacks at equal addresses are equal, like those of
	 * one trace reader. */
	AGGREGATE_STEADY = 1 << 14,
	AGGREGATE_BATCHES = 1 << 10, /* flag: rows have batches */
	AGGREGATE_SAMPLES = 1 << 11, /* flag: events are samples; percentages are of their sum */
	/* Flag: threads that load data for others (breakdown_is_worker) have rows of their own,
	 * with percentages of their time; those of other rows are of the time of the threads that
	 * call ops, and not only run the backward for one that waits for it. */
	AGGREGATE_WORKERS = 1 << 15,
	AGGREGATE_RANK = 1 << 16,
	/* Flag of aggregate_keys: calls of several ranks were added, and rows have times by rank.
	 */
	AGGREGATE_RANKS = 1 << 17,
	AGGREGATE_RANKS_MAX = 4096, /* further ones are not told apart in a row */
	AGGREGATE_FLOPS = 1 << 18,  /* flag: rows have flops; not with AGGREGATE_SIDES */
	/* Flag of aggregate_keys: activities were added, and rows have the time of devices. */
	AGGREGATE_ACTIVITIES = 1 << 19,
	AGGREGATE_SYMBOL = 1 << 12, /* samples: the innermost native frame and its file */
	/* The same of what was done with memory of the CPU, and of devices. */
	AGGREGATE_MEMORY = 1 << 20,
	AGGREGATE_DEVICE_MEMORY = 1 << 21,
	/* Flag of aggregate_keys: rows have the memory of the calls in theirs, too. */
	AGGREGATE_NET_MEMORY = 1 << 22,
	/* Flag: marks (op_mark) are ops, as they were asked for. Else they are in no row and no
	 * count, and their time is in no op. */
	AGGREGATE_MARKS = 1 << 24,
	AGGREGATE_PART = 1 << 23, /* flag: of some ops only, so that rows have not */
	/* Rows that activities, and what was done with memory, are not added to. */
	AGGREGATE_NO_ACTIVITIES = AGGREGATE_SYMBOL | AGGREGATE_SAMPLES | AGGREGATE_SIDES,
	/* Rows by the tensors of calls: an activity counts in that of the call that launched it,
	 * which is known by its id, of the last AGGREGATE_SIDES_MAX calls. */
	AGGREGATE_TENSORS = AGGREGATE_SHAPE | AGGREGATE_DTYPE | AGGREGATE_DEVICE,
};

/* Of a row of activities: the op is known, but (AGGREGATE_TENSORS) not which call of it. */
enum { AGGREGATE_NO_CALL = LAUNCH_NO_THREAD + 1 };

/* Bytes that the calls of a row allocated and freed themselves, in so many blocks; and of what they
 * allocated, what there was when a device's memory was at its peak (aggregate_peaks). */
struct memory_row {
	uint64_t allocs, allocated, frees, freed, at_peak;
	/* AGGREGATE_NET_MEMORY: bytes allocated less those freed, also by the ops that they called;
	 * calls nested in a call of the same row count once. */
	int64_t net;
};

/* When most of a device's memory was allocated by a process. */
struct memory_peak {
	int32_t pid;
	uint32_t rank1;
	int8_t device_type, device_index; /* c10::DeviceType */
	uint64_t bytes, ns;
	uint64_t reserved; /* the most that its allocator had; 0: not known */
	uint64_t known;	   /* of these, bytes of blocks of which the allocation was added */
	uint64_t late;	   /* events that came too late: the peak may have been another */
};

/* Calls with equal keys. Fields that are not keys are NULL or 0. The source line is that of
 * py_stack_where of the event's where_stack. Strings belong to the aggregate. */
struct aggregate_row {
	/* Hot fields first: those updated by every call share cache lines. */
	const char *text;  /* of the source line; NULL: unknown */
	uint64_t calls;	   /* finished calls */
	uint64_t total_ns; /* time in the op; calls nested in a call of the same row count once */
	uint64_t self_ns;  /* time in the op itself, less the ops it called */
	uint64_t sum_ns;   /* of all calls including nested ones: sum_ns / calls is the mean */
	uint64_t min_ns, max_ns;
	struct batches *batches; /* AGGREGATE_BATCHES: of the logarithms of durations in ns */
	struct histogram times;	 /* durations of calls, ns */
	uint64_t thrown;	 /* calls that threw an exception */
	uint64_t backward_calls,
	    backward_ns; /* AGGREGATE_SIDES: of nodes, with the ops they call */
	const char *op;
	const char *file; /* NULL: no Python frame, or not known; text is NULL too */
	/* Without a file NULL, or py_stack_left_out_text: there are frames, nobody knows which. */
	const char *function;
	int32_t line;
	const char *parameter; /* of a gradient accumulation, in place of a line; else NULL */
	const char *module;    /* NULL: none, or unknown */
	const char *shape, *dtype, *device;
	const char *symbol, *object; /* NULL: unknown */
	int32_t pid, tid;
	uint32_t rank1; /* rank + 1; 0: not known */
	uint32_t nranks;
	double flops; /* AGGREGATE_FLOPS, see flops_of: less those of the ops that a call called */
	uint64_t flops_unknown; /* calls that have some, but not known how many */
	uint64_t *ranks_ns;	/* self time by index as in aggregate_ranks; of `nranks` */
	/* What devices did that was launched by these calls themselves, and for how long, each by
	 * itself: what ran at the same time counts several times. Not part of the times above. */
	uint64_t activities, device_ns;
	struct memory_row memory[MEMORY_KINDS];
	uint8_t phase;	/* enum op_phase */
	uint8_t launch; /* enum activity_launch, or AGGREGATE_NO_CALL: not LAUNCH_IN_OP of a row
			   that has activities only, of which no op is known, or no call */
	bool worker;	/* AGGREGATE_WORKERS: of threads that load data for others */
	bool is_own;	/* in the backward, called by Python code there: the line is its own. A key
			   of rows by phase and by line, file or function */
};

/* Floating-point operations of calls. */

enum flops { FLOPS_NONE, FLOPS_KNOWN, FLOPS_UNKNOWN };

/* The floating-point operations of a call, by its shapes and the formulas of
 * torch/utils/flop_counter.py (PyTorch 2.13): of matrix products, convolutions and attention, two
 * for a multiplication with its addition. FLOPS_NONE: it has no formula, or threw; FLOPS_UNKNOWN:
 * its shapes are not known. *out is then 0. */
enum flops flops_of(const struct op_event *ev, double *out);

/* Calls nested in others of one thread, children first. Zero-initialise. */
enum { FLOPS_DEPTH = 32 }; /* deeper ones count as siblings */
struct flops_nest {
	double inside[FLOPS_DEPTH]; /* by depth: of finished calls whose caller has not ended */
};

/* Of `flops` of the next call, those that no op that it called has counted already. */
double flops_own(struct flops_nest *n, uint16_t depth, double flops);

struct aggregate_totals {
	uint64_t events;     /* finished */
	uint64_t passed;     /* see aggregate_pass */
	uint64_t unfinished; /* not ended; in no row */
	uint64_t thrown, lost;
	uint64_t summed; /* of `events`, those that were recorded as sums */
	uint64_t threads;
	/* Observed time, the base of percentages: from the start of a thread's first event to the
	 * end of its last, summed over threads, or with AGGREGATE_WORKERS over those that call ops.
	 */
	uint64_t observed_ns;
	uint64_t all_ns;  /* observed, of all threads */
	uint64_t self_ns; /* observed time in ops: of all rows, or of the threads that call them and
			     of the backward that they wait for */
	/* Compilations of torch.compile, and the time that they took: none of the times above is
	 * part of it. */
	uint64_t compilations, compile_ns;
	uint64_t workers;    /* threads that load data for others */
	uint64_t workers_ns; /* observed time of these */
	uint64_t activities, activities_lost;
	/* unknown: blocks that were freed of which it is not known how large they were */
	uint64_t memory_events, device_memory_events, memory_lost, memory_unknown;
	uint64_t memory_late; /* came so late that it is in no row's `net` but that of its op */
	bool late;	      /* some process was not recorded from its start */
	uint64_t busy_ns; /* in which devices did something, of all of them: the base of percentages
			     of device_ns */
};

/* What the percentages of a row are of. */
static inline uint64_t aggregate_base(const struct aggregate_totals *t,
				      const struct aggregate_row *row)
{
	return row->phase == PHASE_COMPILE ? t->compile_ns
	       : row->worker		   ? t->workers_ns
					   : t->observed_ns;
}

struct aggregate;

/* Rows by `keys`. NULL if out of memory. */
struct aggregate *aggregate_new(unsigned keys);

unsigned aggregate_keys(const struct aggregate *a);

/* Add one event. The events of a thread must come in the order in which they ended (children before
 * parents). To count nested calls of a row once, calls inside unfinished ops are remembered, up to
 * 65,536 per thread. At that limit those of the same row and depth are merged; if more than half
 * are left, all are forgotten, and total_ns of recursive rows counts nested calls again. 0 or
 * -ENOMEM; after an error only aggregate_free may be called. */
int aggregate_add(struct aggregate *a, const struct op_event *ev);

/* Add calls that were summed up. They are in all counts and times of their row, but not in its
 * histogram and batches. 0 or -ENOMEM, as aggregate_add. */
int aggregate_add_sum(struct aggregate *a, const struct op_sum *s);

/* Add what a device did: to the row of the op that launched it, and to totals and
 * aggregate_devices, which alone have it with AGGREGATE_NO_ACTIVITIES. With AGGREGATE_TENSORS what
 * comes before the op has ended waits for it, until aggregate_end. 0 or -ENOMEM, as aggregate_add.
 */
int aggregate_add_activity(struct aggregate *a, const struct activity *activity);

/* Add what was done with memory, to the row of the op that did it. 0 or -ENOMEM, as aggregate_add.
 */
int aggregate_add_memory(struct aggregate *a, const struct memory_event *m);
void aggregate_memory_lost(struct aggregate *a, uint64_t count);

/* What is recorded of a process began later than the process: of the CPU's memory what was
 * allocated before is not known. */
void aggregate_begun_late(struct aggregate *a);

/* The peaks of all devices of all processes, *n of them, as of the last aggregate_end. NULL: there
 * are none. */
const struct memory_peak *aggregate_peaks(const struct aggregate *a, size_t *n);

/* Nothing more will be added: the calls that are awaited do not come, and what the rows had at the
 * peaks of memory is known. 0 or -ENOMEM. */
int aggregate_end(struct aggregate *a);

void aggregate_activities_lost(struct aggregate *a, uint64_t count);

/* The devices of all activities added; NULL: there were none. */
struct devices;
const struct devices *aggregate_devices(const struct aggregate *a);

/* With AGGREGATE_STEADY: the ops and stacks were freed, and their addresses may be reused. */
void aggregate_forget(struct aggregate *a);

/* Prefetch for an event that will be added after `after` others. Call it with 3, 2 and 1 in turn.
 */
void aggregate_prefetch(const struct aggregate *a, const struct op_event *ev, int after);

/* Count an event that is in no row: it still advances the sequence that batches divide. */
void aggregate_pass(struct aggregate *a);

void aggregate_lost(struct aggregate *a, uint64_t count);

/* All rows, in order of their first event; valid until the next aggregate_add. */
const struct aggregate_row *const *aggregate_rows(const struct aggregate *a, size_t *n);

/* The ranks of which calls were added, *n of them, in the order of their first. */
const uint32_t *aggregate_ranks(const struct aggregate *a, size_t *n);

/* The self time of the rank of that index in the row. */
uint64_t aggregate_rank_ns(const struct aggregate_row *row, size_t index);

void aggregate_totals(const struct aggregate *a, struct aggregate_totals *out);

/* What a process has (rank1 as in struct op_event; 0: of any rank), by its ops: none, some, or
 * (AGGREGATE_WORKERS) only such that load data for others. */
enum aggregate_process { AGGREGATE_NO_OPS, AGGREGATE_OPS, AGGREGATE_LOADS };
enum aggregate_process aggregate_process(const struct aggregate *a, int32_t pid, uint32_t rank1);

/* False where some calls of the row were summed up. */
static inline bool aggregate_has_quantiles(const struct aggregate_row *row)
{
	return row->calls == row->times.count;
}

/* The q-quantile (0..1) of the row's durations in ns, within its minimum and maximum; 0: it has
 * none. */
uint64_t aggregate_quantile(const struct aggregate_row *row, double q);

void aggregate_free(struct aggregate *a);

/* Off-op time of a thread: the gaps between outermost ops. */

/* Zero-initialise. */
struct gaps {
	struct intern threads;
	uint64_t *ends; /* end of each thread's last outermost op */
	size_t room;
};

/* Process an event; those of a thread must come in the order in which they end. Returns 1: *gap is
 * the time since the thread's last outermost op, as an event of the op "(in no op)", located at the
 * Python stack of the op that ended the gap; it points to what ev points to. 0: this event ends no
 * gap. Or -ENOMEM. */
int gaps_see(struct gaps *g, const struct op_event *ev, struct op_event *gap);

void gaps_free(struct gaps *g);

#endif
