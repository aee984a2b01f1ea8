#include "base/arena.h"

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
