#include "perf/report/aggregate.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* Octave 0 holds the values below HISTOGRAM_SUB, a bucket each; octave k > 0 holds the values from
 * HISTOGRAM_SUB << (k - 1), in buckets 1 << (k - 1) wide. */
static unsigned octave_of(uint64_t value)
{
	if (value < HISTOGRAM_SUB)
		return 0;
	return 64 - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
}

static unsigned bucket_of(uint64_t value, unsigned octave)
{
	return octave ? (unsigned)(value >> (octave - 1)) - HISTOGRAM_SUB : (unsigned)value;
}

static uint64_t middle_of(unsigned octave, unsigned bucket)
{
	if (octave == 0)
		return bucket;
	uint64_t low = (uint64_t)(HISTOGRAM_SUB + bucket) << (octave - 1);
	return low + (((uint64_t)1 << (octave - 1)) - 1) / 2;
}

int histogram_add(struct histogram *h, uint64_t value)
{
	unsigned octave = octave_of(value);
	if (!h->octaves[octave]) {
		h->octaves[octave] = calloc(HISTOGRAM_SUB, sizeof(uint64_t));
		if (!h->octaves[octave])
			return -ENOMEM;
	}
	h->octaves[octave][bucket_of(value, octave)]++;
	h->count++;
	return 0;
}

void histogram_prefetch(const struct histogram *h, uint64_t value, bool second)
{
	unsigned octave = octave_of(value);
	if (!second)
		__builtin_prefetch(&h->octaves[octave], 0);
	else if (h->octaves[octave])
		__builtin_prefetch(&h->octaves[octave][bucket_of(value, octave)], 1);
}

uint64_t histogram_quantile(const struct histogram *h, double q)
{
	double exact = q * (double)h->count;
	uint64_t want = (uint64_t)exact, seen = 0;
	if ((double)want < exact || want == 0)
		want++;
	if (want > h->count)
		want = h->count;
	if (h->count == 0)
		return 0;
	for (unsigned o = 0; o < HISTOGRAM_OCTAVES; o++) {
		if (!h->octaves[o])
			continue;
		for (unsigned b = 0; b < HISTOGRAM_SUB; b++) {
			seen += h->octaves[o][b];
			if (seen >= want)
				return middle_of(o, b);
		}
	}
	return 0;
}

void histogram_spread(const struct histogram *h, uint64_t low, uint64_t high, uint64_t *counts,
		      unsigned n)
{
	double from = log((double)low + 1), width = (log((double)high + 1) - from) / n;
	for (unsigned i = 0; i < n; i++)
		counts[i] = 0;
	for (unsigned o = 0; o < HISTOGRAM_OCTAVES; o++)
		for (unsigned b = 0; h->octaves[o] && b < HISTOGRAM_SUB; b++) {
			double part = log((double)middle_of(o, b) + 1) - from;
			part = width > 0 ? part / width : 0;
			counts[part < 0		 ? 0
			       : part >= n - 1.0 ? n - 1
						 : (unsigned)part] += h->octaves[o][b];
		}
}

void histogram_free(struct histogram *h)
{
	for (unsigned o = 0; o < HISTOGRAM_OCTAVES; o++)
		free(h->octaves[o]);
	*h = (struct histogram){0};
}

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
