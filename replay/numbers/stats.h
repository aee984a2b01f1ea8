/* Tensor statistics (struct stats, symbolizer/event/event.h) from the bytes of a tensor. */
#ifndef REPLAY_NUMBERS_STATS_H
#define REPLAY_NUMBERS_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "replay/capture/source.h"
#include "symbolizer/event/event.h"

/* Method: blocks of STATS_BLOCK elements in row-major order, converted to float64; for each block
 * the mean and then the sum of squared deviations from it, in eight lanes; blocks are merged with
 * the formula of Chan, Golub and LeVeque (Updating formulae and a pairwise algorithm for computing
 * sample variances, 1979) in long double. Blocks whose squares would leave the range of a double
 * are scaled by a power of two. The result does not depend on how elements are split over calls. */
enum { STATS_BLOCK = 4096 };

/* Statistics being computed. */
struct stats_sum;

/* Start, for elements of `dtype` (c10::ScalarType). NULL without memory or for an unknown dtype. */
struct stats_sum *stats_begin(int dtype);

/* Add the next `n` elements, packed, of any alignment. For quint4x2 and quint2x4, whose elements
 * share bytes, n is in bytes. */
void stats_add(struct stats_sum *s, const void *data, size_t n);

/* Finish: fill `out` and free `s`. */
void stats_end(struct stats_sum *s, struct stats *out);

/* The statistics of `t`, read from `src`. Contiguous tensors are read in pieces. Of others the
 * whole span from first to last element is held in memory, unless that is much larger than the
 * elements. The conjugate and negative bits (source_tensor) are ignored. 0; -ENOTSUP with *refusal
 * if the bytes are not accessible (extent_of); -ENOMEM; the -errno of src->read. */
int stats_tensor(const struct tensor *t, const struct source *src, struct stats *out,
		 enum refusal *refusal, struct err *e);

#endif
