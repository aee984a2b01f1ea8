/* Which forward event made an autograd node: remembered from an op's exit until its backward. */
#ifndef SYMBOLIZER_TORCH_NODE_MAP_H
#define SYMBOLIZER_TORCH_NODE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/event/event.h"
#include "symbolizer/target/elf.h"

/* There may be hundreds of thousands. */
struct node_owner {
	uint64_t addr;	   /* of the Node */
	uint64_t seq : 40; /* its sequence number: tells it from a later node at the same address */
	uint64_t tid : 24; /* the thread it ran on, which counts its nodes; below 2^22 (Linux) */
	uint64_t event;	   /* id of the forward event */
	const struct py_stack *stack;
};

/* The node of a sequence number. */
struct node_seq {
	uint64_t seq, addr; /* addr 0: this place is free; ~0: nodes of several threads have it */
	uint64_t tid;
};

struct node_table {
	struct node_owner *slots; /* by address */
	struct node_seq *seqs;	  /* by sequence number, as many; NULL: not asked for */
	size_t size, used, nseqs; /* size: 0 or a power of two */
};

/* Zero-initialise. Bounded: the oldest half is forgotten when it is full, so that it does not grow
 * with a run (nodes that never run backward would pile up). */
struct node_map {
	struct node_table young, old;
	bool by_seq; /* node_map_find_seq was called */
};

/* Remember `o`, unless the same node (address and sequence number) is known already: the innermost
 * op that returned it made it. 0 or -ENOMEM. */
int node_map_add(struct node_map *m, const struct node_owner *o);

/* The owner of the node at `addr` with `seq`, NULL when it is not known. Valid until the next add.
 */
const struct node_owner *node_map_find(const struct node_map *m, uint64_t addr, uint64_t seq);

/* The owner of the one node with `seq`, whatever its address; NULL when there is none, or when
 * several threads made one: each counts for itself. */
const struct node_owner *node_map_find_seq(struct node_map *m, uint64_t seq);

void node_map_free(struct node_map *m);

/* Where an autograd node keeps its sequence number, by the code that sets it. */

/* Byte offset of sequence_nr_ within torch::autograd::Node, 0 when it cannot be told. The
 * constructor of AccumulateGrad sets it, and no other word, to UINT64_MAX
 * (torch/csrc/autograd/functions/accumulate_grad.cpp, 1.13.1 and 2.13.0). */
uint16_t node_seq_offset(struct elf_file *cpu);

#endif
