/* Decodes hits into op events: pairs entries with exits, finds parents and exceptions, links the
 * backward to the forward, decodes values. Independent of the engines. */
#ifndef SYMBOLIZER_DECODE_DECODER_H
#define SYMBOLIZER_DECODE_DECODER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "symbolizer/event/event.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/ops/ops.h"
#include "symbolizer/ops/schema.h"
#include "symbolizer/plan/plan.h"

/* Decodes the items of a hit into values. The only decoder of values: engines differ only in how
 * they obtain the bytes. */

enum { INDEXED_READS = 32 };

/* Where items begin: offset + 1; 0: there is none. */
struct items_index {
	uint16_t read[INDEXED_READS]; /* the first of that read, other than a stack */
	uint16_t stack, native, inner;
};

/* The items of one hit: `len` bytes at `data`, as sent by the engine. Borrowed. */
struct items {
	const uint8_t *data;
	uint32_t len;
	const struct items_index *index; /* NULL: they are searched */
};

static inline struct items items_of(const struct hit *h)
{
	return (struct items){
	    .data = (const uint8_t *)(h + 1),
	    .len = h->size - (uint32_t)sizeof(*h),
	};
}

enum { MAX_NODES = 64 };

/* Autograd nodes found while decoding: grad_fn of the tensors, with the node's sequence number
 * where it was read (at exits). */
struct node_refs {
	uint32_t n;
	struct {
		uint64_t addr, seq;
		bool has_seq;
	} node[MAX_NODES];
};

struct target;

struct decode {
	struct target *target;
	struct arena *arena;	 /* holds the values */
	struct node_refs *nodes; /* may be NULL */
};

static inline const struct item *items_at(const struct items *it, uint32_t off)
{
	if (off > it->len || it->len - off < sizeof(struct item))
		return NULL;
	const struct item *i = (const struct item *)(it->data + off);
	return it->len - off - sizeof(*i) >= ((i->len + 7u) & ~7u) ? i : NULL;
}

/* The item following `after` (NULL: the first); NULL at the end. Lies wholly within `it`. */
static inline const struct item *items_next(const struct items *it, const struct item *after)
{
	if (!after)
		return items_at(it, 0);
	uint32_t off = (uint32_t)((const uint8_t *)after - it->data);
	return items_at(it, off + (uint32_t)sizeof(*after) + ((after->len + 7u) & ~7u));
}

/* The item that an index has at `at`; NULL: none. */
static inline const struct item *items_indexed(const struct items *it, uint16_t at)
{
	return at ? (const struct item *)(it->data + at - 1) : NULL;
}

/* The first item made by read number `read` and following `after` (NULL: any), other than a stack
 * item; NULL if there is none. Lies wholly within `it`. */
static inline const struct item *items_find(const struct items *it, unsigned read,
					    const struct item *after)
{
	const struct item *i = after;
	if (!after && it->index && read < INDEXED_READS)
		return items_indexed(it, it->index->read[read]);
	while ((i = items_next(it, i)))
		if (i->read == read && i->kind != ITEM_STACK)
			return i;
	return NULL;
}

/* Index the items, in `x`, which must live as long; they must not change. */
void items_make_index(struct items *it, struct items_index *x);

/* The first `size` bytes of what read number `read` brought, into *out; false: it brought fewer. */
static inline bool items_data(const struct items *it, unsigned read, void *out, size_t size)
{
	const struct item *i = items_find(it, read, NULL);
	if (!i || i->kind != ITEM_DATA || i->len < size)
		return false;
	memcpy(out, i + 1, size);
	return true;
}

/* The copies of memory in a record of a code object, each with its address before it: their number,
 * at most `most`. They stay in the record. */
struct py_region;
unsigned items_regions(const struct hit *h, struct py_region *out, unsigned most);

/* The stack item (ITEM_STACK), NULL if there is none. */
const struct item *items_stack(const struct items *it);

/* The native stack, if there is any: whether there is. It lies in `it`. */
bool items_native(const struct items *it, struct native_raw *out);

/* The frames of the stack item as they were read, innermost first: the words of STACK_FRAME_SIZE
 * bytes each, the code object first. *n is their number, 0 if there is no such item. They lie in
 * `it`. */
const uint64_t (*items_frames(const struct items *it, uint32_t *n))[STACK_FRAME_SIZE / 8];

/* Decode one argument or result, planned as `v`, from the items `it` of the entry or exit. Never
 * fails: a value that cannot be decoded is VALUE_NOT_DECODED with the reason. */
struct value decode_value(struct decode *d, const struct abi_value *v, const struct items *it);

/* Add the autograd node of the tensor that read number `read` got, if it has one, to d->nodes. */
void decode_nodes(struct decode *d, const struct items *it, unsigned read);

/* Decode the `n` values of a boxed call: the last `n` IValues of read number `read` in `it`, by
 * their `types` (`n` of them; NULL: by their tags alone). `out`: `n` values. */
void decode_boxed(struct decode *d, const struct items *it, unsigned read,
		  const struct schema_arg *types, unsigned n, struct value *out);

/* A VALUE_NOT_DECODED; `reason` is not copied. */
static inline struct value value_not_decoded(const char *reason)
{
	return (struct value){.kind = VALUE_NOT_DECODED, .str = reason};
}

/* Hits into events. */

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
