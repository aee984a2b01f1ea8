/* Calls that eBPF sums up where its ring buffer has no room for a record of each: rows of a hash
 * map, by thread, op and Python stack. Shared with the eBPF programs: fixed-width types only.
 *
 * Time is divided into epochs, and a row gets calls that begin in its epoch alone. Once that is
 * over, and no thread is beginning a call in it any more (users), and none of its calls is open, a
 * row does not change: it is handed over and deleted. */
#ifndef TRACER_ENGINE_BPF_SUM_ROWS_H
#define TRACER_ENGINE_BPF_SUM_ROWS_H

#include "symbolizer/plan/plan.h"

/* As in tracer/engine/sums.h, of all threads together. */
enum {
	SUM_ROWS = 3072,
	SUM_ROWS_FULL = 1024,
	SUM_ROWS_PLAIN = 1536,
	SUM_RECORD = 3584, /* bytes of an entry, with the longest stack */
	SUM_EPOCHS = 64,   /* counters of users: a power of two */
};

struct sum_key {
	__u64 hash; /* of the items */
	__u32 tid, op, epoch;
	__u32
	    freed; /* code objects that had been freed then; 0 without a stack, which names none */
	__u32 proc;
	__u8 flags, bare, zero[2]; /* bare: without a stack */
};

struct sum_value {
	__u8 record[SUM_RECORD]; /* a struct hit and its items */
	struct sum_counts counts;
	__u64 open; /* calls that have begun and not ended */
};

#ifndef __bpf__
#include <stdbool.h>

#include "tracer/engine/sums.h"

/* The reader's side. The pointers are into the memory of the programs. */
struct sum_rows {
	int map;
	__u64 *epoch;
	const __u64 *freed_now; /* code objects that were freed */
	__u32 *users, *rows;
	bool over;	   /* no program runs any more: calls that are open remain so */
	__u64 freed;	   /* records of freed code that were handed over */
	const __u64 *sent; /* those that were sent, or are about to be */
	__u32 least;	   /* no row with a stack is of a time when less code had been freed */
	__u64 read_ns;	   /* when they were last read */
};

/* Hand over and delete the rows whose stacks may name code that was freed as that number. Returns
 * their number. */
int sum_rows_freed(struct sum_rows *s, __u32 number, sums_fn *fn, void *arg);

/* Hand over what was summed up until now, unless it may be behind code whose record of having been
 * freed is still to come. Not more often than it takes, but where `all` is said. Returns the number
 * of rows. */
int sum_rows_tick(struct sum_rows *s, bool all, sums_fn *fn, void *arg);
#endif

#endif
