#include "tracer/stack/look.h"

#include <string.h>

static const struct look_thread *thread_of(const struct look *l, pid_t tid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->threads[i].facts.tid == tid)
			return &l->threads[i];
	return NULL;
}

/* The same place, and no time spent but what being looked at takes. */
static bool same_place(const struct look_thread *a, const struct look_thread *b)
{
	enum { LOOKED_AT_NS = 2000000 };
	return a->npairs == b->npairs && a->python_read == b->python_read &&
	       (!a->npairs || !memcmp(a->pairs, b->pairs, a->npairs * sizeof(*a->pairs))) &&
	       a->pc == b->pc && a->sp == b->sp && a->facts.run_ns - b->facts.run_ns < LOOKED_AT_NS;
}

void look_compare(struct look *now, const struct look *before, bool second)
{
	for (size_t i = 0; i < now->n; i++) {
		struct look_thread *x = &now->threads[i];
		const struct look_thread *was = thread_of(before, x->facts.tid);
		x->still = was && (was->still || second) && same_place(x, was);
	}
}
