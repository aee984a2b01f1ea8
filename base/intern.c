#include "base/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SIZE = 256 };

/* Fast; not resistant to crafted collisions. */
static uint32_t hash_of(const void *bytes, size_t len)
{
	const unsigned char *p = bytes;
	uint64_t h = len * 0x9e3779b97f4a7c15u, w;
	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&w, p, 8);
		h = (h ^ w) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	w = 0;
	memcpy(&w, p, len);
	h = (h ^ w) * 0xff51afd7ed558ccdu;
	return (uint32_t)(h ^ h >> 32);
}

/* The slot that holds the bytes, or the empty one where they belong. */
static struct intern_slot *find_slot(const struct intern *t, uint32_t hash, const void *bytes,
				     uint32_t len)
{
	for (uint32_t i = hash & (t->size - 1);; i = (i + 1) & (t->size - 1)) {
		struct intern_slot *s = &t->slots[i];
		if (!s->id1 || (s->hash == hash && s->len == len && !memcmp(s->bytes, bytes, len)))
			return s;
	}
}

static int intern_grow(struct intern *t)
{
	uint32_t size = t->size ? t->size * 2 : FIRST_SIZE;
	struct intern_slot *slots = calloc(size, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->size; i++) {
		if (!t->slots[i].id1)
			continue;
		uint32_t at = t->slots[i].hash & (size - 1);
		while (slots[at].id1)
			at = (at + 1) & (size - 1);
		slots[at] = t->slots[i];
	}
	free(t->slots);
	t->slots = slots;
	t->size = size;
	return 0;
}

int64_t intern(struct intern *t, const void *bytes, uint32_t len, bool *is_new)
{
	*is_new = false;
	if (t->used >= t->size / 4 * 3 && intern_grow(t))
		return -ENOMEM;
	uint32_t hash = hash_of(bytes, len);
	struct intern_slot *s = find_slot(t, hash, bytes, len);
	if (s->id1)
		return s->id1 - 1;
	char *copy = arena_strndup(&t->arena, bytes, len);
	if (!copy)
		return -ENOMEM;
	*s = (struct intern_slot){hash, ++t->used, len, copy};
	t->bytes += len + 1;
	*is_new = true;
	return s->id1 - 1;
}

int64_t intern_find(const struct intern *t, const void *bytes, uint32_t len)
{
	if (!t->size)
		return -ENOENT;
	const struct intern_slot *s = find_slot(t, hash_of(bytes, len), bytes, len);
	return s->id1 ? (int64_t)s->id1 - 1 : -ENOENT;
}

void intern_free(struct intern *t)
{
	arena_free(&t->arena);
	free(t->slots);
	*t = (struct intern){0};
}

static uint32_t ptr_hash(const void *key)
{
	return (uint32_t)(((uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u) >> 32);
}

static struct ptrmap_slot *ptr_slot(struct ptrmap_slot *slots, uint32_t size, const void *key)
{
	uint32_t i = ptr_hash(key) & (size - 1);
	while (slots[i].key && slots[i].key != key)
		i = (i + 1) & (size - 1);
	return &slots[i];
}

int64_t ptrmap_get(const struct ptrmap *m, const void *key)
{
	if (!m->size)
		return -ENOENT;
	const struct ptrmap_slot *s = ptr_slot(m->slots, m->size, key);
	return s->key ? (int64_t)s->value : -ENOENT;
}

static int ptrmap_grow(struct ptrmap *m)
{
	uint32_t size = m->size ? m->size * 2 : FIRST_SIZE;
	struct ptrmap_slot *slots = calloc(size, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->size; i++)
		if (m->slots[i].key)
			*ptr_slot(slots, size, m->slots[i].key) = m->slots[i];
	free(m->slots);
	m->slots = slots;
	m->size = size;
	return 0;
}

int ptrmap_put(struct ptrmap *m, const void *key, uint32_t value)
{
	if (m->used >= m->size / 4 * 3 && ptrmap_grow(m))
		return -ENOMEM;
	*ptr_slot(m->slots, m->size, key) = (struct ptrmap_slot){key, value};
	m->used++;
	return 0;
}

void ptrmap_free(struct ptrmap *m)
{
	free(m->slots);
	*m = (struct ptrmap){0};
}
