#include "tracer/shim/shim.h"

#include <string.h>

#define SECOND 1e9
#define FIRST (10e-3 * SECOND) /* least cost assumed for the first call at a place */
#define FORGOTTEN 0.9	       /* decay of `dearest` with each call taken */
/* A surplus of budget, relative to its share of this much time, relaxes the turns. */
#define RESERVE (0.25 * SECOND)

static size_t budget_slot(const void *what, uint64_t place)
{
	uint64_t h = (uintptr_t)what * 0x9e3779b97f4a7c15;
	h = (h ^ place) * 0xc2b2ae3d27d4eb4f;
	h = (h ^ h >> 32) * 0x9e3779b97f4a7c15;
	return h >> 40 & (BUDGET_CALLS - 1);
}

static struct budget_call *budget_find_call(struct budget *b, const struct budget_call *key)
{
	size_t i = budget_slot(key->what, key->place);
	struct budget_call *c = &b->calls[i];
	while (c->what && (c->what != key->what || c->place != key->place)) {
		i = (i + 1) & (BUDGET_CALLS - 1);
		c = &b->calls[i];
	}
	return c;
}

static double mean(double sum, uint64_t n, double otherwise)
{
	return n && sum > 0 ? sum / (double)n : otherwise;
}

/* Mean nanoseconds that a call takes; below, that its backward takes. */
static double forward(const struct budget *b, const struct budget_call *c)
{
	double others = mean(b->spent, b->taken, 0);
	return mean(c->forward, c->taken, others > FIRST ? others : FIRST);
}

static double backward(const struct budget *b, const struct budget_call *c)
{
	return mean(c->backward, c->judged, forward(b, c));
}

/* Expected cost, ns, of the next call, weighted by how often such calls have a backward. */
static double expected(const struct budget *b, const struct budget_call *c)
{
	double share = c->taken ? (double)(c->judged + c->coming) / (double)c->taken : 0;
	return forward(b, c) + share * backward(b, c);
}

static void reserve(struct budget *b, struct budget_call *c)
{
	b->reserved -= c->reserved;
	c->reserved = c->coming ? (double)c->coming * backward(b, c) : 0;
	b->reserved += c->reserved;
}

/* Nanoseconds that may be spent now. At most one second's share can be saved up, plus what the
 * dearest call takes, so that a pause is not followed by a long burst of nothing but this. */
static double left(struct budget *b, uint64_t now)
{
	double most = b->share * SECOND + b->dearest;
	if (!b->since)
		b->since = now;
	double n = b->share * (double)(now - b->since) - b->account - b->reserved;
	if (n > most) {
		b->account += n - most;
		n = most;
	}
	return n;
}

/* Whether all others were taken since `c` was. Some may never be called again, so the more is left
 * beyond the cost of the dearest, the fewer others are required. */
static bool is_turn(const struct budget *b, const struct budget_call *c, double left_ns)
{
	double spare = left_ns > b->dearest ? (left_ns - b->dearest) / (b->share * RESERVE) : 0;
	double others = (double)(b->ncalls - 1) * (1 - spare);
	return !c->turn || (double)(b->turns - c->turn) >= others;
}

/* The slot of the call, made if it is new; calls that are not taken wait for their turn there, too.
 */
static struct budget_call *known(struct budget *b, const void *what, uint64_t place)
{
	static const char others;
	struct budget_call key = {.what = what, .place = place}, *c = budget_find_call(b, &key);
	if (!c->what && b->ncalls >= BUDGET_CALLS / 2) {
		key = (struct budget_call){.what = &others};
		c = budget_find_call(b, &key);
	}
	if (!c->what) {
		b->ncalls++;
		*c = key;
	}
	return c;
}

uint64_t budget_decide(struct budget *b, const void *what, uint64_t place, uint64_t now_ns)
{
	if (b->share <= 0)
		return b->begun * BUDGET_CALLS;
	struct budget_call *c = known(b, what, place);
	double n = left(b, now_ns), needs = expected(b, c);
	if (needs > b->dearest)
		b->dearest = needs;
	if (n < needs || !is_turn(b, c, n))
		return 0;
	b->dearest *= FORGOTTEN;
	c->turn = ++b->turns;
	c->taken++;
	b->taken++;
	return b->begun * BUDGET_CALLS + (uint64_t)(c - b->calls);
}

static struct budget_call *numbered(struct budget *b, uint64_t number)
{
	bool good = b->share > 0 && number && number / BUDGET_CALLS == b->begun;
	return good ? &b->calls[number % BUDGET_CALLS] : NULL;
}

void budget_spend(struct budget *b, uint64_t number, bool of_backward, uint64_t ns)
{
	struct budget_call *c = numbered(b, number);
	b->account += (double)ns;
	b->spent += (double)ns;
	if (!c)
		return;
	*(of_backward ? &c->backward : &c->forward) += (double)ns;
	reserve(b, c);
}

void budget_await(struct budget *b, uint64_t number)
{
	struct budget_call *c = numbered(b, number);
	if (!c)
		return;
	c->coming++;
	reserve(b, c);
}

void budget_came(struct budget *b, uint64_t number, bool judged)
{
	struct budget_call *c = numbered(b, number);
	if (!c || !c->coming)
		return;
	c->coming--;
	c->judged += judged;
	reserve(b, c);
}

void budget_begin(struct budget *b, double share)
{
	uint64_t begun = b->begun + 1;
	memset(b, 0, sizeof(*b));
	b->share = share < 1 ? share : 0;
	b->begun = begun;
}
