#define _GNU_SOURCE
#include "tracer/capture/measured.h"

#include <stdlib.h>

static struct measured *take_unused(struct measured_calls *c)
{
	struct measured *m = c->unused;
	if (!m)
		return calloc(1, sizeof(*m));
	c->unused = m->next;
	m->n = 0;
	return m;
}

struct measured *measured_begin(struct measured_calls *c, uint64_t id)
{
	struct measured *m = take_unused(c), **slot = &c->slot[id % MEASURED_SLOTS];
	if (!m)
		return NULL;
	m->id = id;
	m->next = *slot;
	*slot = m;
	return m;
}

struct measured *measured_find(const struct measured_calls *c, uint64_t id)
{
	struct measured *m = c->slot[id % MEASURED_SLOTS];
	while (m && m->id != id)
		m = m->next;
	return m;
}

struct tensor_stats *measured_row(struct measured *m, const struct tensor_place *place)
{
	if (m->n == m->size) {
		uint32_t size = m->size ? 2 * m->size : 8;
		struct tensor_stats *rows = reallocarray(m->rows, size, sizeof(*rows));
		if (!rows)
			return NULL;
		m->rows = rows;
		m->size = size;
	}
	struct tensor_stats *row = &m->rows[m->n++];
	*row = (struct tensor_stats){.place = *place};
	return row;
}

void measured_end(struct measured_calls *c, struct measured *m)
{
	struct measured **at = &c->slot[m->id % MEASURED_SLOTS];
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	snapshot_clear(&m->before);
	m->next = c->unused;
	c->unused = m;
}

void measured_choose(struct measured_calls *c, uint64_t id)
{
	if (!c->chosen)
		c->chosen = calloc(CHOSEN_MAX, sizeof(*c->chosen));
	if (c->chosen)
		c->chosen[c->nchosen++ % CHOSEN_MAX] = id;
}

bool measured_was_chosen(const struct measured_calls *c, uint64_t id)
{
	uint64_t low = c->nchosen > CHOSEN_MAX ? c->nchosen - CHOSEN_MAX : 0, high = c->nchosen;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (c->chosen[middle % CHOSEN_MAX] < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < c->nchosen && c->chosen[low % CHOSEN_MAX] == id;
}

static void free_list(struct measured *m)
{
	while (m) {
		struct measured *next = m->next;
		snapshot_free(&m->before);
		free(m->rows);
		free(m);
		m = next;
	}
}

void measured_free(struct measured_calls *c)
{
	for (unsigned i = 0; i < MEASURED_SLOTS; i++)
		free_list(c->slot[i]);
	free_list(c->unused);
	free(c->chosen);
	*c = (struct measured_calls){0};
}
