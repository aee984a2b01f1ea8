/* --compare of calls that turn out right at once, as most do: the reference is computed on float64
 * copies, looked at, and only counted. All others are compare_call() of modes/. */
#ifndef TRACER_SHIM_EXTENSION_MODES_COMPARE_H
#define TRACER_SHIM_EXTENSION_MODES_COMPARE_H

#include "tracer/shim/extension/python.h"

/* Take what is needed from the names of modes/, after modes_change_ready, and forget what was
 * settled. False: one is missing. */
bool modes_compare_ready(void);

/* compare(plan, call, args, kwargs, at): the feature of that name (METH_VARARGS). Gives what the
 * call gives. */
object *modes_compare(object *self, object *args);

#endif
