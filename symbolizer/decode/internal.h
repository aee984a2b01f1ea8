/* What the files of this folder share. */
#ifndef SYMBOLIZER_DECODE_INTERNAL_H
#define SYMBOLIZER_DECODE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "symbolizer/decode/decode_value.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/plan/plan.h"

/* A tensor from the item that an engine sent. Part of symbolizer/decode/decode_value.h. */

/* `i` is an ITEM_TENSOR or ITEM_SNAPSHOT. A VALUE_TENSOR in d->arena, VALUE_NONE for an undefined
 * one, or VALUE_NOT_DECODED. Adds the tensor's grad_fn to d->nodes. */
struct value decode_tensor(struct decode *d, const struct item *i);

/* A hit that comes in several records: what they hold, put together. */

/* One of each thread, zero-initialised. */
struct hit_fragments {
	struct hit head;
	uint8_t *data;
	size_t len, room; /* bytes */
	bool lost;	  /* one of them is missing */
};

/* Take the next record of the thread, one with HIT_MORE or HIT_CONT. Returns -E2BIG when there is
 * more than a few MiB of one hit, -ENOMEM; the hit is lost then. */
int hit_fragments_add(struct hit_fragments *p, const struct hit *h);

/* The items of the hit whose last record was added: none when one of its records is missing. They
 * lie in `p`, until the next call. */
struct items hit_fragments_end(struct hit_fragments *p);

void hit_fragments_free(struct hit_fragments *p);

/* An op between its entry and its exit, and what its records hold of it. */

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
