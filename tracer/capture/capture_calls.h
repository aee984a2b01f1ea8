/* Captured calls whose gradients may still come: by the id of their forward event, and by the nodes
 * of the autograd graph that they have made. */
#ifndef TRACER_CAPTURE_CAPTURE_CALLS_H
#define TRACER_CAPTURE_CAPTURE_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/capture/capture.h"
#include "tracer/capture/call_inputs.h"
#include "tracer/capture/grad_edge.h"

enum {
	CAPTURE_CALLS_MAX = 16384, /* beyond it the oldest is forgotten: its graph may be gone */
	CAPTURE_NODES_MAX = 256,   /* of a call */
};

/* A node that has to run before all gradients of a call are there. */
struct call_node {
	struct grad_edge at;
	struct captured_call *call;
	bool gave_result;	   /* it is the grad_fn of a result, not one behind it */
	struct call_node *in_slot; /* others in its slot */
	struct call_node *of_call; /* others of its call */
};

struct captured_call {
	struct capture_call call;
	struct captured_call *next;	       /* in its slot */
	struct captured_call *older, *younger; /* by when they were added */
	struct call_node *nodes;
	unsigned nnodes;
	struct call_inputs inputs;
	const struct py_stack *where; /* of the forward event */
	uint64_t files;
	bool one_result; /* it gave one tensor */
	bool began;	 /* one of its nodes has run */
};

/* Zero-initialise. */
struct capture_calls {
	struct captured_call *slot[CAPTURE_CALLS_MAX];
	struct call_node *nodes[CAPTURE_CALLS_MAX];
	struct captured_call *oldest, *youngest;
	uint32_t n;
	uint64_t unfinished; /* forgotten after some of their nodes had run, and not all */
};

/* A new record for the forward event `id`, NULL without memory. Valid until it is dropped, by
 * capture_calls_drop or when CAPTURE_CALLS_MAX others have come. */
struct captured_call *capture_calls_add(struct capture_calls *c, uint64_t id);

/* NULL for an id that is not known, and for 0. */
struct captured_call *capture_calls_find(const struct capture_calls *c, uint64_t id);

void capture_calls_drop(struct capture_calls *c, struct captured_call *call); /* NULL allowed */

/* Wait for the node `at` of `call`; no-op when that is known. 0, -ENOMEM, or -E2BIG for more than
 * CAPTURE_NODES_MAX nodes. */
int capture_calls_await(struct capture_calls *c, struct captured_call *call,
			const struct grad_edge *at, bool gave_result);

/* A call of process `pid` that waits for the node `at`, the one behind `after` (NULL: the first);
 * NULL: no more. */
struct call_node *capture_calls_awaiting(const struct capture_calls *c, int32_t pid,
					 const struct grad_edge *at, const struct call_node *after);

/* The node has run. */
void capture_calls_ran(struct capture_calls *c, struct call_node *node);

/* Whether a backward node is that of the op itself, as autograd's code generator names it
 * ("AddmmBackward0" for addmm and addmm_; tools/autograd in PyTorch's source): then what it returns
 * are gradients of the op's arguments. `op` as in struct capture_call. */
bool capture_node_is_of(const char *node, const char *op);

void capture_calls_free(struct capture_calls *c);

#endif
