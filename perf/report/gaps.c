#include "perf/report/aggregate.h"

#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"

int gaps_see(struct gaps *g, const struct op_event *ev, struct op_event *gap)
{
	static const struct op_desc none = {.name = "(in no op)", .schema = ""};
	int32_t key[2] = {ev->pid, ev->tid};
	bool is_new;
	if (ev->depth)
		return 0;
	int64_t id = intern(&g->threads, key, sizeof(key), &is_new);
	if (id < 0 || array_grow(&g->ends, &g->room, (size_t)id + 1, sizeof(*g->ends)))
		return -ENOMEM;
	uint64_t before = is_new ? UINT64_MAX : g->ends[id];
	/* A mark is no op, but divides the time in none; as if the ops that it calls came first. */
	g->ends[id] = op_mark(ev->op) ? ev->start_ns + ev->child_ns
		      : ev->end_ns    ? ev->end_ns
				      : UINT64_MAX;
	if (before >= ev->start_ns)
		return 0;
	*gap = (struct op_event){.id = ev->id,
				 .start_ns = before,
				 .end_ns = ev->start_ns,
				 .op = &none,
				 .stack = ev->stack,
				 .where_stack = ev->stack,
				 .pid = ev->pid,
				 .tid = ev->tid,
				 .phase = ev->phase};
	return 1;
}

void gaps_free(struct gaps *g)
{
	intern_free(&g->threads);
	free(g->ends);
}
