/* What the files of this folder share. */
#ifndef SYMBOLIZER_DECODE_INTERNAL_H
#define SYMBOLIZER_DECODE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "symbolizer/decode/decode_value.h"
#include "symbolizer/decode/decoder.h"
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

/* Records that wait for their turn, one behind the other as they came. */

/* Zero-initialise. The records lie at data[0 .. len); their sizes are multiples of 8. */
struct hit_queue {
	uint8_t *data;
	size_t len, room; /* bytes */
};

/* Append a copy of `h`, unless the queue would hold more than `most` bytes then; it takes no more
 * memory than that. Returns the copy, valid until the next call with this queue; NULL when there is
 * no room for it. */
struct hit *hit_queue_add(struct hit_queue *q, const struct hit *h, size_t most);

/* The record that begins *at bytes behind the first (0 to begin with), NULL at the end; *at moves
 * on. */
const struct hit *hit_queue_next(const struct hit_queue *q, size_t *at);

/* Free its memory; it is empty then. */
void hit_queue_free(struct hit_queue *q);

/* Hits wait for a moment before they are decoded, so that it is known by then which Python code
 * objects ended right after them. */

enum { REORDER_BUFFER_NS = 20 * 1000 * 1000 };

struct batch {
	struct hit_queue hits;
	size_t nends; /* records of code objects that ended or were met */
};

/* Zero-initialise. */
struct reorder_buffer {
	struct batch waiting, coming;
	size_t warmed;	 /* bytes of `coming` whose stacks have been looked at */
	uint64_t turned; /* CLOCK_MONOTONIC, ns: the last turn */
	uint64_t turns;	 /* two later, all that has come is decoded */
};

/* Take one record; copies it. When more wait than fit into a few MiB they are decoded at once. */
void reorder_buffer_add(struct reorder_buffer *l, struct decoder *d, const struct hit *h);

/* Read the Python code that the records which have come since name, while it lives; and, when the
 * last turn is REORDER_BUFFER_NS ago, decode what had come before it. Returns whether it did. */
bool reorder_buffer_turn(struct reorder_buffer *l, struct decoder *d, uint64_t now_ns);

/* Decode all that waits. */
void reorder_buffer_flush(struct reorder_buffer *l, struct decoder *d);

void reorder_buffer_free(struct reorder_buffer *l);

enum { THREAD_BUCKETS = 256 };

struct decoder_proc {
	struct target *target; /* NULL: not known */
	struct hit_queue held; /* until the layout of its tensors is known */
	uint64_t drained;      /* CLOCK_MONOTONIC, ns: when what was held was last decoded */
	uint64_t last_turn;    /* of the reorder buffer: all was fed, and is decoded then; 0: more
				* may come */
};

struct decoder {
	decoder_event_fn *fn, *start_fn;
	decoder_grads_fn *grads_fn;
	void *arg;
	struct decoder_proc procs[PROCS_MAX];
	struct reorder_buffer reorder_buffer;
	struct decoder_thread *threads[THREAD_BUCKETS];
	uint64_t next_id, dropped;
};

/* Decode a record whose turn has come, or hold it back. */
void decoder_decode(struct decoder *d, const struct hit *h);

/* Decode what is held back of a process, with what is known of its tensors now. */
void decoder_drain(struct decoder *d, struct decoder_proc *p);

/* The same of all processes whose hits have stopped coming, or have come for long. */
void decoder_drain_held(struct decoder *d, uint64_t now_ns);

/* The process is over: what is not known of its tensors now never is. */
void decoder_settle(struct decoder *d, struct decoder_proc *p);

/* pair_hits.c: open or close the op that a record is of; `t` is its process. */
void decoder_pair(struct decoder *d, struct target *t, const struct hit *h);

/* End the ops of process `proc` (all processes: -1) that are open, unfinished; forget its threads.
 */
void decoder_end_ops(struct decoder *d, int proc);
void decoder_drop_threads(struct decoder *d, int proc);

/* The stack whose frames are in the ITEM_STACK `i`, of a hit at `when`. */
const struct py_stack *decoder_frames(struct target *t, const struct item *i, uint64_t when);

#endif
