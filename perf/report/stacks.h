/* What the Python frames of a stack say: that a thread loads data, or is in the optimizer. */
#ifndef PERF_REPORT_STACKS_H
#define PERF_REPORT_STACKS_H

#include "symbolizer/event/event.h"

/* Whether a frame is of a file of torch with `path` in its name. s: NULL allowed. */
bool breakdown_passes(const struct py_stack *s, const char *path);

/* Whether it is the optimizer's own op, not one of the closure that its step may call (LBFGS,
 * Lightning): between it and the optimizer are files of torch alone, or of the step itself. */
bool breakdown_is_of_optimizer(const struct py_stack *s);

/* The frame that asked a DataLoader for data, or NULL. s: NULL allowed. */
const struct py_frame *breakdown_asks_for_data(const struct py_stack *s);

#endif
