/* Internal to perf/collectives: calls, groups, rows. */
#ifndef PERF_COLLECTIVES_INTERNAL_H
#define PERF_COLLECTIVES_INTERNAL_H

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "base/table.h"
#include "perf/collectives/collectives.h"
#include "perf/report/aggregate.h"
#include "perf/report/blocks.h"
#include "perf/report/report.h"
#include "symbolizer/target/process.h"

#define COLLECTIVE_OPEN UINT64_MAX /* a call that had not ended */

struct collective_call {
	uint64_t start_ns;
	uint64_t ns;		   /* of the call itself, or COLLECTIVE_OPEN */
	uint64_t work;		   /* address of the Work that it returned; 0: not known */
	uint64_t done_ns, wait_ns; /* when it was done, and first waited for; 0: not known */
	uint64_t waited_ns;	   /* how long, if wait_ns */
	uint64_t device_start_ns, device_end_ns; /* of NCCL's kernels for it; 0: not known */
	uint32_t row, bucket1; /* bucket1: index of the bucket that it sent + 1; 0: none */
	bool chosen;
};

/* A bucket of DistributedDataParallel in one backward. */
struct collective_bucket {
	uint32_t row, reducer;
	uint64_t ready_ns;     /* when all its gradients were there; 0: not known */
	uint64_t over_ns;      /* when nothing was left to compute in the backward; 0: not known */
	const char *filled_by; /* the parameter whose gradient came last; NULL: not known */
};

/* The last bucket of a thread whose parameters were asked for, until a collective sends it. */
struct bucket_sending {
	uint64_t since_ns;
	uint32_t bucket1; /* by index + 1; 0: sent */
	const struct py_stack *stack;
};

/* Buckets of one number and with the same parameters. */
struct bucket_row {
	uint64_t calls; /* first: collectives_sort */
	int64_t number;
	const char *parameters; /* each on a line: its name, or "(64, 3) float32"; "": not known */
	const char *filled_by;	/* of the first; NULL: not known */
	bool filled_differ;	/* of the others another */
	uint64_t bytes;		/* 0: not known, or not all alike */
	uint64_t left, done, lates; /* of how many it is known: */
	struct histogram left_ns;   /* from its being ready to the end of what is computed */
	struct histogram done_ns;   /* and until it was reduced */
	struct histogram late_ns;   /* after what is computed */
};

struct buckets {
	struct collective_reducer *reducers;
	size_t nreducers, reducers_room;
	struct collective_bucket *all;
	size_t n, room;
	struct bucket_row *rows;
	size_t nrows, rows_room;
	struct intern keys;
	struct map by_reducer; /* by process and address */
	struct map by_thread;  /* `sending`, by process and thread */
	struct bucket_sending *sending;
	size_t nsending, sending_room;
};

/* What is told of a Work: that it is done, or a wait for it. */
struct collective_mark {
	uint32_t process;
	bool is_done;
	uint64_t address, start_ns;
	uint64_t end_ns; /* 0: it had not ended; of is_done: not used */
};

/* A kernel of NCCL. */
struct collective_kernel {
	uint32_t process;
	uint64_t launched_ns, start_ns, end_ns;
};

/* In the order of their starts, once matched. */
struct collective_calls {
	struct collective_call *all;
	size_t n, room;
};

enum { NOT_NUMBERED, NUMBERED };

/* A group as one process knows it. */
struct collective_group {
	uint32_t process;	     /* by index */
	uint32_t number;	     /* from 0, in the order of first use in the process */
	uint64_t address;	     /* 0: the group of calls whose group is not known */
	int32_t rank, size;	     /* -1: not known */
	const struct group_desc *of; /* NULL: not known */
	int64_t id;		     /* of `of`, equal on all ranks; -1: not known */
	uint32_t next1;		     /* the next one of the process, by index + 1; 0: none */
	struct collective_calls calls[2];
};

struct collective_process {
	int32_t pid;
	bool worker, whole;
	uint32_t groups;   /* used so far */
	uint32_t first1;   /* the latest one, by index + 1; 0: none */
	unsigned clock;	   /* see collectives_align */
	uint64_t first_ns; /* its first call's start */
	uint64_t unnamed;  /* calls without a known group */
	struct process_rank rank;
};

/* What calls of a row have in common. The frame is that of one of them. */
struct collective_row {
	uint64_t calls;		/* first: collectives_sort */
	struct collective what; /* group: NULL */
	const char *purpose;	/* of fully_shard "FSDP::all_gather (blocks.0)"; of a DTensor the
				   module; NULL: none */
	uint32_t group;		/* its number */
	const struct group_desc *of;
	int32_t size; /* -1: not known */
	bool group_known;
	const struct py_frame *where; /* NULL: no Python frame */
	uint64_t max_ns;
	struct histogram ns;
	uint64_t done, waits; /* calls of which it is known when they were done, that were waited
				 for */
	uint64_t waited_ns;   /* all together */
	struct histogram done_ns, waits_ns; /* from the start of the call; of the waits */
	/* Of calls that were matched: how much later than the first rank the last one entered. */
	uint64_t matched;
	struct histogram spread_ns;
	uint64_t *last; /* how often each rank came last, by index of c->ranks */
};

/* A group all of whose ranks were recorded: the calls with one number are one collective. Its ranks
 * are counted by their places in it. */
struct collective_world {
	const struct group_desc *of; /* NULL: a group of all ranks, which is not known */
	size_t *ranks, *groups; /* of each rank: index of c->ranks, of c->groups; SIZE_MAX: none */
	size_t nranks;
	size_t n; /* calls that are the same on all ranks, from the first one */
};

struct collectives {
	struct intern strings, keys, descs;
	const struct group_desc **desc_of; /* by number in `descs` */
	size_t desc_of_room;
	struct map by_pid;  /* indexes of processes: collective_process_of */
	struct arena arena; /* backends of rows */
	struct collective_process *processes;
	size_t nprocesses, processes_room;
	struct collective_group *groups;
	size_t ngroups, groups_room;
	struct collective_row *rows;
	size_t nrows, rows_room;
	uint64_t first_ns; /* the start of the first call */
	uint64_t lost, summed;
	uint64_t waits_not_known; /* waits of which it is not known for what, or how long */
	struct collective_mark *marks;
	size_t nmarks, marks_room;
	struct buckets buckets;
	struct block_pairs blocks;
	struct collective_kernel *kernels;
	size_t nkernels, kernels_room;
	bool blind;	/* recorded by an engine that does not see values of collectives */
	unsigned clock; /* of the file that is read: collectives_align */
	const struct trace_clock **clocks; /* the reader's: of hosts but the first */
	size_t nclocks, clocks_room;
	bool as_clocks_are; /* compare them, whatever is known of their clocks */
	/* Set by collectives_match: the processes of the ranks that are compared, by rank; and why
	 * they are not, or where they stop to be the same. */
	size_t *ranks, nranks;
	size_t starts; /* how often each rank was started: the last processes are compared */
	struct collective_world *worlds;
	size_t nworlds;
	char why[TRACE_CLOCK_TEXT_MAX];
	char differ[640];
	char left_out[200]; /* which groups are not compared, and why */
};

/* The process, by index, of a PID, and of a rank if that is known (rank + 1, else 0): several hosts
 * may have one PID. The last one that was told of; -ENOENT: none. */
int64_t collective_process_of(const struct collectives *c, int32_t pid, uint32_t rank1);

/* "2 (ranks 0-3, 8)", or its number in the process. Returns out. */
const char *collective_group_text(char *out, size_t size, const struct group_desc *of,
				  uint32_t number);

/* Collective `k` of a group: the first and the last rank to enter, by place, and when; second_ns:
 * from when on all others waited for the last one, if it is not later than that: as they entered,
 * or, where they only waited later, then. */
struct collective_entry {
	size_t first, last;
	uint64_t first_ns, second_ns, last_ns;
};
struct collective_entry collective_entered(const struct collectives *c,
					   const struct collective_world *w, size_t k);

/* When a rank began to wait for what it had called, as far as is known: in the call if not later.
 * DistributedDataParallel waits for no bucket of which it is known when it was done before nothing
 * is left to compute. */
static inline uint64_t collective_waits_from(const struct collectives *c,
					     const struct collective_call *call)
{
	const struct collective_bucket *b =
	    call->bucket1 && call->done_ns ? &c->buckets.all[call->bucket1 - 1] : NULL;
	uint64_t ns = call->wait_ns ? call->wait_ns : b ? b->over_ns : 0;
	return ns > call->start_ns ? ns : call->start_ns;
}

/* The call of a rank, by place; NULL: it has no more. */
static inline const struct collective_call *collective_call_of(const struct collectives *c,
							       const struct collective_world *w,
							       size_t k, size_t rank)
{
	const struct collective_calls *calls = &c->groups[w->groups[rank]].calls[NUMBERED];
	return k < calls->n ? &calls->all[k] : NULL;
}

/* buckets.c: what a Reducer's methods tell; each takes part in a call of see_event in the order of
 * the events' ends. 0 or -ENOMEM. */
bool collective_is_reducers(const struct op_desc *op);
int collectives_see_reducer(struct collectives *c, uint32_t process, const struct op_event *ev);

/* The bucket that the call sends, by index + 1; 0: none. */
uint32_t collective_bucket_sent(struct collectives *c, uint32_t process, const struct op_event *ev);

/* Add a call with a bucket to the bucket's row. 0 or -ENOMEM. */
int collective_bucket_sum(struct collectives *c, const struct collective_call *call);

void buckets_free(struct buckets *b);

/* A table, and a JSON array, of all rows with calls. 0 or -errno. */
int buckets_print(const struct collectives *c, FILE *f, const struct collectives_opts *opts);
int buckets_json(const struct collectives *c, struct json_out *j);

/* collectives_print.c: pointers to those of `n` rows, each of `size` bytes, that have calls, a
 * uint64_t with which a row begins: most calls first, then as they stand; *out of them, to be
 * freed. NULL: no memory. */
void *collectives_sort(const void *all, size_t n, size_t size, size_t *out);

/* collective_op.c: whether it counts in its group's sequence: what threw took no part. */
bool collective_is_numbered(const struct collective *what, const struct op_event *ev);

/* What it is called for: the innermost block of record_function that is open on its
 * thread, if it is of those by which fully_shard (torch/distributed/fsdp/_fully_shard, 2.13) tells
 * for which module it gathers; others' names may be others in each step. Of a DTensor's, the
 * module. */
const char *collective_purpose_of(const struct collectives *c, const struct op_event *ev);

/* works.c: waits and ends of calls. 0 or -ENOMEM. */
bool collective_is_wait(const struct op_desc *op);
int collectives_see_wait(struct collectives *c, uint32_t process, const struct op_event *ev);
int collectives_see_done(struct collectives *c, uint32_t process, const struct work_done *d);

bool collective_is_kernel(const struct activity *a);
int collectives_see_kernel(struct collectives *c, uint32_t process, const struct activity *a);

/* Once, when the calls are sorted: set their done_ns, wait_ns, waited_ns; and device_start_ns and
 * device_end_ns. */
int collectives_join_works(struct collectives *c);
void collectives_join_kernels(struct collectives *c);

/* "allreduce SUM float32", "broadcast from 1". Returns out. */
const char *collective_text(char *out, size_t size, const struct collective *w);

/* The lines about what is compared, and about clocks. */
void collectives_print_compared(const struct collectives *c, FILE *f);

/* "async": a bool, or null where it is not known. */
static inline void json_async(struct json_out *j, const struct collective *w)
{
	if (w->async >= 0)
		json_bool(j, "async", w->async);
	else
		json_nothing(j, "async");
}

/* "group_name" and "group_ranks", null where they are not known. */
static inline void collective_json_group(struct json_out *j, const struct group_desc *of)
{
	json_text(j, "group_name", of ? of->name : NULL);
	if (!of) {
		json_nothing(j, "group_ranks");
		return;
	}
	json_open(j, "group_ranks", '[');
	for (uint32_t i = 0; i < of->n; i++)
		json_i64(j, NULL, of->ranks[i]);
	json_close(j, ']');
}

/* Bytes per second. */
static inline uint64_t collective_rate(uint64_t bytes, uint64_t ns)
{
	return ns ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

/* `n`, or null where it is not known. */
static inline void json_number(struct json_out *j, const char *key, bool known, int64_t n)
{
	if (known)
		json_i64(j, key, n);
	else
		json_nothing(j, key);
}

/* What ranks do between two collectives. */

/* What a rank is named by: see skew_verdict. A call was waited for if its last rank came later than
 * the last but one by SKEW_PERCENT_MIN of the mean time between two calls, and by a part, one of
 * SKEW_USUAL, of the lead at which half of all that was waited is in longer ones. */
enum {
	SKEW_CALLS_MIN = 20,
	SKEW_DEVIATIONS = 4,
	SKEW_PERCENT_MIN = 5,
	SKEW_PERCENT_SPREAD = 15, /* the least where no line explains half of it */
};

/* Compared are calls whose last rank came later than the last but one by at most this many times
 * the lead that SKEW_CALLS_MIN reach: what is longer comes too seldom to name a rank. */
enum { SKEW_USUAL = 4 };

enum skew_kind {
	SKEW_OP,
	SKEW_GAP,  /* in no op, up to it */
	SKEW_DATA, /* the wait for data at the line that asks for it, with the ops in there */
};

/* Time at a line. */
struct skew_row {
	const struct op_desc *op;
	const struct py_frame *where; /* NULL: none */
	enum skew_kind kind;
	uint64_t *ns;	    /* of each rank, by place; and after them, how often */
	size_t most;	    /* the place of the one with most */
	uint64_t second_ns; /* the most of the others */
};

struct skew_usage {
	struct trace_usage of; /* ns: how long that is */
	bool is_wrong;	       /* counters went back */
	bool is_throttled_unknown;
};

struct skew_rank {
	uint64_t last;	   /* how often it came last */
	uint64_t usual_ns; /* by how much after the last but one, all usual calls together */
	uint64_t waited;   /* how often of the calls that were waited for, and by how much */
	struct histogram leads_ns;
	double weight;		  /* of these, each with its place by length, 1 the shortest */
	uint64_t ops_ns, gaps_ns; /* before usual calls */
	uint64_t elsewhere_ns;	  /* and in collectives of other groups */
	bool in_data;		  /* its last op was in a DataLoader */
	struct trace_usage usage; /* of its main thread, as last told; ns: 0: not yet */
	struct skew_usage used;	  /* see skew_used */
	uint64_t waits_ns;
	struct histogram late_ns; /* after the first one */
};

/* Why a thread that can run has no processor. */
enum skew_cause {
	SKEW_UNKNOWN, /* one of these */
	SKEW_OTHERS,  /* other threads run there */
	SKEW_QUOTA,   /* its control group has used up its quota */
	SKEW_BOTH,
};

struct skew_verdict {
	size_t rank;		      /* that comes last most often, by place */
	bool is_late;		      /* it is beyond chance, and matters */
	bool has_no_processor;	      /* for longer than the others, by half of that */
	bool is_named;		      /* for that, or for longer in what is its own */
	double percent;		      /* of the time the others wait for it */
	uint64_t median_ns;	      /* by which it comes last, where it is waited for */
	const struct skew_row *row;   /* in which it spends most more than the others; NULL: none */
	bool explains;		      /* at least half of what it is late */
	uint64_t more_ns;	      /* for each time that it is waited for */
	double delayed, more_delayed; /* part of the time for which its main thread has no processor
					 though it could run, and by how much that is more than
					 the others' in the mean */
	enum skew_cause cause;	      /* of that */
	double throttled; /* for how much of the time its control group had no processor time left,
			     all processors together */
};

/* Of one group. */
struct skew_group {
	const struct collectives *c;
	const struct collective_world *world;
	size_t *calls; /* numbers, from 0, of those that are compared */
	struct collective_entry *entries;
	size_t n, room, entries_room;
	size_t waited; /* usual calls for which the last rank kept the others waiting: */
	uint64_t waited_least_ns;
	double weight, weight_squares; /* of the weights of all these */
	size_t usual, unusual;	       /* see SKEW_USUAL; usual without the first call */
	uint64_t usual_most_ns;
	uint64_t span_ns; /* skew_span without the leads of the unusual */
	struct skew_rank *ranks;
	struct intern keys, strings;
	struct skew_row *rows;
	size_t nrows, rows_room;
	struct gaps gaps;
	bool is_judged; /* `verdict` is of all that was seen */
	struct skew_verdict verdict;
};

/* All groups. */
struct skew {
	const struct collectives *c;
	struct skew_group **groups; /* those with calls for which all wait */
	size_t ngroups;
	struct skew_place *places; /* by rank */
	size_t nplaces, *first; /* of each rank, by index of c->ranks, in `places`; and the end */
	size_t *rank_of;	/* by index of c->processes; SIZE_MAX: none that is compared */
};

/* A rank in a group. */
struct skew_place {
	struct skew_group *group;
	size_t place;
};

/* A group that names another rank, in which `rank`, by index of the ranks compared, waits; NULL:
 * none but `of`. */
const struct skew_group *skew_held_in(const struct skew *all, const struct skew_group *of,
				      size_t rank);

/* skew.c: NULL when out of memory. */
struct skew_group *skew_group_new(const struct collectives *c, const struct collective_world *w);
void skew_group_free(struct skew_group *s); /* NULL allowed */

/* An event of the rank at `place`. 0 or -ENOMEM. */
int skew_group_see(struct skew_group *s, size_t place, const struct op_event *ev);

/* Usage of the rank at `place`; of one thread in the order of time. */
void skew_group_see_usage(struct skew_group *s, size_t place, const struct trace_usage *u);

/* What it used before usual calls, all together; ns: how long that is, 0: not known, as where the
 * counters cannot be right. */
const struct trace_usage *skew_used(const struct skew_rank *r);

/* skew_groups.c: the group that the report begins with: one that names a rank, first of all one
 * that does not wait itself in another one, and whose ops tell why, with the most time lost; else
 * that with the most calls. NULL: none has any. */
struct skew_group *skew_first(const struct skew *s);

/* Of what was seen so far; until more is. */
const struct skew_verdict *skew_verdict(struct skew_group *s);

/* By how much more than any other rank that at `place` spends in the row, all calls together; 0:
 * not more. */
uint64_t skew_more(const struct skew_row *r, size_t place);

/* The row with the largest skew_more of those that come often; NULL: none. */
const struct skew_row *skew_most(const struct skew_group *s, size_t rank);

/* How much one clock differs from another, from what collectives say of it (clock_fit.c). */

/* On no rank a collective ends before all have started it. So what is to be added to the other
 * clock is at least the last start by the first clock minus the end by the other, and at most the
 * end by the first minus the last start by the other. ns, below CLOCK_SHIFT_MOST. */
struct clock_bound {
	uint64_t at_ns; /* by the other clock */
	int64_t low, high;
	int64_t ends; /* the end by the first minus the end by the other */
};

#define CLOCK_SHIFT_MOST (INT64_C(1) << 60)

enum { CLOCK_DRIFT_MOST = 1000 }; /* ppm: the kernel corrects a clock by 500 (adjtimex(2)) */

/* At time t of the other clock shift_ns + drift * (t - at_ns) is to be added. */
struct clock_fit {
	int64_t shift_ns;
	double drift; /* 0 where the bounds and the ends allow it */
	uint64_t at_ns;
	uint64_t known_ns;  /* at no time of the bounds is it further off, as they allow no more for
			       a drift up to CLOCK_DRIFT_MOST */
	uint64_t spread_ns; /* of half of the collectives the ends are as near as this to each other
			     */
	size_t against;	    /* bounds that it violates; they are fewer than half */
};

/* It satisfies most bounds, and is the median of `ends` where they allow that: on all ranks a
 * collective ends at about the same time. 0; -ENODATA without bounds, -ERANGE if no value satisfies
 * more than half of them, or -ENOMEM. */
int clock_fit(const struct clock_bound *bounds, size_t n, struct clock_fit *out);

#endif
