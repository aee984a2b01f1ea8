/* Decodes hits into op events: pairs entries with exits, finds parents and exceptions, links the
 * backward to the forward, decodes values. Independent of the engines. */
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

/* The gradients that a backward node returned, and what autograd makes of them before they flow on:
 * it sums those of broadcast arguments and converts dtypes (torch::autograd::validate_outputs). */
struct decoder_grads {
	int32_t pid, tid;
	struct value returned, flowing; /* lists of tensors and None, one for each edge */
	uint64_t edges;			/* address of the node's std::vector<Edge>; 0: not known */
};

/* Called after validate_outputs; the values are valid during the call only. The call follows the
 * end of the node's event, with no other events of the thread in between except those of ops within
 * validate_outputs. */
typedef void decoder_grads_fn(const struct decoder_grads *g, void *arg);

/* Set the callback for gradients; needs a plan with ROLE_GRADS. */
void decoder_on_grads(struct decoder *d, decoder_grads_fn *fn);

/* Set a callback for ops that start, with their arguments decoded; called in the order in which
 * they start. */
void decoder_on_start(struct decoder *d, decoder_event_fn *fn);

/* Set a callback for calls that were summed up. Without it they are counted as dropped. */
typedef void decoder_sum_fn(const struct op_sum *s, void *arg);
void decoder_on_sum(struct decoder *d, decoder_sum_fn *fn);

/* Set a callback for collectives that are done. */
typedef void decoder_done_fn(const struct work_done *w, void *arg);
void decoder_on_done(struct decoder *d, decoder_done_fn *fn);

/* Set a callback for collectives that have written what they give (ROLE_WRITTEN); the thread that
 * did may be stopped. */
void decoder_on_written(struct decoder *d, decoder_done_fn *fn);

/* NULL when out of memory. */
struct decoder *decoder_new(decoder_event_fn *fn, void *arg);

/* Register process number `proc`. `t` is not owned and must outlive the decoder or be removed
 * first. 0 or -errno. */
int decoder_add_target(struct decoder *d, uint16_t proc, struct target *t);

/* Declare that all records of process number `proc`, a registered one, have been fed. Call it again
 * after each tick; true once they are decoded, except for those held back. */
bool decoder_end_target(struct decoder *d, uint16_t proc);

/* Remove process number `proc`; call it before its target is freed. Decodes what was held back and
 * ends the open ops as unfinished. */
void decoder_remove_target(struct decoder *d, uint16_t proc);

/* Take one record from an engine; copies `h`. Names of ops and classes and the layout of tensors
 * are learned at once, but the record is decoded in a later tick: by then it is known which Python
 * code objects were freed right after it. Once more than a few MiB are waiting, they are decoded at
 * once. Until the layout of a process's tensors is known, its records are held back, for half a
 * second at most. Malformed records and those of unknown processes are counted and dropped. */
void decoder_feed(struct decoder *d, const struct hit *h);

/* Like decoder_feed, for a record whose thread is stopped: all records fed before and then this one
 * are decoded before this returns. */
void decoder_feed_now(struct decoder *d, const struct hit *h);

/* Call it right after feeding records, and every few milliseconds; `now_ns` is CLOCK_MONOTONIC.
 * Reads the Python code objects that new records refer to, while they are alive, and decodes the
 * records that are due. */
void decoder_tick(struct decoder *d, uint64_t now_ns);

/* Call it after the last record: decodes all that wait or are held back. Ops still open come out
 * unfinished (end_ns 0). */
void decoder_finish(struct decoder *d);

/* When the outermost op of the thread that has not ended yet began, as far as records are decoded:
 * those fed a second ago are, if it was called meanwhile. UINT64_MAX: the thread is in none. */
uint64_t decoder_open_since(const struct decoder *d, int32_t pid, int32_t tid);

/* Number of records that could not be used. */
uint64_t decoder_dropped(const struct decoder *d);

void decoder_free(struct decoder *d);

#endif
