/* Maps autograd nodes to the forward events that created them, from an op's exit until its
 * backward. */
#ifndef SYMBOLIZER_TORCH_NODE_MAP_H
#define SYMBOLIZER_TORCH_NODE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/event/event.h"
#include "symbolizer/target/elf.h"

/* Kept small: there may be hundreds of thousands. */
struct node_owner {
	uint64_t addr;	   /* address of the Node */
	uint64_t seq : 40; /* its sequence number, which distinguishes it from a later node at the
			      same address */
	uint64_t tid : 24; /* the creating thread, which numbers its nodes; below 2^22 */
	uint64_t event;	   /* id of the forward event */
	const struct py_stack *stack;
};

/* The node with a sequence number. */
struct node_seq {
	uint64_t seq, addr; /* addr 0: empty slot; ~0: nodes of several threads have it */
	uint64_t tid;
};

struct node_table {
	struct node_owner *slots; /* by address */
	struct node_seq *seqs;	  /* by sequence number, as many; NULL: not in use */
	size_t size, used, nseqs; /* size: 0 or a power of two */
};

/* Zero-initialise. Bounded: when full, the older half is dropped, since nodes that never run
 * backward would accumulate. */
struct node_map {
	struct node_table young, old;
	bool by_seq; /* node_map_find_seq was called */
};

/* Add `o`, unless the same node (address and sequence number) is present: the innermost op that
 * returned a node created it, and exits first. 0 or -ENOMEM. */
int node_map_add(struct node_map *m, const struct node_owner *o);

/* The owner of the node at `addr` with `seq`, NULL if unknown. Valid until the next add. */
const struct node_owner *node_map_find(const struct node_map *m, uint64_t addr, uint64_t seq);

/* The owner of the only node with `seq`, whatever its address; NULL if there is none, or several
 * threads have one: each thread numbers its own nodes. */
const struct node_owner *node_map_find_seq(struct node_map *m, uint64_t seq);

void node_map_free(struct node_map *m);

/* Offset of a node's sequence number, from the code that sets it. */

/* Byte offset of sequence_nr_ within torch::autograd::Node, 0 if undetermined. The constructor of
 * AccumulateGrad sets it, and no other word, to UINT64_MAX
 * (torch/csrc/autograd/functions/accumulate_grad.cpp, 1.13.1 and 2.13.0). */
uint16_t node_seq_offset(struct elf_file *cpu);

/* Byte offset of `variable`, the tensor whose gradient it accumulates, within AccumulateGrad; 0 if
 * undetermined. Its constructor moves its only argument there
 * (torch/csrc/autograd/functions/accumulate_grad.cpp, 1.13.1 and 2.13.0). */
uint16_t node_variable_offset(struct elf_file *cpu);

#endif
