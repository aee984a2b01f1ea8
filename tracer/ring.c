#include "tracer/ring.h"

#include <stddef.h>
#include <string.h>

static uint64_t padded(uint32_t size)
{
	return ((uint64_t)size + 7) & ~7ULL;
}

int ring_put(struct ring *r, uint8_t *data, uint64_t size, const struct hit *h)
{
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
	uint64_t at = head % size, need = padded(h->size);
	uint64_t skip = at + need > size ? size - at : 0;
	if (head + skip + need - tail > size)
		return -1;
	if (skip) {
		memset(data + at, 0, sizeof(uint64_t));
		at = 0;
	}
	memcpy(data + at, h, h->size);
	atomic_store_explicit(&r->head, head + skip + need, memory_order_release);
	return 0;
}

static const struct hit *wrong(int *bad)
{
	if (bad)
		*bad = 1;
	return NULL;
}

const struct hit *ring_next(struct ring *r, const uint8_t *data, uint64_t size, int *bad)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
	uint64_t at = tail % size;
	if (head == tail)
		return NULL;
	if (head < tail || head - tail > size || head % 8)
		return wrong(bad);
	const struct hit *h = (const struct hit *)(data + at);
	uint32_t n = h->size;
	if (!n) {
		tail += size - at;
		if (head <= tail)
			return wrong(bad);
		atomic_store_explicit(&r->tail, tail, memory_order_release);
		at = 0;
		h = (const struct hit *)data;
		n = h->size;
	}
	return n < sizeof(*h) || padded(n) > head - tail || at + n > size ? wrong(bad) : h;
}

void ring_drop(struct ring *r, const struct hit *h)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	atomic_store_explicit(&r->tail, tail + padded(h->size), memory_order_release);
}
