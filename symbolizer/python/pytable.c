#include "symbolizer/python/pytable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint32_t pytable_next(const struct pytable *t, uint64_t hash, uint32_t *pos)
{
	while (*pos < t->size) {
		const struct pytable_slot *s = &t->slot[(hash + *pos) & (t->size - 1)];

		++*pos;
		if (!s->item)
			break;
		if (s->hash == hash)
			return s->item - 1;
	}
	return PYTABLE_NONE;
}

static void put(struct pytable *t, uint64_t hash, uint32_t item)
{
	uint64_t i = hash;

	while (t->slot[i & (t->size - 1)].item)
		i++;
	t->slot[i & (t->size - 1)] = (struct pytable_slot){.hash = hash, .item = item + 1};
	t->used++;
}

static int grow(struct pytable *t)
{
	struct pytable bigger = {.size = t->size ? t->size * 2 : 64};

	if (bigger.size < t->size)
		return -ENOMEM;
	bigger.slot = calloc(bigger.size, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->size; i++)
		if (t->slot[i].item)
			put(&bigger, t->slot[i].hash, t->slot[i].item - 1);
	free(t->slot);
	*t = bigger;
	return 0;
}

int pytable_add(struct pytable *t, uint64_t hash, uint32_t item)
{
	if (t->used >= t->size / 2) {
		int rc = grow(t);

		if (rc)
			return rc;
	}
	put(t, hash, item);
	return 0;
}

void pytable_clear(struct pytable *t)
{
	if (t->slot)
		memset(t->slot, 0, t->size * sizeof(*t->slot));
	t->used = 0;
}

void pytable_free(struct pytable *t)
{
	free(t->slot);
	*t = (struct pytable){0};
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 m = (unsigned __int128)a * b;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

uint64_t pytable_hash(const void *bytes, size_t len, uint64_t seed)
{
	const uint64_t k0 = 0x9e3779b97f4a7c15ULL, k1 = 0xd1342543de82ef95ULL;
	const char *p = bytes;
	uint64_t h = seed ^ mix(len ^ k0, k1);
	uint64_t w[2];

	for (; len >= 16; len -= 16, p += 16) {
		memcpy(w, p, 16);
		h = mix(w[0] ^ k0 ^ h, w[1] ^ k1);
	}
	w[0] = w[1] = 0;
	memcpy(w, p, len);
	return mix(w[0] ^ k0 ^ h, w[1] ^ k1 ^ h);
}
