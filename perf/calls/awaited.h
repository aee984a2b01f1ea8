/* What is known of calls before they are added, which is when they end: what devices did, and what
 * was done with memory. */
#ifndef PERF_CALLS_AWAITED_H
#define PERF_CALLS_AWAITED_H

#include "base/map.h"
#include "perf/calls/call_tree.h"
#include "symbolizer/event/event.h"

struct awaited_call {
	struct op_event of; /* what it points to is valid as long as the trace is open */
	bool came;
	uint64_t activities, ns;
	struct call_memory memory[MEMORY_KINDS];
};

/* Zero-initialise. */
struct awaited {
	struct map ids; /* index in `calls` */
	struct awaited_call *calls;
	size_t n, room;
};

/* The call, which need not be awaited yet, until the next one is. 0, -ENOMEM, or -ENOSPC: no more
 * can be awaited. */
int awaited_at(struct awaited *a, const struct op_event *of, struct awaited_call **out);

/* The call comes: what is known of it, NULL if that is nothing. */
const struct awaited_call *awaited_take(struct awaited *a, uint64_t id);

/* None is awaited any more. */
void awaited_clear(struct awaited *a);
void awaited_free(struct awaited *a);

#endif
