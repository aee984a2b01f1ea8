#ifndef TRACER_SHIM_SAVED_CALL_H
#define TRACER_SHIM_SAVED_CALL_H

#include <stdbool.h>

/* Find out what is to be saved. False: this processor cannot do it. */
bool saved_call_prepare(void);

/* Call fn(arg) with all that code compiled with -mgeneral-regs-only leaves alone saved: the
 * registers of the x87, SSE, AVX and AVX-512. For calls into other libraries from the exit of an
 * op. */
void saved_call(void (*fn)(void *), void *arg);

#endif
