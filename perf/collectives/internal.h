/* Internal to perf/collectives: calls, groups, rows. */
#ifndef PERF_COLLECTIVES_INTERNAL_H
#define PERF_COLLECTIVES_INTERNAL_H

#include "base/file_names.h"
#include "base/intern.h"
#include "base/json.h"
#include "perf/collectives/collectives.h"
#include "perf/report/aggregate.h"
#include "symbolizer/target/rank.h"

#define COLLECTIVE_OPEN UINT64_MAX /* a call that had not ended */

struct collective_call {
	uint64_t start_ns;
	uint64_t ns; /* of the call itself, or COLLECTIVE_OPEN */
	uint32_t row;
	bool chosen;
};

/* In the order of their starts, once matched. */
struct collective_calls {
	struct collective_call *all;
	size_t n, room;
};

enum { NOT_NUMBERED, NUMBERED };

/* A group as one process knows it. */
struct collective_group {
	uint32_t process;   /* by index */
	uint32_t number;    /* from 0, in the order of first use in the process */
	uint64_t address;   /* 0: the group of calls whose group is not known */
	int32_t rank, size; /* -1: not known */
	struct collective_calls calls[2];
};

struct collective_process {
	int32_t pid;
	bool worker, whole;
	uint32_t groups; /* used so far */
	struct process_rank rank;
};

/* What calls of a row have in common. The frame is that of one of them. */
struct collective_row {
	struct collective what; /* group: NULL */
	uint32_t group;		/* its number */
	int32_t size;		/* -1: not known */
	bool group_known;
	const struct py_frame *where; /* NULL: no Python frame */
	uint64_t calls, max_ns;
	struct histogram ns;
	/* Of calls that were matched: how much later than the first rank the last one entered. */
	uint64_t matched;
	struct histogram spread_ns;
	uint64_t *last; /* how often each rank came last, by index of c->ranks */
};

/* A group of all ranks: the calls with one number are one collective. */
struct collective_world {
	size_t *groups; /* of each rank, by index of c->ranks, an index of c->groups */
	size_t n;	/* calls that are the same on all ranks, from the first one */
};

struct collectives {
	struct intern strings, keys;
	struct collective_process *processes;
	size_t nprocesses, processes_room;
	struct collective_group *groups;
	size_t ngroups, groups_room;
	struct collective_row *rows;
	size_t nrows, rows_room;
	uint64_t first_ns;		/* the start of the first call */
	uint64_t lost, summed, unnamed; /* unnamed: without a known group */
	bool blind;			/* recorded by an engine that does not see collectives */
	/* Set by collectives_match: the processes of the ranks that are compared, by rank; and why
	 * they are not, or where they stop to be the same. */
	size_t *ranks, nranks;
	struct collective_world *worlds;
	size_t nworlds;
	char why[512];
	char differ[512];
};

/* Collective `k` of a world: the first and the last rank to enter, by index, and when; *second_ns:
 * when the last but one did. */
struct collective_entry {
	size_t first, last;
	uint64_t first_ns, second_ns, last_ns;
};
struct collective_entry collective_entered(const struct collectives *c,
					   const struct collective_world *w, size_t k);

/* The call of a rank, by index; NULL: it has no more. */
static inline const struct collective_call *collective_call_of(const struct collectives *c,
							       const struct collective_world *w,
							       size_t k, size_t rank)
{
	const struct collective_calls *calls = &c->groups[w->groups[rank]].calls[NUMBERED];
	return k < calls->n ? &calls->all[k] : NULL;
}

/* The innermost frame of a call's own stack outside torch and what wraps its functions; NULL: none.
 */
const struct py_frame *collective_where(const struct py_stack *s);

/* "allreduce SUM float32", "broadcast from 1". Returns out. */
const char *collective_text(char *out, size_t size, const struct collective *w);

/* "async": a bool, or null where it is not known. */
static inline void json_async(struct json_out *j, const struct collective *w)
{
	if (w->async >= 0)
		json_bool(j, "async", w->async);
	else
		json_nothing(j, "async");
}

/* `n`, or null where it is not known. */
static inline void json_number(struct json_out *j, const char *key, bool known, int64_t n)
{
	if (known)
		json_i64(j, key, n);
	else
		json_nothing(j, key);
}

#endif
