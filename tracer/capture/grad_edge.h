/* Where in the autograd graph the gradient of a tensor flows, read from the live process. */
#ifndef TRACER_CAPTURE_GRAD_EDGE_H
#define TRACER_CAPTURE_GRAD_EDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/decode/target.h"
#include "symbolizer/event/event.h"

/* A node by address and sequence number, which tells it from a later one at the same address. */
struct grad_edge {
	uint64_t node; /* 0: nowhere */
	uint64_t seq;  /* GRAD_LEAF: the AccumulateGrad of a leaf */
};

/* torch/csrc/autograd/functions/accumulate_grad.cpp, 1.13.1 and 2.13.0 */
static const uint64_t GRAD_LEAF = UINT64_MAX;

static inline bool grad_edge_same(const struct grad_edge *a, const struct grad_edge *b)
{
	return a->node == b->node && a->seq == b->seq;
}

/* The node that the gradient of `x` flows to: its grad_fn, or that of a leaf that has got one,
 * which it gets when it is first used. A thread that uses `x` must stand still. 0; -ENODATA when it
 * is not known where tensors keep it, or when a view keeps it elsewhere; the -errno of reading. */
int grad_edge_of(struct target *t, const struct tensor *x, struct grad_edge *out);

/* Where the results of a node flow: its std::vector<Edge> at address `edges`, which must have `n`
 * of them. 0; -EPROTO for another number of edges; -ENODATA or the -errno of reading. */
int grad_edges_read(struct target *t, uint64_t edges, struct grad_edge *out, size_t n);

#endif
