/* How two tensors differ: every figure from one pass over both, for all dtypes and strides. */
#ifndef REPLAY_NUMBERS_COMPARE_H
#define REPLAY_NUMBERS_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { COMPARE_DIMS = 64 }; /* at::kDimVectorStaticSize is 5, TensorIterator's limit 64 */

/* Numbers in memory of this process. Nothing is owned. */
struct compare_tensor {
	const void *data; /* the first element; no alignment needed */
	int dtype;	  /* c10::ScalarType (symbolizer/event/names.h) */
	int ndim;
	const int64_t *shape;
	const int64_t *stride; /* in elements, any sign; NULL: contiguous */
};

/* What the figures are measured against. Zero-initialised: closeness means equality, and the unit
 * of an error is one unit roundoff of the dtype of `a`. */
struct compare_params {
	double atol, rtol; /* of torch.allclose(a, b, atol, rtol, equal_nan=True) */
	/* The unit of the error at element i is roundoff * |b[i]| + allowance[i] + floor. */
	double roundoff;	 /* 0: compare_roundoff(a->dtype) */
	const double *allowance; /* contiguous, one an element (two, when complex); NULL: none */
	double floor;		 /* at least half the smallest number of a->dtype is taken */
	unsigned threads;	 /* at most so many; 0: one for each CPU of this process */
	/* max_abs, max_rel, ulp, dot, aa, bb, and every index and value at one may be left out */
	bool sums_only;
};

/* The parts of complex numbers count as two elements. `b` is the reference. */
struct compare_stats {
	uint64_t n;
	uint64_t unequal;   /* NaN equals NaN, 0 equals -0 */
	uint64_t not_close; /* not |a - b| <= atol + rtol |b| */
	uint64_t nan_wrong; /* NaN on one side only */
	uint64_t inf_wrong; /* infinite on one side only, or of the other sign */
	uint64_t finite;    /* finite on both sides: what follows is of these */
	double max_abs;	    /* |a - b| */
	double max_rel;	    /* |a - b| / (|a| + 1e-6), ditorch's */
	double ulp;	    /* |a - b| in spacings of the dtype of `a` at b; 0 for integers */
	double dot, aa, bb; /* sums of a b, a a, b b */
	/* Of e = (a - b) / unit: */
	double worst;	  /* |e| */
	double sum, sum2; /* of e, of e e */
	double along;	  /* sum of e, its sign turned where b is negative */
	/* Row-major indices; UINT64_MAX when there is none. Where tensors do not lie row-major,
	 * "first" is in the order of the memory. */
	uint64_t first_unequal, first_wrong; /* wrong: of NaN and infinities */
	uint64_t max_abs_at, worst_at;
	double a_at_worst, b_at_worst; /* the values there; of first_wrong, when that is there */
};

/* Compare. Both must have the same shape; dtypes may differ, then both are compared as float64.
 * Integers of 64 bits are compared exactly, and `max_abs` is their exact distance, rounded once.
 * The result does not depend on the number of threads. Returns 0; -EINVAL: shapes differ, or a
 * shape or a number of dimensions that cannot be; -ENOTSUP: a dtype without numbers; -ENOMEM. */
int compare_tensors(const struct compare_tensor *a, const struct compare_tensor *b,
		    const struct compare_params *p, struct compare_stats *out, struct err *e);

/* Cosine of the angle between a and b; 1 when both are zero or empty, 0 when one is; NaN when
 * something is not finite on one side only. */
double compare_cosine(const struct compare_stats *s);

/* max_abs, or NaN, or infinity where NaNs or infinities do not match: never a number that hides
 * them. */
double compare_max_abs(const struct compare_stats *s);
double compare_max_rel(const struct compare_stats *s);

/* Half the spacing of the numbers around 1 of a floating dtype (2^-24 for float32), that of the
 * parts for a complex one; 0 for all others. */
double compare_roundoff(int dtype);

/* The smallest positive number of a floating dtype, and its smallest normal one; 0 for others. */
double compare_smallest(int dtype);
double compare_smallest_normal(int dtype);

/* The row-major index `at` as "[3, 5]" into out; "[]" for no dimensions. Of complex tensors `at`
 * counts parts. Returns out. */
const char *compare_index(char *out, size_t size, const struct compare_tensor *t, uint64_t at);

/* The loops that compare: a block of numbers into sums. Part of compare. */

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
