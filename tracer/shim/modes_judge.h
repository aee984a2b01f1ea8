/* What --compare needs of the numbers of tensors, in C; the verdicts are replay's
 * (replay/verdict.h). */
#ifndef TRACER_SHIM_MODES_JUDGE_H
#define TRACER_SHIM_MODES_JUDGE_H

#include "tracer/shim/python.h"

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
