#include "base/block_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"

struct block *block_table_get(const struct block_table *t, uint64_t key)
{
	int64_t at = map_get(&t->at, key);
	return at >= 0 ? &t->list[at] : NULL;
}

/* Forget the keys of blocks that are free. */
static void block_table_compact(struct block_table *t)
{
	enum { FEW = 4096 };
	uint32_t n = 0;
	if (t->n < FEW || t->live > t->n / 4)
		return;
	for (uint32_t i = 0; i < t->n; i++)
		if (t->list[i].bytes)
			t->list[n++] = t->list[i];
	t->n = n;
	map_clear(&t->at);
	for (uint32_t i = 0; i < n; i++)
		map_put(&t->at, t->list[i].key, i);
}

int block_table_put(struct block_table *t, uint64_t key, uint64_t bytes, uint64_t tag,
		    struct block *before)
{
	block_table_compact(t);
	struct block *b = block_table_get(t, key);
	*before = b ? *b : (struct block){.key = key};
	if (!b) {
		if (array_grow(&t->list, &t->room, t->n + (size_t)1, sizeof(*t->list)) ||
		    map_put(&t->at, key, t->n))
			return -ENOMEM;
		b = &t->list[t->n++];
	}
	t->live += !before->bytes;
	*b = (struct block){key, bytes, tag};
	return 0;
}

struct block block_table_take(struct block_table *t, uint64_t key)
{
	struct block *b = block_table_get(t, key);
	const struct block was = b ? *b : (struct block){.key = key};
	if (was.bytes) {
		b->bytes = 0;
		t->live--;
	}
	return was;
}

void block_table_free(struct block_table *t)
{
	map_free(&t->at);
	free(t->list);
	*t = (struct block_table){0};
}
