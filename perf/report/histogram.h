/* A histogram of durations whose buckets grow with the value: quantiles to about 3 % in little
 * memory. */
#ifndef PERF_REPORT_HISTOGRAM_H
#define PERF_REPORT_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum {
	HISTOGRAM_SUB_BITS = 5, /* 32 buckets for each power of two: 3.1 % wide */
	HISTOGRAM_SUB = 1 << HISTOGRAM_SUB_BITS,
	HISTOGRAM_OCTAVES = 64 - HISTOGRAM_SUB_BITS + 1,
};

/* Zero-initialise. Memory comes with the first value of each power of two. */
struct histogram {
	uint64_t count;
	uint64_t *octaves[HISTOGRAM_OCTAVES]; /* HISTOGRAM_SUB counts each, NULL: none */
};

/* 0 or -ENOMEM. */
int histogram_add(struct histogram *h, uint64_t value);

/* Fetches into the processor's cache what histogram_add of the value will need: first where its
 * count is found, and with `second`, a while later, the count. */
void histogram_prefetch(const struct histogram *h, uint64_t value, bool second);

/* The value below or at which the share q (0..1) of all lies: the middle of its bucket. 0 when
 * empty. */
uint64_t histogram_quantile(const struct histogram *h, double q);

/* How many values lie in each of `n` parts of low..high (with both ends), whose bounds grow by
 * equal ratios; a value counts as the middle of its bucket, and those outside with the first or
 * last part.
 */
void histogram_spread(const struct histogram *h, uint64_t low, uint64_t high, uint64_t *counts,
		      unsigned n);

void histogram_free(struct histogram *h);

#endif
