/* The operators that ditrace has not heard of. Those of PyTorch itself stay as long as the process,
 * and the library's file names them; one that the program has defined may be gone, with its schema,
 * before ditrace gets a processor. */
#ifndef TRACER_SHIM_NEW_OPERATORS_H
#define TRACER_SHIM_NEW_OPERATORS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the operator of this name ("namespace::name") whose handle is at this address is met for
 * the first time since new_operators_begin, and not one of PyTorch's "aten". Of at most some
 * hundreds. From any thread. */
bool new_operators_meet(const char *name, uint64_t handle);

void new_operators_begin(void);

#endif
