/* What can be said of the numbers in a tensor without keeping them. */
#ifndef REPLAY_STATS_H
#define REPLAY_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "replay/refusal.h"
#include "replay/source.h"
#include "symbolizer/event.h"

/* The elements of a complex tensor count by their absolute value, and are NaN when one of the two
 * parts is; those of a quantized one by the integers that are stored. */
struct stats {
	uint64_t count; /* elements */
	uint64_t nan, pos_inf, neg_inf, zeros;
	double min, max; /* of all that are not NaN; NaN when there is none */
	/* Of the finite elements; NaN when there are too few of them (one for mean and l2, two for
	 * std). std is the sample's (n - 1), as Tensor.std(). l2 is the root of the sum of squares;
	 * 0 for an empty tensor. */
	double mean, std, l2;
	/* Integers and bool: min and max to the last digit (uint64 as its two's complement), which
	 * a double does not hold beyond 2^53. */
	bool is_int, is_unsigned;
	int64_t min_int, max_int;
	bool is_numeric; /* false: the dtype has no numbers that are known (bits8, int4), and only
			    count and hash say something */
	uint64_t hash; /* XXH3_64bits of the elements in row-major order, without what lies between
			  them: equal for equal elements whatever the strides */
};

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
