/* Calls computed with copies of their tensors in place of these, on the CPU or in another dtype,
 * and what they give brought back. */
#ifndef TRACER_SHIM_MODES_COPIES_H
#define TRACER_SHIM_MODES_COPIES_H

#include "tracer/shim/python.h"

/* Take what is needed from the names of modes/, after modes_change_ready. False: one is missing. */
bool modes_copies_ready(void);

/* fallback(plan, call, args, kwargs, at) and cast(...): the features of these names (METH_VARARGS).
 * What the call gives as if it had been left alone; Unchanged where that cannot be. */
object *modes_fallback(object *self, object *args);
object *modes_cast(object *self, object *args);

#endif
