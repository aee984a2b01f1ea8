#include "symbolizer/torch/layout.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/torch/internal.h"

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

enum { NODE_WORDS = 40, FIRST_WORDS = 8 };

/* The offset of the only UINT64_MAX among the first words of an AccumulateGrad node: its sequence
 * number. 0 if there is none, or several. */
static unsigned accumulate_offset(const struct mem *m, uint64_t node)
{
	uint64_t w[FIRST_WORDS];
	unsigned found = 0, count = 0;
	if (mem_read(m, node, w, sizeof(w)))
		return 0;
	for (unsigned i = 1; i < FIRST_WORDS; i++)
		if (w[i] == UINT64_MAX) {
			found = 8 * i;
			count++;
		}
	return count == 1 ? found : 0;
}

static bool is_node(struct rtti *r, uint64_t addr, const char *class)
{
	return rtti_is_a(rtti_of_object(r, addr), class);
}

/* The offset of the sequence number, from an AccumulateGrad that one of the node's edges leads to
 * (the first word of an Edge is the node, torch/csrc/autograd/edge.h); 0 if there is none. */
static unsigned edge_offset(struct rtti *r, const struct mem *m, const uint64_t *words)
{
	for (unsigned i = 1; i + 1 < NODE_WORDS; i++) {
		uint64_t bytes = words[i + 1] - words[i], edges[8];
		/* begin and end of a vector of 16-byte Edges */
		if (words[i] < 0x1000 || words[i] >> 47 || words[i] & 7 || !bytes || bytes % 16 ||
		    bytes > 4096)
			continue;
		uint64_t n = bytes < sizeof(edges) ? bytes : sizeof(edges);
		if (mem_read(m, words[i], edges, (size_t)n))
			continue;
		for (unsigned k = 0; k < n / 8; k += 2) {
			unsigned off;
			if (is_node(r, edges[k], CLASS_ACCUMULATE) &&
			    (off = accumulate_offset(m, edges[k])))
				return off;
		}
	}
	return 0;
}

int layout_learn_node(struct tensor_layout *l, uint64_t node, struct rtti *r, const struct mem *m)
{
	uint64_t words[NODE_WORDS];
	if (l->node_sequence_nr != LAYOUT_NONE)
		return 0;
	if (!node || !is_node(r, node, CLASS_NODE) || mem_read(m, node, words, sizeof(words)))
		return -EAGAIN;
	unsigned off = edge_offset(r, m, words);
	/* ordinary sequence numbers count from 0; a pointer would be far larger */
	if (!off || words[off / 8] >> 40)
		return -EAGAIN;
	l->node_sequence_nr = (uint16_t)off;
	l->unknown &= ~(uint32_t)LAYOUT_NODE;
	return 0;
}
