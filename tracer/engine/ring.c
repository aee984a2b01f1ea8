#include "tracer/engine/ring.h"

#include <stddef.h>
#include <string.h>

static uint64_t padded(uint32_t size)
{
	return ((uint64_t)size + 7) & ~7ULL;
}

void *ring_room(struct ring *r, uint8_t *data, uint64_t size, uint32_t most)
{
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
	uint64_t at = head % size, need = padded(most);
	uint64_t skip = at + need > size ? size - at : 0;
	if (head + skip + need - tail > size)
		return NULL;
	if (!skip)
		return data + at;
	memset(data + at, 0, sizeof(uint64_t));
	return data;
}

void ring_done(struct ring *r, const uint8_t *data, uint64_t size, const struct hit *h)
{
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	if ((const uint8_t *)h != data + head % size)
		head += size - head % size;
	atomic_store_explicit(&r->head, head + padded(h->size), memory_order_release);
}

int ring_put(struct ring *r, uint8_t *data, uint64_t size, const struct hit *h)
{
	void *at = ring_room(r, data, size, h->size);
	if (!at)
		return -1;
	memcpy(at, h, h->size);
	ring_done(r, data, size, at);
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
	if (head < tail || head - tail > size || head % 8 || tail % 8)
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
