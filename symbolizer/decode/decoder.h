/* From hits to op events: pairs entries with exits, finds parents and what was thrown, ties
 * backward to forward, decodes values. Knows nothing of engines. */
#ifndef SYMBOLIZER_DECODE_DECODER_H
#define SYMBOLIZER_DECODE_DECODER_H

#include <stdbool.h>
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

/* All records of process number `proc`, which is known, were fed. Call it after each tick; true
 * once they are decoded, but for what is held back. */
bool decoder_end_target(struct decoder *d, uint16_t proc);

/* Forget process number `proc`, before its target is freed: what was held back is decoded, and its
 * open ops end unfinished. */
void decoder_remove_target(struct decoder *d, uint16_t proc);

/* Take one record of an engine; `h` is copied. What names ops, classes and tensors' parts is
 * learned at once; it is decoded by a later tick, so that it is known by then which Python code
 * objects ended right after it. When more wait than fit into a few MiB they are decoded at once.
 * Until it is known where tensors have their parts the records of a process are held back, for half
 * a second at most. Records of unknown processes and malformed ones are counted and dropped. */
void decoder_feed(struct decoder *d, const struct hit *h);

/* The same of a record whose thread is stopped: it is decoded before this returns, after all that
 * was fed before. */
void decoder_feed_now(struct decoder *d, const struct hit *h);

/* Call it right after records were fed, and every few milliseconds; `now_ns` is CLOCK_MONOTONIC.
 * Reads the Python code that they name while it lives, and decodes what is due. */
void decoder_tick(struct decoder *d, uint64_t now_ns);

/* No records will be fed any more: decode all that waits or is held back. Ops that are still open
 * come out unfinished (end_ns 0). */
void decoder_finish(struct decoder *d);

/* Records that could not be used. */
uint64_t decoder_dropped(const struct decoder *d);

void decoder_free(struct decoder *d);

#endif
