/* Decodes the items of a hit into values. The only decoder of values: engines differ only in how
 * they obtain the bytes. */
#ifndef SYMBOLIZER_DECODE_DECODE_VALUE_H
#define SYMBOLIZER_DECODE_DECODE_VALUE_H

#include <string.h>

#include "base/arena.h"
#include "symbolizer/event/event.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/ops/ops.h"
#include "symbolizer/ops/schema.h"
#include "symbolizer/plan/plan.h"

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

#endif
