#include "tracer/stack/stack_snapshot.h"

#include <string.h>

static const struct stack_snapshot_thread *thread_of(const struct stack_snapshot *l, pid_t tid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->threads[i].facts.tid == tid)
			return &l->threads[i];
	return NULL;
}

/* The same place, and no time spent but what being looked at takes. */
static bool same_place(const struct stack_snapshot_thread *a, const struct stack_snapshot_thread *b)
{
	enum { LOOKED_AT_NS = 2000000 };
	return a->npairs == b->npairs && a->python_read == b->python_read &&
	       (!a->npairs || !memcmp(a->pairs, b->pairs, a->npairs * sizeof(*a->pairs))) &&
	       a->pc == b->pc && a->sp == b->sp && a->facts.run_ns - b->facts.run_ns < LOOKED_AT_NS;
}

void stack_snapshot_compare(struct stack_snapshot *now, const struct stack_snapshot *before,
			    bool second)
{
	for (size_t i = 0; i < now->n; i++) {
		struct stack_snapshot_thread *x = &now->threads[i];
		const struct stack_snapshot_thread *was = thread_of(before, x->facts.tid);
		x->still = was && (was->still || second) && same_place(x, was);
	}
}
