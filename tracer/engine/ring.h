/* Single-producer, single-consumer rings of records in memory that both have mapped. The writer
 * neither waits nor calls the kernel. */
#ifndef TRACER_ENGINE_RING_H
#define TRACER_ENGINE_RING_H

#include <stdatomic.h>
#include <stddef.h>
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

/* In `size` of a record in such a ring: it is a brief one (see below), and its length
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

/* brief.c: brief records: of the words of a record only those that are not as they were in the last
 * one like it, which most are in a training that repeats itself. Writer and reader each keep the
 * same memory of what went through the ring as brief records, in its order; a record that did not
 * go through it was never in either. What is left out was compared, word by word, so that a brief
 * record says exactly what the whole one does. */

/*	bytes	 0	length, in 8 bytes
 *		 1	length of the whole record, in 8 bytes
 *		 2, 3	number of the place in the memory that it is compared with; RING_BRIEF
 *		 4 to 7	ns since the last record of the ring
 *		 8 on	a bit for each word of the whole record: it differs
 *	then, for each word that does, a byte: 0: its 8 bytes follow; 1: the difference, 2 bytes; 2:
 *	4 bytes of it; else it is this one of the words sent lately. Padded to 8 bytes. */

enum {
	BRIEF_MOST = 216, /* words of a record; longer ones are sent whole */
	BRIEF_UNIT = 32,  /* words; a record begins at a multiple of them */
	BRIEF_PLACES = 1024,
	BRIEF_LATELY = 256,
	BRIEF_OPS = 2048,
	BRIEF_BYTES = 2048, /* a brief record is shorter, whatever it says */
};

/* Of one ring, on either side. Zero-initialise for a new one. */
struct brief {
	uint64_t ts, seq;	       /* of the last record, and of the last entry */
	uint64_t open[OPEN_MAX];       /* seq of the last entry, by depth */
	uint64_t lately[BRIEF_LATELY]; /* words, by hash */
	uint16_t last[BRIEF_OPS];      /* the writer's: the last place, by op */
	/* Records lie over each other in it. */
	_Alignas(64) uint8_t words[(BRIEF_PLACES * BRIEF_UNIT + BRIEF_MOST) * 8];
};

/* Write the record `h`, brief or whole, to `to`, which is aligned to 8 and has room for it and for
 * BRIEF_BYTES; 56 bytes behind `h` must be readable. General registers alone. */
void brief_put(struct brief *b, const struct hit *h, void *to);

static inline uint16_t *brief_last(struct brief *b, uint32_t op, uint8_t kind)
{
	return &b->last[(op << 1 | (kind & 1)) % BRIEF_OPS];
}

/* A record of that op is about to be made: have in the cache what it is compared with. */
static inline void brief_foresee(struct brief *b, uint32_t op, uint8_t kind)
{
	enum { LINE = 64, LINES = 4 };
	const uint8_t *at = b->words + *brief_last(b, op, kind) * (size_t)BRIEF_UNIT * 8;
	for (unsigned i = 0; i < LINES; i++)
		__builtin_prefetch(at + (size_t)i * LINE);
}

/* A record that is sent whole. */
static inline void brief_whole(struct brief *b, const struct hit *h)
{
	b->ts = h->ts;
}

/* The whole of a brief record. `record` is a copy of it, with BRIEF_BYTES to read. Valid until the
 * next call, and part of the memory: it must be as it was by then. NULL: it is none, as the writer
 * may not be trusted, and nothing more can be read of this ring. */
struct hit *brief_read(struct brief *b, const void *record);

/* When it was made, before it is read: ns. */
static inline uint64_t brief_ts(const struct brief *b, const void *record)
{
	return (b ? b->ts : 0) + ((const volatile uint32_t *)record)[1];
}

#endif
