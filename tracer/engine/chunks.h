/* A ring of records as tracer/engine/ring.h has it, whose stretches lie in memory in any order: the
 * writer goes on where the reader was last, so that a reader that keeps up leaves it a small part
 * of the memory, which stays in the caches. */
#ifndef TRACER_ENGINE_CHUNKS_H
#define TRACER_ENGINE_CHUNKS_H

#include <stdint.h>

#include "tracer/engine/ring.h"

enum { CHUNK = 128 << 10, CHUNKS = 128 };

/* Shared. The n-th stretch of CHUNK bytes of the ring lies in chunk `at[n % CHUNKS]` of its memory.
 * No record goes over the end of a stretch. */
struct chunks {
	struct ring ring;
	_Atomic uint8_t at[CHUNKS];
};

/* The writer's own. */
struct chunks_writer {
	uint64_t stretch;      /* that it is in */
	uint64_t freed;	       /* stretches whose chunks it has back */
	uint8_t order[CHUNKS]; /* as struct chunks.at */
	uint8_t spare[CHUNKS]; /* chunks in no use; the one to take first comes last */
	uint32_t nspare;
};

/* Become the writer of an empty ring. */
void chunks_begin(struct chunks *c, struct chunks_writer *w);

/* As ring_room, ring_done, ring_next and ring_drop. `data`: CHUNKS * CHUNK bytes; `most`: at most
 * CHUNK. */
void *chunks_room(struct chunks *c, struct chunks_writer *w, uint8_t *data, uint32_t most);
void chunks_done(struct chunks *c, const struct hit *h);
const struct hit *chunks_next(struct chunks *c, const uint8_t *data, int *bad);
void chunks_drop(struct chunks *c, const struct hit *h);

#endif
