#include "tracer/engine/ring.h"

#include <stdbool.h>
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

static uint64_t own_head(const struct chunks *c)
{
	return atomic_load_explicit(&c->ring.head, memory_order_relaxed);
}

static uint8_t *place(const struct chunks_writer *w, uint8_t *data, uint64_t head)
{
	return data + (uint64_t)w->order[w->stretch % CHUNKS] * CHUNK + head % CHUNK;
}

static void chunks_take(struct chunks *c, struct chunks_writer *w, uint16_t chunk)
{
	w->order[w->stretch % CHUNKS] = chunk;
	atomic_store_explicit(&c->at[w->stretch % CHUNKS], chunk, memory_order_relaxed);
}

void chunks_begin(struct chunks *c, struct chunks_writer *w, uint32_t n)
{
	n = n < 1 ? 1 : n > CHUNKS ? CHUNKS : n;
	w->stretch = w->freed = own_head(c) / CHUNK;
	w->nspare = 0;
	uint16_t first = (uint16_t)(c->at[w->stretch % CHUNKS] % n);
	for (uint16_t i = (uint16_t)n; i-- > 0;)
		if (i != first)
			w->spare[w->nspare++] = i;
	chunks_take(c, w, first);
}

/* Take back what the reader has freed. */
static void take_back(const struct chunks *c, struct chunks_writer *w)
{
	uint64_t read = atomic_load_explicit(&c->ring.tail, memory_order_acquire) / CHUNK;
	for (; w->freed < read && w->freed < w->stretch; w->freed++)
		w->spare[w->nspare++] = w->order[w->freed % CHUNKS];
}

/* Move to the next stretch. False: no more chunks than `keep` are free. */
static bool go_on(struct chunks *c, struct chunks_writer *w, uint8_t *data, uint64_t head,
		  uint32_t keep)
{
	take_back(c, w);
	if (w->nspare <= keep)
		return false;
	if (head % CHUNK && CHUNK - head % CHUNK >= sizeof(uint64_t))
		memset(place(w, data, head), 0, sizeof(uint64_t));
	w->stretch++;
	chunks_take(c, w, w->spare[--w->nspare]);
	atomic_store_explicit(&c->ring.head, w->stretch * CHUNK, memory_order_release);
	return true;
}

void *chunks_room(struct chunks *c, struct chunks_writer *w, uint8_t *data, uint32_t most,
		  uint32_t keep)
{
	uint64_t head = own_head(c);
	if (w->nspare < keep)
		take_back(c, w);
	if (w->nspare < keep)
		return NULL;
	if (head / CHUNK == w->stretch && CHUNK - head % CHUNK >= most)
		return place(w, data, head);
	return go_on(c, w, data, head, keep) ? place(w, data, 0) : NULL;
}

void chunks_done(struct chunks *c, const struct hit *h)
{
	atomic_store_explicit(&c->ring.head, own_head(c) + padded(ring_bytes(h->size)),
			      memory_order_release);
}

static const struct hit *next(struct chunks *c, const uint8_t *data, bool brief, int *bad)
{
	uint64_t tail = atomic_load_explicit(&c->ring.tail, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&c->ring.head, memory_order_acquire);
	for (unsigned skips = 0; skips < 2 && head != tail; skips++) {
		uint16_t chunk = c->at[tail / CHUNK % CHUNKS];
		if (head < tail || head - tail > (uint64_t)CHUNKS * CHUNK || head % 8 || tail % 8 ||
		    chunk >= CHUNKS)
			return wrong(bad);
		uint64_t left = CHUNK - tail % CHUNK;
		const struct hit *h =
		    (const struct hit *)(data + (uint64_t)chunk * CHUNK + tail % CHUNK);
		const uint32_t size = *(const volatile __u32 *)&h->size, n = ring_bytes(size);
		const bool is_brief = size & RING_BRIEF;
		const uint32_t least = is_brief ? sizeof(uint64_t) : sizeof(*h);
		if (size)
			return n < least || padded(n) > head - tail || n > left || is_brief > brief
				   ? wrong(bad)
				   : h;
		tail += left;
		if (head < tail)
			return wrong(bad);
		atomic_store_explicit(&c->ring.tail, tail, memory_order_release);
	}
	return head == tail ? NULL : wrong(bad);
}

const struct hit *chunks_next(struct chunks *c, const uint8_t *data, int *bad)
{
	return next(c, data, false, bad);
}

const struct hit *chunks_next_any(struct chunks *c, const uint8_t *data, int *bad)
{
	return next(c, data, true, bad);
}

void chunks_drop(struct chunks *c, const struct hit *h)
{
	uint64_t tail = atomic_load_explicit(&c->ring.tail, memory_order_relaxed);
	atomic_store_explicit(&c->ring.tail, tail + padded(ring_bytes(h->size)),
			      memory_order_release);
}
