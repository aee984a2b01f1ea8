/* An op between its entry and its exit, and what its records hold of it. */
#ifndef SYMBOLIZER_DECODE_OPEN_OP_H
#define SYMBOLIZER_DECODE_OPEN_OP_H

#include "base/arena.h"
#include "symbolizer/decode/decode_value.h"
#include "symbolizer/decode/target.h"

struct open_op {
	struct op_event ev;
	const struct op_probe *probe;
	const struct registered_op *reg; /* boxed ops: their types; NULL: not known */
	uint64_t seq;			 /* hit.seq */
	struct arena arena;		 /* values; kept from op to op */
	struct node_refs in;		 /* nodes of the arguments */
	uint64_t edges;			 /* ROLE_GRADS: address of the node's edges */
};

/* How values of the op are decoded: into its arena. nodes: gathers the tensors' nodes; may be NULL.
 */
struct decode open_op_decode(struct target *t, struct open_op *o, struct node_refs *nodes);

/* Decode what the entry's items hold of the arguments into ev.args. */
void open_op_args(struct target *t, struct open_op *o, const struct items *it);

/* Decode what the exit's items hold of the results into ev.results, and remember the nodes that the
 * op made. */
void open_op_results(struct target *t, struct open_op *o, const struct items *exit);

/* Of a node's entry: give the event its node, and the forward op and stack that it belongs to, when
 * they are known. */
void open_op_tie(struct target *t, struct open_op *o, const struct items *it);

#endif
