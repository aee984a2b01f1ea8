/* Which operator the boxed calls before were of, by the bytes of their records. */
#ifndef SYMBOLIZER_DECODE_BOXED_SEEN_H
#define SYMBOLIZER_DECODE_BOXED_SEEN_H

#include "symbolizer/decode/decode_value.h"
#include "symbolizer/decode/registry.h"

enum { BOXED_SEEN = 256, BOXED_SEEN_BYTES = 176 };

/* All that names the operator in a record: its items up to BOXED_OVERLOAD, which come first; what
 * is in the very first, the argument itself, is left out. */
struct boxed_seen {
	const struct registered_op *op; /* NULL: none */
	uint32_t len;
	uint8_t bytes[BOXED_SEEN_BYTES];
};

/* The operator of a record that begins as one before did; NULL: none did. `all`: BOXED_SEEN of
 * them, zeroed at first. */
const struct registered_op *boxed_seen_find(const struct boxed_seen *all, const struct items *it);

/* From now on records that begin as this one are of `op`, which must be whole: what registry_find
 * will always answer for it. */
void boxed_seen_add(struct boxed_seen *all, const struct items *it, const struct registered_op *op);

#endif
