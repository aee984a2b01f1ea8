#include "perf/report/aggregate.h"

static void join(struct batches *b)
{
	for (uint32_t i = 0; i < BATCHES_MAX; i++) {
		uint32_t from = 2 * i;
		bool has = from < BATCHES_MAX;
		b->calls[i] = has ? b->calls[from] + b->calls[from + 1] : 0;
		b->sums[i] = has ? b->sums[from] + b->sums[from + 1] : 0;
	}
	b->size *= 2;
}

/* Double the size of the stretches until BATCHES_MAX of them hold `events`. */
static void grow(struct batches *b, uint64_t events)
{
	if (!b->size)
		b->size = 1;
	while (events > b->size * BATCHES_MAX)
		join(b);
}

void batches_add(struct batches *b, uint64_t at, double value)
{
	grow(b, at + 1);
	b->calls[at / b->size]++;
	b->sums[at / b->size] += value;
}

uint32_t batches_means(const struct batches *b, uint64_t events, double *out)
{
	struct batches all = *b;
	uint32_t n = 0;
	grow(&all, events);
	for (uint32_t i = 0; i < BATCHES_MAX; i++) {
		bool is_short = i * all.size + all.size / 2 >= events;
		if (all.calls[i] && !(n && is_short))
			out[n++] = all.sums[i] / all.calls[i];
	}
	return n;
}
