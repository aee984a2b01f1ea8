/* A hit that comes in several records: what they hold, put together. */
#ifndef SYMBOLIZER_DECODE_HIT_FRAGMENTS_H
#define SYMBOLIZER_DECODE_HIT_FRAGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/decode/decode_value.h"
#include "symbolizer/plan/plan.h"

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

#endif
