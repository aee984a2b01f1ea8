/* A ring of records between one writer and one reader, in memory that both have mapped. The writer
 * neither waits nor calls the kernel. */
#ifndef TRACER_ENGINE_RING_H
#define TRACER_ENGINE_RING_H

#include <stdatomic.h>
#include <stdint.h>

#include "symbolizer/plan/plan.h"

/* Records, each padded to 8 bytes; one of size 0 says that the ring goes on at its start. The
 * writer writes at `head`, the reader reads at `tail`; both only grow. */
struct ring {
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(64) _Atomic uint64_t tail;
};

/* Where a record of up to `most` bytes can be put together in the ring whose `size` bytes (a
 * multiple of 8) lie at `data`; NULL when there is no room. The reader sees nothing of it before
 * ring_done is called with it, its size set. */
void *ring_room(struct ring *r, uint8_t *data, uint64_t size, uint32_t most);
void ring_done(struct ring *r, const uint8_t *data, uint64_t size, const struct hit *h);

/* Append a record. 0, or -1 when there is no room. */
int ring_put(struct ring *r, uint8_t *data, uint64_t size, const struct hit *h);

/* The next record, NULL: none. Valid until ring_drop is called with it. A reader that does not
 * trust the writer gets NULL and *bad (may be NULL) set for what cannot be a record. */
const struct hit *ring_next(struct ring *r, const uint8_t *data, uint64_t size, int *bad);
void ring_drop(struct ring *r, const struct hit *h);

/* A ring of records as tracer/engine/ring.h has it, whose stretches lie in memory in any order: the
 * writer goes on where the reader was last, so that a reader that keeps up leaves it a small part
 * of the memory, which stays in the caches. */

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
