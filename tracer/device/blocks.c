/* The blocks of a process's memory: how much is freed is known from what was allocated there. */
#include <stdlib.h>

#include "tracer/device/internal.h"

static struct block *block_at(struct blocks *b, uint64_t address, bool add)
{
	int64_t at = map_get(&b->at, address);
	if (at >= 0)
		return &b->list[at];
	if (!add || array_grow(&b->list, &b->room, b->n + 1, sizeof(*b->list)) ||
	    map_put(&b->at, address, b->n))
		return NULL;
	b->list[b->n] = (struct block){.address = address};
	return &b->list[b->n++];
}

/* Forget the addresses of blocks that are free. */
static void blocks_compact(struct blocks *b)
{
	enum { FEW = 4096 };
	uint32_t n = 0;
	if (b->n < FEW || b->live > b->n / 4)
		return;
	for (uint32_t i = 0; i < b->n; i++)
		if (b->list[i].bytes)
			b->list[n++] = b->list[i];
	b->n = n;
	map_clear(&b->at);
	for (uint32_t i = 0; i < n; i++)
		map_put(&b->at, b->list[i].address, i);
}

bool blocks_allocated(struct blocks *b, struct memory_event *m, struct memory_event *before)
{
	blocks_compact(b);
	struct block *x = block_at(b, m->address, true);
	bool missed = x && x->bytes;
	if (missed) {
		*before = *m;
		before->freed = true;
		before->bytes = x->bytes;
		b->total -= x->bytes;
		before->total = b->total;
		b->live--;
	}
	b->total += m->bytes;
	m->total = b->total;
	if (x) {
		x->bytes = m->bytes;
		x->ns = m->of.start_ns;
		b->live++;
	}
	return missed;
}

bool blocks_freed(struct blocks *b, struct memory_event *m)
{
	struct block *x = block_at(b, m->address, false);
	if (x && m->of.start_ns < x->ns)
		return false;
	m->bytes = x ? x->bytes : 0;
	if (m->bytes) {
		b->total -= m->bytes;
		b->live--;
		x->bytes = 0;
	}
	m->total = b->total;
	return true;
}

void blocks_free(struct blocks *b)
{
	map_free(&b->at);
	free(b->list);
	*b = (struct blocks){0};
}
