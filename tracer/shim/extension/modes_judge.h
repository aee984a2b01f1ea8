/* What --compare needs of the numbers of tensors, in C; the verdicts are replay's
 * (replay/numbers/verdict.h). */
#ifndef TRACER_SHIM_EXTENSION_MODES_JUDGE_H
#define TRACER_SHIM_EXTENSION_MODES_JUDGE_H

#include "replay/numbers/tolerance.h"
#include "tracer/shim/extension/modes_dlpack.h"
#include "tracer/shim/extension/python.h"

/* What results of an op are judged by. */
struct judge_by {
	struct tolerance tolerance; /* tolerance_of the op and the dtype of the result */
	bool exact;		    /* only equal ones are right */
	double reach;		    /* as judge_reach gives it, >= 1 */
};

/* Whether a float64 reference on its own says that a result is right (verdict_is_sure). False: it
 * cannot be told. *worst: how many units of
 * rounding the worst element is off without any allowance. */
bool judge_is_sure(const struct judge_by *by, const struct numbers *actual,
		   const struct numbers *reference, bool *sure, double *worst);

/* The least reach (struct verdict_input) of all that this thread has judged since it asked last; 1
 * where something was not right, 0 where nothing was judged. */
double judge_reach(void);

/* Have two the same dtype, shape and elements, NaN equal to NaN? */
bool judge_is_equal(const struct numbers *a, const struct numbers *b);

/* Each takes a tuple of arguments, as METH_VARARGS has it.
 *
 * judged(op, actual, reference, cpu or None, allowance or None, exact, reach, scale): a tuple of
 * the verdict (0 right, 1 wrong, 2 not judged) and of how bad it is at the worst element. A row of
 *   replay's (replay/row.h) would have the same.
 * surely_right(op, actual, reference, exact): a tuple of whether the reference alone says that it
 * is right (verdict_is_sure) and of how many units of rounding the worst element is off without any
 * allowance; None where neither can be told.
 * perturbed(t, seed, u, part): t, a packed float64 tensor, with each element moved by a random
 * share between u/2 and u of itself, up or down; part: every second one, by chance. probed(out,
 * reference, moved...): what the elements of `reference` do when the inputs move, into `out`, a
 * packed float64 tensor of that shape; a float: how many inputs act on an element. The last of
 * `moved` had half of them moved (class Probe of replay/runner). extent(t): the root mean square of
 * the finite elements of a float64 tensor, and its largest magnitude but for NaN. */
object *modes_judged(object *self, object *args);
object *modes_surely_right(object *self, object *args);
object *modes_perturbed(object *self, object *args);
object *modes_probed(object *self, object *args);
object *modes_extent(object *self, object *t);

#endif
