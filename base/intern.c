#include "base/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct intern_item {
	const void *bytes;
	uint32_t len;
};

static int64_t find(const struct intern *t, uint64_t hash, const void *bytes, uint32_t len)
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
	int64_t id = find(t, hash, bytes, len);
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

int64_t intern_find(const struct intern *t, const void *bytes, uint32_t len)
{
	return find(t, map_hash(bytes, len, 0), bytes, len);
}

void intern_free(struct intern *t)
{
	arena_free(&t->arena);
	map_free(&t->index);
	free(t->items);
	*t = (struct intern){0};
}
