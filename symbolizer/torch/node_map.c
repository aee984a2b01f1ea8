#include "symbolizer/torch/node_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum { FIRST_SIZE = 1 << 12, LAST_SIZE = 1 << 18 };

#define SEVERAL UINT64_MAX

static size_t owner_slot(const struct node_table *t, uint64_t addr)
{
	return (addr * 0x9e3779b97f4a7c15ULL >> 20) & (t->size - 1);
}

/* The slot of `addr`, or the empty one for it. */
static struct node_owner *probe(const struct node_table *t, uint64_t addr)
{
	size_t i = owner_slot(t, addr);
	while (t->slots[i].addr && t->slots[i].addr != addr)
		i = (i + 1) & (t->size - 1);
	return &t->slots[i];
}

static struct node_seq *probe_seq(const struct node_table *t, uint64_t seq)
{
	size_t i = seq & (t->size - 1);
	while (t->seqs[i].addr && t->seqs[i].seq != seq)
		i = (i + 1) & (t->size - 1);
	return &t->seqs[i];
}

static void add_seq(struct node_table *t, const struct node_owner *o)
{
	struct node_seq *at = probe_seq(t, o->seq);
	t->nseqs += !at->addr;
	if (!at->addr)
		*at = (struct node_seq){o->seq, o->addr, o->tid};
	else if (at->tid != o->tid)
		at->addr = SEVERAL;
}

static void free_table(struct node_table *t)
{
	free(t->slots);
	free(t->seqs);
	*t = (struct node_table){0};
}

static void put(struct node_table *t, const struct node_owner *o)
{
	*probe(t, o->addr) = *o;
	if (t->seqs)
		add_seq(t, o);
}

/* Drops the sequence numbers of nodes whose address has been reused. */
static int grow(struct node_table *t, bool by_seq)
{
	size_t size = 4 * t->used < t->size ? t->size : 2 * t->size;
	struct node_table bigger = {.size = size ? size : FIRST_SIZE, .used = t->used};
	bigger.slots = calloc(bigger.size, sizeof(*bigger.slots));
	bigger.seqs = by_seq ? calloc(bigger.size, sizeof(*bigger.seqs)) : NULL;
	if (!bigger.slots || (by_seq && !bigger.seqs)) {
		free_table(&bigger);
		return -ENOMEM;
	}
	for (size_t i = 0; i < t->size; i++)
		if (t->slots[i].addr)
			put(&bigger, &t->slots[i]);
	free_table(t);
	*t = bigger;
	return 0;
}

static int make_room(struct node_map *m)
{
	struct node_table *y = &m->young;
	if (2 * (y->used + 1) <= y->size && 2 * (y->nseqs + 1) <= y->size)
		return 0;
	if (y->size < LAST_SIZE || 4 * y->used < y->size)
		return grow(y, m->by_seq);
	free_table(&m->old);
	m->old = *y;
	*y = (struct node_table){0};
	return grow(y, m->by_seq);
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

static const struct node_seq *seq_in(const struct node_table *t, uint64_t seq)
{
	const struct node_seq *s = t->seqs ? probe_seq(t, seq) : NULL;
	return s && s->addr ? s : NULL;
}

/* Start the index by sequence number, with the nodes already known. */
static void count_seqs(struct node_map *m)
{
	struct node_table *all[] = {&m->young, &m->old};
	m->by_seq = true;
	for (unsigned k = 0; k < 2; k++) {
		struct node_table *t = all[k];
		t->seqs = t->size ? calloc(t->size, sizeof(*t->seqs)) : NULL;
		for (size_t i = 0; t->seqs && i < t->size; i++)
			if (t->slots[i].addr)
				add_seq(t, &t->slots[i]);
	}
}

const struct node_owner *node_map_find_seq(struct node_map *m, uint64_t seq)
{
	if (!m->by_seq)
		count_seqs(m);
	const struct node_seq *young = seq_in(&m->young, seq), *old = seq_in(&m->old, seq);
	const struct node_seq *found = old ? old : young;
	if (!found || found->addr == SEVERAL ||
	    (young && old && (young->addr == SEVERAL || young->tid != old->tid)))
		return NULL;
	return node_map_find(m, found->addr, seq);
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
	put(&m->young, o);
	return 0;
}

void node_map_free(struct node_map *m)
{
	free_table(&m->young);
	free_table(&m->old);
}
