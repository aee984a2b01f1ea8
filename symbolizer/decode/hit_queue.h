/* Records that wait for their turn, one behind the other as they came. */
#ifndef SYMBOLIZER_DECODE_HIT_QUEUE_H
#define SYMBOLIZER_DECODE_HIT_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "symbolizer/plan/plan.h"

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

#endif
