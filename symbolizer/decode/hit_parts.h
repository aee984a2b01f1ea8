/* A hit that comes in several records: what they hold, put together. */
#ifndef SYMBOLIZER_DECODE_HIT_PARTS_H
#define SYMBOLIZER_DECODE_HIT_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/decode/decode_value.h"
#include "symbolizer/plan/plan.h"

/* One of each thread, zero-initialised. */
struct hit_parts {
	struct hit head;
	uint8_t *data;
	size_t len, room; /* bytes */
	bool lost;	  /* one of them is missing */
};

/* Take the next record of the thread, one with HIT_MORE or HIT_CONT. Returns -E2BIG when there is
 * more than a few MiB of one hit, -ENOMEM; the hit is lost then. */
int hit_parts_add(struct hit_parts *p, const struct hit *h);

/* The items of the hit whose last record was added: none when one of its records is missing. They
 * lie in `p`, until the next call. */
struct items hit_parts_end(struct hit_parts *p);

void hit_parts_free(struct hit_parts *p);

#endif
