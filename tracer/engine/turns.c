#include "tracer/engine/turns.h"

#include <math.h>
#include <stdlib.h>

enum { PAIRS_MAX = TURNS_MAX / 2 };

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* How many of `n` ordered values may be left out at each end, so that the others span the median of
 * what they are drawn from with a probability of 95 %, however they are distributed: it is below
 * the k + 1st with the probability that at most k of n coins show heads. */
static unsigned left_out(unsigned n)
{
	double each = pow(0.5, n), below = each;
	unsigned k = 0;
	while (2 * below <= 0.05 && k < n / 2) {
		each = each * (n - k) / (k + 1);
		below += each;
		k++;
	}
	return k ? k - 1 : 0;
}

static bool is_enough(const struct turn_spent *s)
{
	return s->ops >= TURN_OPS_LEAST && s->cpu_ns > s->idle_ns;
}

static double each(const struct turn_spent *s)
{
	return (double)(s->cpu_ns - s->idle_ns) / (double)s->ops;
}

void turns_leave_out_exits(struct turn_spent *spent, unsigned n, const struct turn_programs *p)
{
	for (unsigned i = 0; i + 1 < n; i += 2) {
		struct turn_spent *off = &spent[turn_rests(i + 1) ? i : i + 1];
		const struct turn_spent *on = &spent[turn_rests(i + 1) ? i + 1 : i];
		if (!on->ops || !off->ops)
			continue;
		off->idle_ns = 0;
		const double entry = each(on) - each(off) - (p->exit - p->rest);
		const double exit = entry - p->entry + p->rest;
		off->idle_ns = exit > 0 ? (uint64_t)(exit * (double)off->ops) : 0;
	}
}

struct turns_found turns_compare(const struct turn_spent *spent, unsigned n)
{
	double more[PAIRS_MAX];
	unsigned pairs = 0;
	for (unsigned i = 0; i + 1 < n && i + 1 < TURNS_MAX; i += 2) {
		const bool first = turn_rests(i + 1);
		const struct turn_spent *off = &spent[first ? i : i + 1];
		const struct turn_spent *on = &spent[first ? i + 1 : i];
		if (is_enough(on) && is_enough(off))
			more[pairs++] = each(on) / each(off) - 1;
	}
	if (pairs < PAIRS_LEAST)
		return (struct turns_found){0};
	qsort(more, pairs, sizeof(*more), by_value);
	const unsigned out = left_out(pairs);
	return (struct turns_found){
	    .slowdown = (more[(pairs - 1) / 2] + more[pairs / 2]) / 2,
	    .error = (more[pairs - 1 - out] - more[out]) / 2,
	    .turns = 2 * pairs,
	};
}
