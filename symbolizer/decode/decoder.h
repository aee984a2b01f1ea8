/* From hits to op events: pairs entries with exits, finds parents and what was thrown, ties
 * backward to forward, decodes values. Knows nothing of engines. */
#ifndef SYMBOLIZER_DECODE_DECODER_H
#define SYMBOLIZER_DECODE_DECODER_H

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

#endif
