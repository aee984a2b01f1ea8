/* Hits wait for a moment before they are decoded, so that it is known by then which Python code
 * objects ended right after them. */
#ifndef SYMBOLIZER_DECODE_REORDER_BUFFER_H
#define SYMBOLIZER_DECODE_REORDER_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "symbolizer/decode/decoder.h"
#include "symbolizer/decode/hit_queue.h"

enum { REORDER_BUFFER_NS = 20 * 1000 * 1000 };

struct batch {
	struct hit_queue hits;
	size_t nends; /* records of code objects that ended or were met */
};

/* Zero-initialise. */
struct reorder_buffer {
	struct batch waiting, coming;
	size_t warmed;	 /* bytes of `coming` whose stacks have been looked at */
	uint64_t turned; /* CLOCK_MONOTONIC, ns: the last turn */
	uint64_t turns;	 /* two later, all that has come is decoded */
};

/* Take one record; copies it. When more wait than fit into a few MiB they are decoded at once. */
void reorder_buffer_add(struct reorder_buffer *l, struct decoder *d, const struct hit *h);

/* Call it right after records have come: reads the Python code they name while it lives, and
 * decodes what had come before the last turn, when that is REORDER_BUFFER_NS ago. */
void reorder_buffer_turn(struct reorder_buffer *l, struct decoder *d, uint64_t now_ns);

/* Decode all that waits. */
void reorder_buffer_flush(struct reorder_buffer *l, struct decoder *d);

void reorder_buffer_free(struct reorder_buffer *l);

#endif
