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

#endif
