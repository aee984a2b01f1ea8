#include "perf/batches.h"

static void join(struct batches *b)
{
	for (uint32_t i = 0; i < BATCHES_MAX / 2; i++)
		b->sums[i] = b->sums[2 * i] + b->sums[2 * i + 1];
	b->n = BATCHES_MAX / 2;
	b->size *= 2;
	b->in_last = b->size;
}

void batches_add(struct batches *b, double value)
{
	if (!b->size)
		b->size = 1;
	if (b->n == BATCHES_MAX && b->in_last == b->size)
		join(b);
	if (b->n == 0 || b->in_last == b->size) {
		b->sums[b->n++] = 0;
		b->in_last = 0;
	}
	b->sums[b->n - 1] += value;
	b->in_last++;
}

uint32_t batches_means(const struct batches *b, double *out)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < b->n; i++) {
		uint64_t calls = i + 1 < b->n ? b->size : b->in_last;
		if (n && 2 * calls < b->size)
			break;
		out[n++] = b->sums[i] / (double)calls;
	}
	return n;
}
