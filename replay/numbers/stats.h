/* The statistics of a tensor (struct stats, symbolizer/event/event.h) from its bytes. */
#ifndef REPLAY_NUMBERS_STATS_H
#define REPLAY_NUMBERS_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "replay/capture/source.h"
#include "symbolizer/event/event.h"

/* How: blocks of STATS_BLOCK elements in row-major order, each converted to float64; in a block the
 * mean first and then the sum of squared deviations from it, in eight lanes; blocks are put
 * together by Chan, Golub and LeVeque's formula (Updating formulae and a pairwise algorithm for
 * computing sample variances, 1979), in long double. Values of a block whose squares would leave
 * the range of a double are scaled by a power of two. The result does not depend on how the
 * elements come in. */
enum { STATS_BLOCK = 4096 };

/* Elements on their way into statistics. */
struct stats_sum;

/* Begin with elements of `dtype` (c10::ScalarType). NULL without memory or for an unknown dtype. */
struct stats_sum *stats_begin(int dtype);

/* The next `n` elements, packed; `data` needs no alignment. Of quint4x2 and quint2x4, whose
 * elements share bytes, n counts bytes. */
void stats_add(struct stats_sum *s, const void *data, size_t n);

/* Fill `out` and free `s`. */
void stats_end(struct stats_sum *s, struct stats *out);

/* The statistics of `t`, read from `src`. Tensors without gaps are read in pieces; of others all
 * that lies between the first and the last element is held in memory at once, unless that is much
 * more than the elements are. The conjugate and negative bits (source_tensor) are not applied.
 * Returns 0; -ENOTSUP with *refusal when the bytes cannot be had (extent_of); -ENOMEM; the -errno
 * of src->read. */
int stats_tensor(const struct tensor *t, const struct source *src, struct stats *out,
		 enum refusal *refusal, struct err *e);

#endif
