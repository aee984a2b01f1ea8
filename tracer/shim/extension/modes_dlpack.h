/* The numbers of a tensor of Python's, by DLPack (dlpack.h, version 0; PyTorch's
 * torch._C._to_dlpack gives that on all versions). */
#ifndef TRACER_SHIM_EXTENSION_MODES_DLPACK_H
#define TRACER_SHIM_EXTENSION_MODES_DLPACK_H

#include <stdint.h>

#include "tracer/shim/extension/python.h"

/* Elements that lie packed, row-major, in memory of this process. */
struct numbers {
	object *tensor, *capsule; /* that own them */
	const void *data;
	int dtype; /* c10::ScalarType */
	int ndim;
	const int64_t *shape;
	int64_t n;
};

/* torch._C._to_dlpack, torch.uint8, and torch.Tensor's is_conj and is_neg; once. */
void numbers_ready(object *to_dlpack, object *uint8, object *is_conj, object *is_neg);

/* Fill *out from a tensor on whatever device; a copy is made only of one that is elsewhere or not
 * packed. False with Python's error set: it cannot be had. numbers_drop frees. */
bool numbers_of(object *tensor, struct numbers *out);
void numbers_drop(struct numbers *n);

#endif
