/* Comparing two tensors: all figures in one pass over both, for all dtypes and strides. */
#ifndef REPLAY_NUMBERS_COMPARE_H
#define REPLAY_NUMBERS_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { COMPARE_DIMS = 64 }; /* at::kDimVectorStaticSize is 5, TensorIterator's limit 64 */

/* A tensor in memory of this process. Nothing is owned. */
struct compare_tensor {
	const void *data; /* the first element; may be unaligned */
	int dtype;	  /* c10::ScalarType (symbolizer/event/names.h) */
	int ndim;
	const int64_t *shape;
	const int64_t *stride; /* in elements, any sign; NULL: contiguous */
};

/* Tolerances and the unit of error. Zero-initialised: close means equal, and the unit is one unit
 * roundoff of the dtype of `a`. */
struct compare_params {
	double atol, rtol; /* of torch.allclose(a, b, atol, rtol, equal_nan=True) */
	/* The unit of the error at element i is roundoff * |b[i]| + allowance[i] + floor. */
	double roundoff; /* 0: compare_roundoff(a->dtype) */
	const double
	    *allowance;	  /* contiguous, one value per element (two if complex); NULL: none */
	double floor;	  /* at least half the smallest positive number of a->dtype */
	unsigned threads; /* at most; 0: one for each CPU available to this process */
	/* Skip max_abs, max_rel, ulp, dot, aa, bb, and all indices and values. */
	bool sums_only;
};

/* The parts of complex numbers count as two elements. `b` is the reference. */
struct compare_stats {
	uint64_t n;
	uint64_t unequal;   /* NaN equals NaN, 0 equals -0 */
	uint64_t not_close; /* not |a - b| <= atol + rtol |b| */
	uint64_t nan_wrong; /* NaN on one side only */
	uint64_t inf_wrong; /* infinite on one side only, or with opposite signs */
	uint64_t finite;    /* finite on both sides; all figures below are of these */
	double max_abs;	    /* |a - b| */
	double max_rel;	    /* |a - b| / (|a| + 1e-6), ditorch's */
	double ulp;	    /* |a - b| in ULPs of b in the dtype of `a`; 0 for integers */
	double dot, aa, bb; /* sums of a b, a a, b b */
	/* Of e = (a - b) / unit: */
	double worst;	  /* |e| */
	double sum, sum2; /* of e, of e e */
	double along;	  /* sum of e, negated where b is negative */
	/* With q = roundoff |b| / unit, the sums of e q, negated where b is negative, and of q q:
	 * their quotient, times roundoff, is the c for which a is closest to (1 + c) b, in units.
	 */
	double scale, scale2;
	double per_unit; /* sum of 1 / unit where b is not 0 */
	/* Row-major indices; UINT64_MAX: none. For tensors that are not row-major, "first" means
	 * first in memory. */
	uint64_t first_unequal, first_wrong; /* wrong: NaN or infinity */
	uint64_t max_abs_at, worst_at;
	double a_at_worst, b_at_worst; /* values at worst_at, or at first_wrong if there is one */
};

/* Compare tensors of the same shape. If the dtypes differ both are compared as float64. 64-bit
 * integers are compared exactly; `max_abs` is their exact distance, rounded once. The result does
 * not depend on the number of threads. 0; -EINVAL: shapes differ, or an invalid shape or number of
 * dimensions; -ENOTSUP: a dtype that is not numeric; -ENOMEM. */
int compare_tensors(const struct compare_tensor *a, const struct compare_tensor *b,
		    const struct compare_params *p, struct compare_stats *out, struct err *e);

/* Standard errors of the means of e and of e along b, and of scale / scale2, of a comparison. */
struct compare_spread {
	double mean, along, scale;
};

/* Estimate them from the differences between the slices of the tensors along each dimension, and of
 * each element, whichever are largest, since elements of a row may share an error, as those of a
 * softmax do; equal elements of `b` count as one, and if there are hardly any others the errors are
 * infinite. For contiguous tensors of floating dtypes; `s` is what compare_tensors gave for these.
 * 0, or -ENOMEM. */
int compare_spread(const struct compare_tensor *a, const struct compare_tensor *b,
		   const struct compare_params *p, const struct compare_stats *s,
		   struct compare_spread *out);

/* Cosine similarity of a and b; 1 if both are zero or empty, 0 if one is; NaN if a value is not
 * finite on one side only. */
double compare_cosine(const struct compare_stats *s);

/* max_abs and max_rel, or NaN or infinity where NaNs or infinities do not match, so that they
 * cannot go unnoticed. */
double compare_max_abs(const struct compare_stats *s);
double compare_max_rel(const struct compare_stats *s);

/* Unit roundoff of a floating dtype (2^-24 for float32; for complex dtypes of their parts); 0 for
 * all others. */
double compare_roundoff(int dtype);

/* The smallest positive number of a floating dtype, and the smallest normal one; 0 for all others.
 */
double compare_smallest(int dtype);
double compare_smallest_normal(int dtype);

/* The row-major index `at` as "[3, 5]", "[]" without dimensions. For complex tensors `at` counts
 * parts. Returns out. */
const char *compare_index(char *out, size_t size, const struct compare_tensor *t, uint64_t at);

/* The inner loops: figures of one block. For compare.c alone. */

enum { COMPARE_BLOCK = 1024 }; /* elements: three arrays of doubles fit into the L1 cache */

/* Parameters of the inner loops. */
struct compare_units {
	double atol, rtol, roundoff, floor;
	uint64_t emin_bits; /* smallest normal number of the dtype, as the bits of a double */
	double to_ulp;	    /* 2^(digits - 1) of the dtype; 0: integers */
	bool sums_only;	    /* as in compare_params */
};

/* Add to *s the figures of `n` <= COMPARE_BLOCK numbers. The arrays have COMPARE_BLOCK elements and
 * are modified: elements that are not finite are counted and zeroed. `k` (allowance) may be NULL.
 * `at` is the index of the first number. */
void compare_block(double *a, double *b, const double *k, size_t n, uint64_t at,
		   const struct compare_units *u, struct compare_stats *s);

/* The same for integers, uint64_t if `is_unsigned`; they are not modified. */
void compare_block_int(const int64_t *a, const int64_t *b, bool is_unsigned, size_t n, uint64_t at,
		       const struct compare_units *u, struct compare_stats *s);

/* Mean square of the finite ones of `n` numbers; 0 if there are none. */
double compare_mean_square(const double *v, size_t n);

#endif
