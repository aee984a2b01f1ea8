/* Which training step an op belongs to. */
#ifndef SYMBOLIZER_OPS_STEPS_H
#define SYMBOLIZER_OPS_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/event/event.h"
#include "symbolizer/ops/filter.h"

/* The steps of one process. Zero-initialise; `op` may be set before the first event.
 *
 * Steps are counted from 1. The first ends with the first call of the optimizer's step, the next
 * begins there. A call of it shows in the Python stacks of its ops: a frame "step" of a file of
 * torch/optim, or the wrapper that torch.optim.Optimizer puts around the step of its subclasses; it
 * is over when the same thread does an op outside of it, or in a call from another line. A call
 * that does no op is not seen, nor the end of one that the same line follows with another at once.
 * Only one thread counts: the first that is seen in an optimizer.
 *
 * With `op` a call of an op that it matches, and what that calls, is the end of a step. */
struct steps {
	const struct filter *op; /* --step-op, NULL: the optimizer's step. Not owned */
	uint64_t done;		 /* steps that have ended */
	bool inside;		 /* of an ending step */
	int32_t tid;
	uint32_t caller; /* id of the frame that called the optimizer's step, plus 1; 0: unknown */
	uint16_t depth;	 /* of the op that ends the step */
};

/* See one more event, in the order in which they start, when it starts. Returns the step that it
 * belongs to. Backward nodes and ops of other threads belong to the step that is going on. */
uint64_t steps_see(struct steps *s, const struct op_event *ev);

#endif
