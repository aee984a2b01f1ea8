/* atol and rtol as ditorch takes them: defaults by dtype, and its environment variables
 * (get_error_tolerance in op_tools/utils.py). */
#ifndef REPLAY_NUMBERS_TOLERANCE_H
#define REPLAY_NUMBERS_TOLERANCE_H

#include <stdbool.h>

#include "base/err.h"

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

#endif
