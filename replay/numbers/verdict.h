/* Is a result right? By ditorch's tolerances, or by what correct kernels do; docs/verdict.md has
 * the formulas and how they were found. */
#ifndef REPLAY_NUMBERS_VERDICT_H
#define REPLAY_NUMBERS_VERDICT_H

#include <stdbool.h>

#include "base/err.h"
#include "replay/numbers/compare.h"

/* atol and rtol as ditorch takes them: defaults by dtype, and its environment variables
 * (get_error_tolerance in op_tools/utils.py). */

struct tolerance {
	double atol, rtol;
	bool from_env; /* a variable decided */
};

/* For results of `op` ("torch.Tensor.add", "aten::add.Tensor") of a dtype (c10::ScalarType).
 * Strongest first: OP_AUTOCOMPARE_ERROR_TOLERANCE_DTYPE (OP: what stands behind the last dot, in
 * capitals; of an operator's name what stands before the overload),
 * AUTOCOMPARE_ERROR_TOLERANCE_DTYPE, AUTOCOMPARE_ERROR_TOLERANCE; then the defaults 1e-4, 1e-3,
 * 1e-5, 1e-8 of float16, bfloat16, float32, float64 and 1e-3 of all others, for which only the last
 * variable counts. -EINVAL for a variable that is not "atol,rtol". */
int tolerance_of(const char *op, int dtype, struct tolerance *out, struct err *e);

/* Is any of the variables set, for whatever op? */
bool tolerance_in_env(void);

enum verdict { VERDICT_RIGHT, VERDICT_WRONG, VERDICT_NOT_JUDGED };

/* "right", "wrong", "not judged". */
const char *verdict_name(enum verdict v);

/* What a result is judged by. */
struct verdict_input {
	const struct compare_stats *stats; /* the result against the reference */
	const struct compare_stats *cpu;   /* the CPU in the same dtype against it; NULL: none */
	const struct compare_stats *against_cpu; /* the result against the CPU's; NULL: none */
	int dtype;				 /* c10::ScalarType of the result */
	bool exact;   /* every bit is known: integers, bools, moved data */
	double reach; /* numbers that one element may be a sum of, >= 1 */
};

/* The floor of compare_params for results of `dtype` whose reference has this root mean square. */
double verdict_floor(int dtype, double rms);

/* The verdict. `why` (of `size` bytes) says what is wrong, "" when nothing is. *score is how far
 * beyond the limit the result is: <= 1 for right, larger is worse, infinite for NaN and the like.
 */
enum verdict verdict_judge(const struct verdict_input *in, char *why, size_t size, double *score);

/* Whether verdict_judge would say right whatever the allowance of the inputs and the CPU's figures
 * are, and with every reach from this one (>= 1) on: `s` is of a comparison without an allowance.
 */
bool verdict_is_sure(const struct compare_stats *s, int dtype, bool exact, double reach);

/* The verdict by torch.allclose, as ditorch decides. */
enum verdict verdict_allclose(const struct compare_stats *s, double atol, double rtol, char *why,
			      size_t size, double *score);

#endif
