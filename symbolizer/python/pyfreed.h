/* Code objects that may be freed before they can be read: what the engine copied of them when they
 * were met, or as they went. */
#ifndef SYMBOLIZER_PYTHON_PYFREED_H
#define SYMBOLIZER_PYTHON_PYFREED_H

#include <stdint.h>

#include "symbolizer/python/python.h"

/* A piece of the target's memory as it was. */
struct py_region {
	uint64_t addr;
	const uint8_t *data;
	uint32_t len;
};

/* Learn the code object at `code` from copies of it, of the strings and the line table it points
 * to, unless it is known; another one that is known at that address is forgotten. What lies in no
 * copy is read from the live target; what reaches beyond one is not there. */
void py_code_remember(struct py_runtime *rt, uint64_t code, const struct py_region *r, unsigned n);

/* Where a code object keeps what has to be copied, for the eBPF program: offsets of its pointers.
 */
struct py_code_read python_code_read(const struct py_runtime *rt);

#endif
