/* Declarations shared by the files of this folder. */
#ifndef TRACER_DEVICE_INTERNAL_H
#define TRACER_DEVICE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "symbolizer/event/event.h"
#include "tracer/device/launches.h"
#include "tracer/engine/engine.h"

/* op_history.c: a few stretches of time; where there are too many, the oldest become one. */

enum { SPANS_MOST = 64 };

struct span {
	uint64_t from, to; /* from <= t < to */
};

/* Zero-initialise. Sorted, disjoint. */
struct spans {
	struct span at[SPANS_MOST];
	unsigned n;
};

void spans_add(struct spans *s, uint64_t from, uint64_t to);

/* The one with `t`; NULL: none. */
const struct span *spans_find(const struct spans *s, uint64_t t);

/* The last recorded ops of a thread. */

/* What an activity has of its op. */
struct launch_op {
	const struct op_desc *op; /* NULL: none */
	const struct py_stack *stack, *where_stack, *backward_of;
	uint64_t id;
	uint8_t phase;
};

static inline void launch_op_to(const struct launch_op *op, struct op_event *of)
{
	of->op = op->op;
	of->id = op->id;
	of->stack = op->stack;
	of->where_stack = op->where_stack;
	of->backward_of = op->backward_of;
	of->phase = op->phase;
}

struct past_op {
	uint64_t start_ns, end_ns;
	struct launch_op op; /* its op NULL: it ended some time before end_ns */
	uint32_t up;	     /* the op around it comes so many later; 0: it has not ended */
	uint32_t below;	     /* so many right before it are within it, or began after it */
};

struct op_history {
	struct past_op *ring;
	uint32_t room;	     /* a power of two, or 0 */
	uint64_t next, kept; /* numbers of the next op, and of the oldest that is still there */
	/* All ops that ended after it are there: what encloses a later time, or this one. */
	uint64_t known_from;
	uint64_t last_end;
	bool met; /* an op was added */
	/* Starts, the first and the last, of ops of whose ends nothing is known yet; 0: none. */
	uint64_t endless_from, endless_last;
	uint64_t unsure_to; /* not all ops that ended before were kept, not even for a moment */
	struct spans summed;
};

/* Nothing is known of ops that ended before `from_ns`. */
void op_history_begin(struct op_history *h, uint64_t from_ns);

/* The next op of the thread has ended. Those that it adds have numbers up to h->next. */
void op_history_add(struct op_history *h, const struct op_event *ev);

const struct past_op *op_history_at(const struct op_history *h, uint64_t number);

/* How a launch at `t` is to be told that was in none of the ops that ended since it came, and of
 * those before, when no more come that began before it. */
enum activity_launch op_history_judge(const struct op_history *h, uint64_t t);

/* Find the innermost op that has ended and encloses `t`. False: none does; one that has not ended
 * yet may, if `t` is at or after known_from. */
bool op_history_find(const struct op_history *h, uint64_t t, enum activity_launch *launch,
		     struct launch_op *op);

void op_history_free(struct op_history *h);

/* launches_index.c: the launches of a process by correlation, and what came of those that are not
 * settled. */

#define NO_LAUNCH UINT32_MAX

enum launch_state {
	LAUNCH_AWAITED, /* only what came of it has come */
	LAUNCH_WAITS,	/* for an op that encloses it to end */
	LAUNCH_SETTLED,
};

/* What came of a launch that is not settled. */
struct ran {
	uint64_t start_ns, end_ns, bytes;
	const char *name;
	uint32_t stream, next;
	uint8_t kind;
	int8_t device_type, device_index;
	bool in_graph;
};

struct launch {
	uint64_t ns;
	uint64_t stamp; /* when it came, in the time of struct launch_process */
	uint64_t used;	/* when a graph's last activity came, in the same; 0: never */
	struct launch_op op;
	int32_t tid;
	uint32_t correlation;
	uint32_t same;		 /* the next one in the same place of the index */
	uint32_t ran, last_ran;	 /* first and last of what came of it */
	uint32_t before, behind; /* in the list of its state, while it has such */
	uint8_t state;		 /* enum launch_state */
	uint8_t launch;		 /* enum activity_launch, once settled */
};

struct launch_list {
	uint32_t first, last;
};

struct correlations {
	struct launch *launch; /* the oldest is replaced once there are `most` */
	uint32_t n, room, oldest;
	uint32_t *place; /* index by correlation, twice the room */
	struct ran *ran;
	size_t ran_room;
	uint32_t nran, free_ran;
	struct launch_list lists[LAUNCH_SETTLED]; /* those with activities that wait, oldest first
						   */
};

void correlations_begin(struct correlations *c);

/* Its number, or NO_LAUNCH. */
uint32_t correlations_find(const struct correlations *c, uint32_t correlation);

enum { LAUNCHES_MOST = 1 << 19, RANS_MOST = 1 << 19 };

/* The number of the one to be replaced by the next that is added; NO_LAUNCH: none. Those of graphs
 * that were used after `used` are spared, if it is not all of them. */
uint32_t correlations_oldest(struct correlations *c, uint64_t used);

/* Add one in state LAUNCH_AWAITED, in the place of the oldest if there is no room. Its number;
 * NO_LAUNCH when out of memory. */
uint32_t correlations_add(struct correlations *c, uint32_t correlation, uint64_t stamp);

/* Keep an activity until its launch is settled. False: there is no room. */
bool correlations_keep(struct correlations *c, uint32_t launch, const struct activity *a);

/* Take the next activity that was kept for it, but for its process and its launch. False: there is
 * none. */
bool correlations_take(struct correlations *c, uint32_t launch, struct activity *a);

/* Change its state, which has it at the end of the new one's list if activities wait. */
void correlations_set(struct correlations *c, uint32_t launch, enum launch_state state);

void correlations_free(struct correlations *c);

/* launches_memory.c: the blocks of a process's memory, of the CPU: how much is freed is known from
 * what was allocated there. */

/* Zero-initialise. */
struct blocks {
	struct block_table table; /* by address; tag: when it was allocated */
	uint64_t total;		  /* bytes that are allocated */
};

/* A block is allocated: sets m->total. True: there was one already, so that a record was missed:
 * *before is that it was freed. */
bool blocks_allocated(struct blocks *b, struct memory_event *m, struct memory_event *before);

/* It is freed: sets m->bytes (0: not known) and m->total. False: blocks_allocated has told that. */
bool blocks_freed(struct blocks *b, struct memory_event *m);

void blocks_free(struct blocks *b);

/* launches_index.c: the launches of a thread that no op was found for yet, by time. */

struct waiting_launch {
	uint64_t ns;
	uint32_t launch; /* NO_LAUNCH: it waits no more */
};

/* Zero-initialise; free `at`. */
struct waiting {
	struct waiting_launch *at; /* in [first, n) */
	size_t room, first, n;
	size_t live; /* those that do wait */
	bool unsorted;
};

/* False: no memory. */
bool waiting_add(struct waiting *w, uint64_t ns, uint32_t launch);

/* Index of the first at or after `ns`. */
size_t waiting_from(struct waiting *w, uint64_t ns);

/* The one at that index waits no more; its launch, or NO_LAUNCH. */
uint32_t waiting_take(struct waiting *w, size_t i);

/* As waiting_take, for one that is known. */
void waiting_drop(struct waiting *w, uint64_t ns, uint32_t launch);

/* Call it after taking: forget those that were taken; of those that wait, the first is `first`. */
void waiting_trim(struct waiting *w);

/* launches.c, launches_records.c, launches_memory.c */

enum { LAUNCH_THREADS_MOST = 256 };

/* How long (ns) a graph is remembered that was not launched again, of struct launches' time. */
#define LAUNCH_GRAPH_NS (10 * 1000000000ULL)

struct launch_thread {
	int32_t tid;
	uint64_t used;
	struct op_history ops;
	struct waiting waiting, memory; /* memory: places in `held` of the process */
};

/* What was done with memory in an op that has not ended. */
struct held_memory {
	struct memory_event m;
	uint64_t stamp; /* as of a launch */
	uint32_t next;	/* free place */
};

struct launch_process {
	int32_t pid;
	uint64_t since;	    /* ops that ended before may be unknown of threads that are not there */
	uint64_t sure_from; /* before, it may have been in ops that are not known */
	bool is_begun;	    /* launches_begin, and there was no record yet */
	struct launch_thread *threads[LAUNCH_THREADS_MOST];
	unsigned nthreads;
	uint8_t near[LAUNCH_THREADS_MOST]; /* by tid: where its thread may be */
	struct spans lost;
	struct correlations launches;
	struct map names; /* of kernels, by number: index of `name` */
	const char **name;
	size_t nnames, names_room;
	struct blocks blocks;
	struct held_memory *held;
	size_t held_room;
	uint32_t nheld, free_held; /* free_held: a place + 1, 0: none */
};

struct launches {
	launches_fn *fn;
	launches_open_fn *open;
	launches_memory_fn *on_memory; /* NULL: nobody is told */
	void *arg;
	struct launch_process **procs;
	size_t nprocs, procs_room;
	struct intern names;		   /* of what devices did */
	uint64_t now, told, clock, ticked; /* told: the last launches_tick */
};

/* The thread, made at need and then without memory NULL; one that is there already. */
struct launch_thread *launches_thread(struct launches *l, struct launch_process *p, int32_t tid);
struct launch_thread *launches_thread_find(struct launch_process *p, int32_t tid);

/* What is to be said of `ns`, in none of the thread's ops, now that no more will come. */
enum activity_launch launches_judge_none(const struct launch_process *p,
					 const struct launch_thread *t, uint64_t ns);

/* Drop what came of a launch. */
void launches_forget(struct launch_process *p, uint32_t launch);

/* It is known what the launch was in: pass on what came of it. */
void launches_settle(struct launches *l, struct launch_process *p, uint32_t launch,
		     enum activity_launch as);

/* Records of these kinds. */
void launches_on_launch(struct launches *l, struct launch_process *p,
			const struct activity_record *r);
void launches_on_ran(struct launches *l, struct launch_process *p, const struct activity_record *r);
void launches_on_name(struct launches *l, struct launch_process *p,
		      const struct activity_record *r);
void launches_memory_record(struct launches *l, struct launch_process *p,
			    const struct activity_record *r);

/* Pass on what was done with memory in an op that has ended now; before `until`, of what came
 * before `sure` and is in no op that will come; all that is left. */
void launches_memory_within(struct launches *l, struct launch_process *p, struct waiting *w,
			    const struct past_op *op);
void launches_memory_before(struct launches *l, struct launch_process *p, struct launch_thread *t,
			    uint64_t until, uint64_t sure);
void launches_memory_rest(struct launches *l, struct launch_process *p, struct launch_thread *t);

#endif
