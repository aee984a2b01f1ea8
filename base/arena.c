#define _GNU_SOURCE
#include "base/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_SIZE = 64 << 10, ALIGN = 16 };

struct arena_block {
	struct arena_block *next;
	size_t size;
	_Alignas(ALIGN) unsigned char data[];
};

static int arena_grow(struct arena *a, size_t size)
{
	size_t want = size > BLOCK_SIZE ? size : BLOCK_SIZE;
	struct arena_block *b = malloc(sizeof(*b) + want);
	if (!b)
		return -1;
	b->next = a->blocks;
	b->size = want;
	a->blocks = b;
	a->used = 0;
	return 0;
}

void *arena_alloc(struct arena *a, size_t size)
{
	if (size > (size_t)-1 / 2)
		return NULL;
	size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if ((!a->blocks || a->blocks->size - a->used < size) && arena_grow(a, size))
		return NULL;
	void *p = a->blocks->data + a->used;
	a->used += size;
	return memset(p, 0, size);
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	char *p = arena_alloc(a, n + 1);
	if (p)
		memcpy(p, s, n);
	return p;
}

void arena_reset(struct arena *a)
{
	while (a->blocks && a->blocks->next) {
		struct arena_block *b = a->blocks;
		a->blocks = b->next;
		free(b);
	}
	a->used = 0;
}

void arena_free(struct arena *a)
{
	arena_reset(a);
	free(a->blocks);
	a->blocks = NULL;
}

int array_grow(void *array, size_t *room, size_t need, size_t each)
{
	enum { LEAST = 16 };
	void *old, *p;
	if (need <= *room)
		return 0;
	size_t more = *room ? 2 * *room : LEAST;
	if (more < need)
		more = need;
	memcpy(&old, array, sizeof(old));
	p = reallocarray(old, more, each);
	if (!p)
		return -ENOMEM;
	memcpy(array, &p, sizeof(p));
	*room = more;
	return 0;
}

size_t array_up_to(const void *array, size_t n, size_t each, uint64_t key)
{
	size_t low = 0, high = n;
	while (low < high) {
		size_t middle = (low + high) / 2;
		uint64_t at;
		memcpy(&at, (const char *)array + middle * each, sizeof(at));
		if (at <= key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}
