/* The numbers of tensors: statistics of one, comparison of two, and the verdict on a result. */
#ifndef REPLAY_NUMBERS_NUMBERS_H
#define REPLAY_NUMBERS_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "replay/capture/capture_files.h"
#include "symbolizer/event/event.h"

/* Number formats of the dtypes, and conversion of elements to float64 or integers. */

enum number_kind {
	NUMBER_NONE, /* bytes without a known format */
	NUMBER_BOOL,
	NUMBER_SIGNED,
	NUMBER_UNSIGNED,
	NUMBER_FLOAT,
	NUMBER_COMPLEX,
};

/* Convert `n` elements (parts, if complex), `step` bytes apart (may be negative) and of any
 * alignment: to_double into double, to_int into int64_t, or uint64_t for the dtype uint64. */
typedef void (*number_load)(const void *in, ptrdiff_t step, size_t n, void *out);

struct number {
	enum number_kind kind;
	uint8_t itemsize;	       /* bytes of an element, or of a part */
	uint8_t parts;		       /* 2: complex */
	int16_t digits;		       /* of floats: significant bits with the implicit one */
	int16_t emin;		       /* of floats: exponent of the smallest normal number */
	number_load to_double, to_int; /* to_int is NULL for floats, both for NUMBER_NONE */
};

/* The format of a c10::ScalarType; never NULL. NUMBER_NONE for dtypes without numbers or with
 * several in a byte. Quantized dtypes count as the stored integers; a bool that is neither 0 nor 1
 * is true. Sources of the 8-bit formats: torch/headeronly/util/Float8_*.h (2.13.0), after
 * arXiv:2209.05433 and arXiv:2206.02915. */
const struct number *number_of(int dtype);

/* Tensor statistics (struct stats, symbolizer/event/event.h) from the bytes of a tensor. */

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

/* Comparing two tensors: all figures in one pass over both, for all dtypes and strides. */

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

/* Verdicts on results, by ditorch's tolerances or by the errors of correct kernels; formulas and
 * their derivation are in docs/verdict.md. */

/* ditorch's atol and rtol: defaults by dtype, and its environment variables (get_error_tolerance in
 * op_tools/utils.py). */

struct tolerance {
	double atol, rtol;
	bool from_env; /* set by an environment variable */
};

/* The tolerance for results of `op` ("torch.Tensor.add", "aten::add.Tensor") of a dtype
 * (c10::ScalarType). In order of precedence: OP_AUTOCOMPARE_ERROR_TOLERANCE_DTYPE (OP: the part
 * after the last dot in capitals; of an operator the part before the overload),
 * AUTOCOMPARE_ERROR_TOLERANCE_DTYPE, AUTOCOMPARE_ERROR_TOLERANCE, the default: 1e-4, 1e-3, 1e-5,
 * 1e-8 for float16, bfloat16, float32, float64, and 1e-3 for all others, to which only the last
 * variable applies. 0; -EINVAL for a variable that is not "atol,rtol". */
int tolerance_of(const char *op, int dtype, struct tolerance *out, struct err *e);

/* Whether any of the variables is set, for any op. */
bool tolerance_in_env(void);

enum verdict { VERDICT_RIGHT, VERDICT_WRONG, VERDICT_NOT_JUDGED };

/* "right", "wrong", "not judged". */
const char *verdict_name(enum verdict v);

/* The basis of a verdict. */
struct verdict_input {
	const struct compare_stats *stats; /* the result against the reference */
	const struct compare_stats
	    *cpu; /* the same op on the CPU in the same dtype, against the reference; NULL: none */
	const struct compare_stats *against_cpu; /* the result against the CPU's; NULL: none */
	int dtype;				 /* c10::ScalarType of the result */
	bool exact;   /* results must match bit for bit: integers, bools, moved data */
	double reach; /* number of summands of one element, at most; >= 1 */
	/* How far all elements may be off together, in units of roundoff: what a sum that they
	 * share may have lost. */
	double common;
	/* What `stats` is of, contiguous; NULL: elements that share an error are not looked for. */
	const struct compare_tensor *result, *reference;
	const struct compare_params *params;
};

/* roundoff and floor of compare_params for results of `dtype` that are sums of `reach` numbers. The
 * floor is for results that no other kernel is a witness for; rms: root mean square of the
 * reference, 0 where there is one. */
double verdict_roundoff(int dtype, double reach);
double verdict_floor(int dtype, double reach, double rms);

/* The verdict. `why` (of `size` bytes) gets what is wrong, or "". *score is the error relative to
 * its limit: <= 1 for right, larger is worse, infinite for mismatched NaN and infinities. */
enum verdict verdict_judge(const struct verdict_input *in, char *why, size_t size, double *score);

/* Whether verdict_judge would say right whatever the allowance of the inputs, and the figures of
 * the CPU. `s` comes from a comparison without an allowance, with verdict_roundoff of this reach
 * (>= 1). */
bool verdict_is_sure(const struct compare_stats *s, int dtype, bool exact, double reach);

/* The verdict of torch.allclose, as in ditorch. */
enum verdict verdict_allclose(const struct compare_stats *s, double atol, double rtol, char *why,
			      size_t size, double *score);

/* Variants of the comparison loops, the one part of replay/ that depends on the machine. */

/* Put before a function: compile it for these x86-64 psABI levels too, selected at load time. Empty
 * on other machines and with compilers without target_clones. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__)
#define COMPARE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define COMPARE_CLONES
#endif

#endif
