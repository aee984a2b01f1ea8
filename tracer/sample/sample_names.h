/* Native frames, native stacks and ops of samples: equal ones are one object, which outlives the
 * process it was seen in. */
#ifndef TRACER_SAMPLE_SAMPLE_NAMES_H
#define TRACER_SAMPLE_SAMPLE_NAMES_H

#include <stdbool.h>

#include "base/intern.h"
#include "symbolizer/event/event.h"

/* Zero-initialise. */
struct sample_names {
	struct intern frame_ids, stack_ids, op_ids;
	struct arena arena;
	struct py_frame **frames; /* by their ids */
	struct py_stack **stacks;
	struct op_desc **ops;
	size_t frames_room, stacks_room, ops_room;
};

/* All three: NULL without memory. */

/* *is_new: it was not known (NULL: not asked). */
const struct py_frame *sample_frame(struct sample_names *n, const char *file, const char *function,
				    bool *is_new);
const struct py_stack *sample_stack(struct sample_names *n, const struct py_frame *const *frames,
				    unsigned depth, bool truncated);
const struct op_desc *sample_op(struct sample_names *n, const char *name, enum op_kind kind);

void sample_names_free(struct sample_names *n);

#endif
