/* Calls computed on the CPU, and what they give brought back to the device. */
#ifndef TRACER_SHIM_EXTENSION_MODES_FALLBACK_H
#define TRACER_SHIM_EXTENSION_MODES_FALLBACK_H

#include "tracer/shim/extension/python.h"

/* Take what is needed from the names of modes/, after modes_change_ready. False: one is missing. */
bool modes_fallback_ready(void);

/* fallback(plan, call, args, kwargs, at) (METH_VARARGS): what the call gives as if it had been left
 * alone; Unchanged where that cannot be. */
object *modes_fallback(object *self, object *args);

#endif
