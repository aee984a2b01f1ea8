#include "tracer/budget.h"

#include <string.h>

#define SECOND 1e9
#define RESERVE                                                                                    \
	(0.25 * SECOND) /* of time, the share of which is kept for those whose turn it is          \
			 */

static size_t slot_of(const void *what, const void *code, long line)
{
	uint64_t h = (uintptr_t)what * 0x9e3779b97f4a7c15;
	h = (h ^ (uintptr_t)code) * 0xc2b2ae3d27d4eb4f;
	h = (h ^ (uint64_t)line) * 0x9e3779b97f4a7c15;
	return h >> 40 & (BUDGET_CALLS - 1);
}

static struct budget_call *find(struct budget *b, const struct budget_call *key)
{
	size_t i = slot_of(key->what, key->code, key->line);
	struct budget_call *c = &b->calls[i];
	while (c->what && (c->what != key->what || c->code != key->code || c->line != key->line)) {
		i = (i + 1) & (BUDGET_CALLS - 1);
		c = &b->calls[i];
	}
	return c;
}

/* Nanoseconds that may be spent now. What was not spent in a second is lost, so that a pause is not
 * followed by as long a time of nothing but this. */
static double left(struct budget *b, uint64_t now)
{
	double most = b->share * SECOND;
	if (!b->since)
		b->since = now;
	double n = b->share * (double)(now - b->since) - b->account;
	if (n > most) {
		b->account += n - most;
		n = most;
	}
	return n;
}

/* Were all others taken since `c` was? Some may never be called again: the more time there is to
 * spare, the fewer will do. */
static bool is_turn(const struct budget *b, const struct budget_call *c, double left_ns)
{
	double others = (double)(b->ncalls - 1) * (1 - left_ns / (b->share * RESERVE));
	return (double)(b->turns - c->turn) >= others;
}

bool budget_decide(struct budget *b, const void *what, const void *code, long line, uint64_t now_ns)
{
	struct budget_call key = {what, code, line, 0};
	if (b->share <= 0)
		return true;
	double n = left(b, now_ns);
	struct budget_call *c = find(b, &key);
	bool is_new = !c->what;
	if (is_new && b->ncalls >= BUDGET_CALLS / 2) {
		static const char others;
		key = (struct budget_call){&others, NULL, 0, 0};
		c = find(b, &key);
		is_new = !c->what;
	}
	if (!is_new && (n <= 0 || !is_turn(b, c, n)))
		return false;
	if (is_new) {
		b->ncalls++;
		*c = key;
	}
	c->turn = ++b->turns;
	return true;
}

void budget_spend(struct budget *b, uint64_t ns)
{
	b->account += (double)ns;
}

void budget_begin(struct budget *b, double share)
{
	memset(b, 0, sizeof(*b));
	b->share = share < 1 ? share : 0;
}
