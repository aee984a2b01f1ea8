#include "symbolizer/node_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum { FIRST_SIZE = 1 << 12, LAST_SIZE = 1 << 18 };

static size_t slot_of(const struct node_table *t, uint64_t addr)
{
	return (addr * 0x9e3779b97f4a7c15ULL >> 20) & (t->size - 1);
}

/* The slot that holds `addr`, or the free one where it belongs. */
static struct node_owner *probe(const struct node_table *t, uint64_t addr)
{
	size_t i = slot_of(t, addr);
	while (t->slots[i].addr && t->slots[i].addr != addr)
		i = (i + 1) & (t->size - 1);
	return &t->slots[i];
}

static int grow(struct node_table *t)
{
	struct node_table bigger = {.size = t->size ? 2 * t->size : FIRST_SIZE, .used = t->used};
	bigger.slots = calloc(bigger.size, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < t->size; i++)
		if (t->slots[i].addr)
			*probe(&bigger, t->slots[i].addr) = t->slots[i];
	free(t->slots);
	*t = bigger;
	return 0;
}

static int make_room(struct node_map *m)
{
	struct node_table *y = &m->young;
	if (2 * (y->used + 1) <= y->size)
		return 0;
	if (y->size < LAST_SIZE)
		return grow(y);
	free(m->old.slots);
	m->old = *y;
	*y = (struct node_table){0};
	return grow(y);
}

static const struct node_owner *find_in(const struct node_table *t, uint64_t addr, uint64_t seq)
{
	if (!t->size || !addr)
		return NULL;
	const struct node_owner *o = probe(t, addr);
	return o->addr && o->seq == seq ? o : NULL;
}

const struct node_owner *node_map_find(const struct node_map *m, uint64_t addr, uint64_t seq)
{
	const struct node_owner *o = find_in(&m->young, addr, seq);
	return o ? o : find_in(&m->old, addr, seq);
}

int node_map_add(struct node_map *m, const struct node_owner *o)
{
	if (!o->addr || node_map_find(m, o->addr, o->seq))
		return 0;
	int r = make_room(m);
	if (r)
		return r;
	struct node_owner *at = probe(&m->young, o->addr);
	m->young.used += !at->addr;
	*at = *o;
	return 0;
}

void node_map_free(struct node_map *m)
{
	free(m->young.slots);
	free(m->old.slots);
	*m = (struct node_map){0};
}
