/* Collectives of torch.distributed: its dispatched operators c10d::* as calls of their own,
 * numbered on each rank, and compared over the ranks. */
#ifndef PERF_COLLECTIVES_COLLECTIVES_H
#define PERF_COLLECTIVES_COLLECTIVES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/text.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/event/event.h"

/* What one call is. */
struct collective {
	const char *name;   /* "allreduce", "send": a static string */
	bool in_sequence;   /* all ranks of the group call it, as their n-th; not send and recv */
	bool waits_for_all; /* on no rank it is done before all have called it */
	const char *reduce_op;	   /* "SUM", a static string; NULL: none, or not known */
	const struct value *group; /* a VALUE_GROUP, the event's; NULL: not known */
	const char *backend;	   /* "gloo"; NULL: not known */
	uint64_t work;		   /* address of the Work that it returned; 0: not known */
	int64_t root; /* by its place in the group; of send and recv: the other rank; -1: none, or
			 not known */
	int64_t
	    root_rank; /* the same as a rank of all; by its place where the group is not known */
	int async; /* 1: the caller does not wait in the same call of Python; 0: it does; -1: not
		      known, as in 1.13 */
	/* Of the tensors that a rank gives; of scatter and reduce_scatter: that it gets. */
	bool has_bytes;
	uint64_t bytes;
	int dtype;    /* -1: none, several, or not known */
	bool on_host; /* none of these is on a device */
};

/* Whether the event is a collective; then *out, which borrows from it. */
bool collective_of(const struct op_event *ev, struct collective *out);

/* The innermost frame of a call's own stack outside torch and what wraps its functions; NULL: none.
 */
const struct py_frame *collective_where(const struct py_stack *s);

/* All collectives of a trace: 88 bytes for each call, and as many for its end and its wait. */
struct collectives;

struct collectives *collectives_new(void);
void collectives_free(struct collectives *c); /* NULL allowed */

/* Take an item; all of the trace must come, in the order in which they were recorded. Frames of
 * events are kept, not copied. 0 or -ENOMEM. */
int collectives_see(struct collectives *c, const struct trace_item *item);

/* Once, after the last item: number the calls, and match those of all ranks. 0 or -ENOMEM. */
int collectives_match(struct collectives *c);

/* Find how the clocks of several hosts differ by what their ranks' collectives say: a
 * trace_clocks_fn. */
int collectives_align(const struct trace_clock_file *files, size_t nfiles,
		      struct trace_clock *clocks, size_t n);

/* Count only events given to collectives_choose. Without these calls all are counted. */
void collectives_choose_none(struct collectives *c);
void collectives_choose(struct collectives *c, const struct op_event *ev);

/* Sum up what is counted, after the last of these calls. 0 or -ENOMEM. */
int collectives_sum(struct collectives *c);

/* The call's group, numbered from 0 in the order of their first use in the process, and its number
 * in it, from 1. False: it is no collective, not numbered, or its group is not known. */
bool collectives_number(const struct collectives *c, const struct op_event *ev, unsigned *group,
			uint64_t *number);

/* When it was done, 0: not known; and how long the program waited for it, *waited: whether that is
 * known. */
uint64_t collectives_done(const struct collectives *c, const struct op_event *ev, bool *waited,
			  uint64_t *waited_ns);

/* The number of DistributedDataParallel's bucket that it sent; -1: none, or not known. */
int64_t collectives_bucket(const struct collectives *c, const struct op_event *ev);

/* What fully_shard or a DTensor calls it for: "FSDP::all_gather (blocks.0)", or the module; NULL:
 * none, or not known. */
const char *collectives_purpose(const struct collectives *c, const struct op_event *ev);

/* A collective on a line: time since the first of all, rank, "0.12": the twelfth of group 0, what
 * it is, bytes, duration of the call, time until it was done, time waited, line; or a JSON object
 * with these. Of other events nothing.
 */
void collective_print(const struct collectives *c, FILE *f, const struct op_event *ev);
void collective_json(const struct collectives *c, FILE *f, const struct op_event *ev);

/* Print a row for each kind, group, size and line; and why ranks are not compared, where they are
 * not. 0, -ENOMEM or -EIO. */
struct collectives_opts {
	size_t limit; /* rows; 0: all */
	struct terminal terminal;
};
int collectives_print(const struct collectives *c, FILE *f, const struct collectives_opts *opts);
int collectives_print_json(const struct collectives *c, FILE *f);
int collectives_print_csv(const struct collectives *c, FILE *f);

/* Which rank the others wait for, and what it does meanwhile. */

struct skew;

/* `c` was matched, and must outlive it. */
struct skew *skew_new(const struct collectives *c);
void skew_free(struct skew *s); /* NULL allowed */

/* Take an event, in the order in which they were recorded. 0 or -ENOMEM. */
int skew_see(struct skew *s, const struct op_event *ev);

/* And what its main thread got of processors; rank1: its rank + 1, 0: not known. */
void skew_see_usage(struct skew *s, const struct trace_usage *u, uint32_t rank1);

/* A sentence and a table by rank. 0, -ENOMEM or -EIO. */
int skew_print(const struct skew *s, FILE *f, const struct terminal *t);
int skew_print_json(const struct skew *s, FILE *f);

#endif
