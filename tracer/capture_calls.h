/* Captured calls whose gradients may still come, by the id of their forward event. */
#ifndef TRACER_CAPTURE_CALLS_H
#define TRACER_CAPTURE_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/capture.h"

enum { CAPTURE_CALLS_MAX = 16384 }; /* beyond it the oldest is forgotten: its graph may be gone */

struct captured_call {
	struct capture_call call;
	struct captured_call *next;	       /* in its slot */
	struct captured_call *older, *younger; /* by when they were added */
	uint64_t node;			       /* id of the backward event, once it has begun; 0 */
	uint64_t files;
	bool one_result; /* it gave one tensor */
};

/* Zero-initialise. */
struct capture_calls {
	struct captured_call *slot[CAPTURE_CALLS_MAX];
	struct captured_call *oldest, *youngest;
	uint32_t n;
};

/* A new record for the forward event `id`, NULL without memory. Valid until it is dropped, by
 * capture_calls_drop or when CAPTURE_CALLS_MAX others have come. */
struct captured_call *capture_calls_add(struct capture_calls *c, uint64_t id);

/* NULL for an id that is not known, and for 0. */
struct captured_call *capture_calls_find(const struct capture_calls *c, uint64_t id);

void capture_calls_drop(struct capture_calls *c, struct captured_call *call); /* NULL allowed */

/* Whether a backward node is that of the op itself, as autograd's code generator names it
 * ("AddmmBackward0" for addmm and addmm_; tools/autograd in PyTorch's source): then what it returns
 * are gradients of the op's arguments. `op` as in struct capture_call. */
bool capture_node_is_of(const char *node, const char *op);

void capture_calls_free(struct capture_calls *c);

#endif
