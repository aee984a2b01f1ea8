#include "symbolizer/decode/boxed_seen.h"

#include <string.h>

#include "symbolizer/ops/ops.h"

/* The first item, BOXED_DATA, holds a word that may be another for each call; behind it, and the
 * head of the next, are the words of the handle. */
enum { HEAD = sizeof(struct item), SECOND_AT = HEAD + 8, WORDS_AT = SECOND_AT + HEAD };

static uint32_t place(const struct items *it)
{
	uint64_t w[2];
	memcpy(w, it->data + WORDS_AT, sizeof(w));
	return (uint32_t)((w[0] ^ w[1]) * 0x9e3779b97f4a7c15u >> 56) % BOXED_SEEN;
}

/* Bytes of the items that name the operator; 0: these are not all there, or too many. */
static uint32_t length(const struct items *it)
{
	const struct item *i = NULL;
	for (unsigned read = BOXED_DATA; read <= BOXED_OVERLOAD; read++) {
		i = items_next(it, i);
		if (!i || i->read != read || (read == BOXED_DATA && i->len != 8))
			return 0;
	}
	uint32_t len = (uint32_t)((const uint8_t *)(i + 1) - it->data) + ((i->len + 7u) & ~7u);
	return len <= BOXED_SEEN_BYTES && len >= WORDS_AT + 16 ? len : 0;
}

const struct registered_op *boxed_seen_find(const struct boxed_seen *all, const struct items *it)
{
	if (it->len < WORDS_AT + 16)
		return NULL;
	const struct boxed_seen *s = &all[place(it)];
	uint64_t data;
	memcpy(&data, it->data + HEAD, sizeof(data));
	return s->op && data && it->len >= s->len && !memcmp(s->bytes, it->data, HEAD) &&
		       !memcmp(s->bytes + SECOND_AT, it->data + SECOND_AT, s->len - SECOND_AT)
		   ? s->op
		   : NULL;
}

void boxed_seen_add(struct boxed_seen *all, const struct items *it, const struct registered_op *op)
{
	uint32_t len = length(it);
	if (!len)
		return;
	struct boxed_seen *s = &all[place(it)];
	*s = (struct boxed_seen){.op = op, .len = len};
	memcpy(s->bytes, it->data, len);
}
