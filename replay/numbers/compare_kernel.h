/* The loops that compare: a block of numbers into sums. Part of compare. */
#ifndef REPLAY_NUMBERS_COMPARE_KERNEL_H
#define REPLAY_NUMBERS_COMPARE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "replay/numbers/compare.h"

enum { COMPARE_BLOCK = 1024 }; /* elements: three arrays of doubles stay in the first-level cache */

/* What the loops need to know, the same for all blocks. */
struct compare_units {
	double atol, rtol, roundoff, floor;
	uint64_t emin_bits; /* the smallest normal number of the dtype, as the bits of a double */
	double to_ulp;	    /* 2^(digits - 1) of the dtype, 0: integers */
	bool sums_only;	    /* of compare_params */
};

/* A block of `n` <= COMPARE_BLOCK numbers in arrays of COMPARE_BLOCK, which are changed: NaN and
 * infinities are counted and then made zero. `k` may be NULL. `at` is the index of the first one.
 * Adds to *s. */
void compare_block(double *a, double *b, const double *k, size_t n, uint64_t at,
		   const struct compare_units *u, struct compare_stats *s);

/* The same for integers, which are not changed; they are uint64_t when `is_unsigned`. */
void compare_block_int(const int64_t *a, const int64_t *b, bool is_unsigned, size_t n, uint64_t at,
		       const struct compare_units *u, struct compare_stats *s);

/* The mean of the squares of those of `n` numbers that are finite; 0 where none is. */
double compare_mean_square(const double *v, size_t n);

#endif
