#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { FIRST_SIZE = 64 };

uint32_t map_next(const struct map *m, uint64_t hash, uint32_t *pos)
{
	while (*pos < m->size) {
		const struct map_slot *s = &m->slot[(hash + *pos) & (m->size - 1)];

		++*pos;
		if (!s->item1)
			break;
		if (s->hash == hash)
			return s->item1 - 1;
	}
	return MAP_NONE;
}

static void insert(struct map *m, struct map_slot s)
{
	uint64_t i = s.hash;

	while (m->slot[i & (m->size - 1)].item1)
		i++;
	m->slot[i & (m->size - 1)] = s;
	m->used++;
}

/* Items of equal hash keep their order only if the copying starts behind an empty slot: a row of
 * slots may go on from the last to the first. */
static void copy_slots(struct map *to, const struct map *from)
{
	uint32_t start = 0;

	while (start < from->size && from->slot[start].item1)
		start++;
	for (uint32_t i = 0; i < from->size; i++) {
		struct map_slot s = from->slot[(start + i) & (from->size - 1)];

		if (s.item1)
			insert(to, s);
	}
}

/* Room for one more; the slots are at most half full. */
static int make_room(struct map *m)
{
	struct map bigger = {.size = m->size ? m->size * 2 : FIRST_SIZE};

	if (m->used < m->size / 2)
		return 0;
	bigger.slot = bigger.size ? calloc(bigger.size, sizeof(*bigger.slot)) : NULL;
	if (!bigger.slot)
		return -ENOMEM;
	copy_slots(&bigger, m);
	free(m->slot);
	*m = bigger;
	return 0;
}

int map_add(struct map *m, uint64_t hash, uint32_t item)
{
	int rc = make_room(m);

	if (!rc)
		insert(m, (struct map_slot){hash, item + 1});
	return rc;
}

/* A bijection (an odd factor and an xor-shift can be undone), so keys are equal when their hashes
 * are and need not be stored or compared. */
static uint64_t hash_of_key(uint64_t key)
{
	uint64_t h = key * 0x9e3779b97f4a7c15ULL;

	return h ^ h >> 32;
}

int64_t map_get(const struct map *m, uint64_t key)
{
	uint32_t pos = 0, value = map_next(m, hash_of_key(key), &pos);

	return value == MAP_NONE ? -ENOENT : (int64_t)value;
}

int map_put(struct map *m, uint64_t key, uint32_t value)
{
	uint64_t hash = hash_of_key(key);
	uint32_t pos = 0;

	if (map_next(m, hash, &pos) == MAP_NONE)
		return map_add(m, hash, value);
	m->slot[(hash + pos - 1) & (m->size - 1)].item1 = value + 1;
	return 0;
}

void map_clear(struct map *m)
{
	if (m->slot)
		memset(m->slot, 0, m->size * sizeof(*m->slot));
	m->used = 0;
}

void map_free(struct map *m)
{
	free(m->slot);
	*m = (struct map){0};
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 m = (unsigned __int128)a * b;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

uint64_t map_hash(const void *bytes, size_t len, uint64_t seed)
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

struct intern_item {
	const void *bytes;
	uint32_t len;
};

static int64_t find_interned(const struct intern *t, uint64_t hash, const void *bytes, uint32_t len)
{
	uint32_t pos = 0, i;
	while ((i = map_next(&t->index, hash, &pos)) != MAP_NONE)
		if (t->items[i].len == len && !memcmp(t->items[i].bytes, bytes, len))
			return i;
	return -ENOENT;
}

int64_t intern(struct intern *t, const void *bytes, uint32_t len, bool *is_new)
{
	uint64_t hash = map_hash(bytes, len, 0);
	int64_t id = find_interned(t, hash, bytes, len);
	*is_new = false;
	if (id >= 0)
		return id;
	if (array_grow(&t->items, &t->room, (size_t)t->used + 1, sizeof(*t->items)))
		return -ENOMEM;
	char *copy = arena_strndup(&t->arena, bytes, len);
	if (!copy || map_add(&t->index, hash, t->used))
		return -ENOMEM;
	t->items[t->used] = (struct intern_item){copy, len};
	t->bytes += len + 1;
	*is_new = true;
	return t->used++;
}

const char *intern_text(struct intern *t, const char *text)
{
	bool is_new;
	int64_t id = intern(t, text, (uint32_t)strlen(text), &is_new);
	return id < 0 ? NULL : t->items[id].bytes;
}

int64_t intern_find(const struct intern *t, const void *bytes, uint32_t len)
{
	return find_interned(t, map_hash(bytes, len, 0), bytes, len);
}

void intern_free(struct intern *t)
{
	arena_free(&t->arena);
	map_free(&t->index);
	free(t->items);
	*t = (struct intern){0};
}

/* Blocks of memory. */

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
