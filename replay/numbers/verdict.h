/* Verdicts on results, by ditorch's tolerances or by the errors of correct kernels; formulas and
 * their derivation are in docs/verdict.md. */
#ifndef REPLAY_NUMBERS_VERDICT_H
#define REPLAY_NUMBERS_VERDICT_H

#include <stdbool.h>

#include "base/err.h"
#include "replay/numbers/compare.h"

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

#endif
