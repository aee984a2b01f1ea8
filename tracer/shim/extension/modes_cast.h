/* Calls computed in another dtype, and what they give cast back. */
#ifndef TRACER_SHIM_EXTENSION_MODES_CAST_H
#define TRACER_SHIM_EXTENSION_MODES_CAST_H

#include "tracer/shim/extension/python.h"

/* Take what is needed from the names of modes/, after modes_change_ready. False: one is missing. */
bool modes_cast_ready(void);

/* cast(plan, call, args, kwargs, at) (METH_VARARGS): what the call gives as if it had been left
 * alone; Unchanged where that cannot be. */
object *modes_cast(object *self, object *args);

#endif
