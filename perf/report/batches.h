/* Means of a row's calls over stretches of the trace, in little memory, however many calls come:
 * what a test of significance takes for its observations. Calls near each other in time are alike
 * (caches, clock, neighbours), so single calls are not independent; means over long stretches
 * nearly are. All rows have the same stretches: one whose calls all come in a single moment has but
 * one observation, however many they are. */
#ifndef PERF_REPORT_BATCHES_H
#define PERF_REPORT_BATCHES_H

#include <stdbool.h>
#include <stdint.h>

enum { BATCHES_MAX = 64 };

/* Zero-initialise. */
struct batches {
	uint64_t size; /* of a stretch, in events of all rows; doubled when there are too many */
	uint32_t calls[BATCHES_MAX];
	double sums[BATCHES_MAX];
};

/* at: how many events of all rows were before it. */
void batches_add(struct batches *b, uint64_t at, double value);

/* The means of the stretches that have calls, in the order of time, in a trace of so many events;
 * the last one is left out when it was less than half over, unless it is alone. Returns how many.
 */
uint32_t batches_means(const struct batches *b, uint64_t events, double *out);

#endif
