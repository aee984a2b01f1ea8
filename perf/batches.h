/* Means over stretches of a row's calls, in little memory, however many calls come: what a test of
 * significance takes for its observations. Calls near each other in time are alike (caches, clock,
 * neighbours), so single calls are not independent; means over long stretches nearly are. */
#ifndef PERF_BATCHES_H
#define PERF_BATCHES_H

#include <stdint.h>

enum { BATCHES_MAX = 64 };

/* Zero-initialise. */
struct batches {
	uint32_t n;	  /* batches begun */
	uint64_t size;	  /* calls in a whole one; doubled when there would be too many */
	uint64_t in_last; /* calls in the last */
	double sums[BATCHES_MAX];
};

void batches_add(struct batches *b, double value);

/* The means of the batches in the order of time; a last one that is less than half full is left
 * out, unless it is alone. Returns how many. */
uint32_t batches_means(const struct batches *b, double *out);

#endif
