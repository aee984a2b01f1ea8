/* Which forward event made an autograd node: remembered from an op's exit until its backward. */
#ifndef SYMBOLIZER_NODE_MAP_H
#define SYMBOLIZER_NODE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "symbolizer/event.h"

struct node_owner {
	uint64_t addr;	/* of the Node */
	uint64_t seq;	/* its sequence number: tells it from a later node at the same address */
	uint64_t event; /* id of the forward event */
	const struct py_stack *stack;
};

struct node_table {
	struct node_owner *slots;
	size_t size, used; /* size: 0 or a power of two */
};

/* Zero-initialise. Bounded: the oldest half is forgotten when it is full, so that it does not grow
 * with a run (nodes that never run backward would pile up). */
struct node_map {
	struct node_table young, old;
};

/* Remember `o`, unless the same node (address and sequence number) is known already: the innermost
 * op that returned it made it. 0 or -ENOMEM. */
int node_map_add(struct node_map *m, const struct node_owner *o);

/* The owner of the node at `addr` with `seq`, NULL when it is not known. Valid until the next add.
 */
const struct node_owner *node_map_find(const struct node_map *m, uint64_t addr, uint64_t seq);

void node_map_free(struct node_map *m);

#endif
