/* From hits to op events: pairs entries with exits, finds parents and what was thrown, ties
 * backward to forward, decodes values. Knows nothing of engines. */
#ifndef SYMBOLIZER_DECODE_DECODER_H
#define SYMBOLIZER_DECODE_DECODER_H

#include <stddef.h>
#include <stdint.h>

#include "symbolizer/decode/target.h"
#include "symbolizer/event/event.h"
#include "symbolizer/plan/plan.h"

/* Called for each event when it ends: children before their parents. The event and its values are
 * valid during the call only; op, stacks and frames for as long as the target. */
typedef void decoder_event_fn(const struct op_event *ev, void *arg);

struct decoder;

/* What autograd makes of the gradients that a backward node returned, before they flow on: sums
 * those of broadcast arguments, converts dtypes (torch::autograd::validate_outputs). */
struct decoder_grads {
	int32_t pid, tid;
	struct value returned, flowing; /* lists of tensors and None, one for each edge */
	uint64_t edges;			/* address of the node's std::vector<Edge>; 0: not known */
};

/* Called when that is done; the values are valid during the call. It comes after the end of the
 * node's event and before any other event of the thread but those of ops within it. */
typedef void decoder_grads_fn(const struct decoder_grads *g, void *arg);

/* For plans with ROLE_GRADS. */
void decoder_on_grads(struct decoder *d, decoder_grads_fn *fn);

/* Called when an op starts and its arguments are decoded, in the order in which ops start. */
void decoder_on_start(struct decoder *d, decoder_event_fn *fn);

/* NULL without memory. */
struct decoder *decoder_new(decoder_event_fn *fn, void *arg);

/* Make process number `proc` known. `t` is not owned and must outlive the decoder, or be
 * removed. 0 or -errno. */
int decoder_add_target(struct decoder *d, uint16_t proc, struct target *t);

/* Forget process number `proc`, before its target is freed: its open ops end (decoder_flush), what
 * was held back is dropped. */
void decoder_remove_target(struct decoder *d, uint16_t proc);

/* Look at a record as soon as it has come, before it is its turn: the sooner the layout of tensors
 * is known, the fewer records are held back; and operators and classes are looked up while they are
 * there. */
void decoder_learn(struct decoder *d, const struct hit *h);

/* Take one record of an engine. Records of unknown processes and malformed ones are counted and
 * dropped. */
void decoder_hit(struct decoder *d, const struct hit *h);

/* Read the Python code that a record names, so that it is known when its turn comes. */
void decoder_warm(struct decoder *d, const struct hit *h);

/* Learn a Python code object from what its record (HIT_CODE_FREED, HIT_CODE_MET) has copied of it,
 * to be called before the hits that were taken while it lived. Other records are ignored. */
void decoder_foresee(struct decoder *d, const struct hit *h);

/* Decode what was held back of process `proc` while the layout of its tensors was being learnt,
 * with what is known of it now. Call it when nothing new has come for a while, and before
 * decoder_flush. */
void decoder_drain(struct decoder *d, uint16_t proc);

/* End the ops of process `proc` (all processes: -1) that are still open: they come out unfinished
 * (end_ns 0). */
void decoder_flush(struct decoder *d, int proc);

/* Records that could not be used. */
uint64_t decoder_dropped(const struct decoder *d);

void decoder_free(struct decoder *d);

/* Records that wait for their turn, one behind the other as they came. */

/* Zero-initialise. The records lie at data[0 .. len), each padded to 8 bytes. */
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

/* Call it right after records have come: reads the Python code they name while it lives, and
 * decodes what had come before the last turn, when that is REORDER_BUFFER_NS ago. */
void reorder_buffer_turn(struct reorder_buffer *l, struct decoder *d, uint64_t now_ns);

/* Decode all that waits. */
void reorder_buffer_flush(struct reorder_buffer *l, struct decoder *d);

void reorder_buffer_free(struct reorder_buffer *l);

#endif
