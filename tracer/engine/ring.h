/* A single-producer, single-consumer ring of records in memory that both have mapped. The writer
 * neither waits nor calls the kernel. */
#ifndef TRACER_ENGINE_RING_H
#define TRACER_ENGINE_RING_H

#include <stdatomic.h>
#include <stdint.h>

#include "symbolizer/plan/plan.h"

/* Records, each padded to 8 bytes; one of size 0 marks a wrap to the start. The writer appends at
 * `head`, the reader consumes at `tail`; both count bytes and only grow. */
struct ring {
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(64) _Atomic uint64_t tail;
};

/* Reserve room to assemble a record of up to `most` bytes in the ring whose `size` bytes (a
 * multiple of 8) are at `data`; NULL when there is none. The reader sees the record only after
 * ring_done, which wants h->size set. */
void *ring_room(struct ring *r, uint8_t *data, uint64_t size, uint32_t most);
void ring_done(struct ring *r, const uint8_t *data, uint64_t size, const struct hit *h);

/* Append a record. 0, or -1 when there is no room. */
int ring_put(struct ring *r, uint8_t *data, uint64_t size, const struct hit *h);

/* The next record; NULL: none. Valid until ring_drop is called with it. For what cannot be a
 * record, NULL with *bad set (may be NULL), since the writer may not be trusted. */
const struct hit *ring_next(struct ring *r, const uint8_t *data, uint64_t size, int *bad);
void ring_drop(struct ring *r, const struct hit *h);

/* A ring whose stretches of CHUNK bytes lie in memory in any order: the writer reuses the chunk
 * that the reader freed last, so that with a reader that keeps up it cycles through a small, cached
 * part of the memory. */

enum { CHUNK = 128 << 10, CHUNKS = 512 }; /* CHUNKS: at most */

/* In `size` of a record in such a ring: it is a brief one (tracer/engine/brief.h), and its length
 * in 8 bytes is in the lowest byte. */
#define RING_BRIEF (1U << 31)

/* Bytes of a record with this `size`. */
static inline uint32_t ring_bytes(uint32_t size)
{
	return size & RING_BRIEF ? (size & 0xff) * 8 : size;
}

/* Shared. The n-th stretch of the ring is in chunk `at[n % CHUNKS]` of its memory. No record
 * crosses the end of a stretch. */
struct chunks {
	struct ring ring;
	_Atomic uint16_t at[CHUNKS];
};

/* The writer's private state. */
struct chunks_writer {
	uint64_t stretch; /* the current one */
	uint64_t freed;	  /* stretches whose chunks the reader has returned */
	uint32_t nspare;
	uint16_t order[CHUNKS]; /* as struct chunks.at */
	uint16_t spare[CHUNKS]; /* a stack of free chunks */
};

/* Become the writer of an empty ring, of the first `n` chunks of its memory. */
void chunks_begin(struct chunks *c, struct chunks_writer *w, uint32_t n);

/* As ring_room, ring_done, ring_next and ring_drop. `data`: `n` chunks; `most`: at most
 * CHUNK. There is no room either while less than `keep` chunks are free besides. chunks_next gives
 * whole records alone, chunks_next_any brief ones, too. */
void *chunks_room(struct chunks *c, struct chunks_writer *w, uint8_t *data, uint32_t most,
		  uint32_t keep);
void chunks_done(struct chunks *c, const struct hit *h);
const struct hit *chunks_next(struct chunks *c, const uint8_t *data, int *bad);
const struct hit *chunks_next_any(struct chunks *c, const uint8_t *data, int *bad);
void chunks_drop(struct chunks *c, const struct hit *h);

#endif
