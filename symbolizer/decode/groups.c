/* Which group of torch.distributed a ProcessGroup is: by its address, from what Python knows. */
#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/internal.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/target/process.h"

/* A group that the process is or was in. */
struct known_group {
	uint64_t object;
	const struct group_desc *desc;
	bool several; /* another one was there before: which one a call is of is not certain */
};

struct groups {
	struct arena arena;
	struct python_groups_mark mark;
	struct known_group *all;
	size_t n, room;
};

static struct known_group *find(const struct groups *g, uint64_t object)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->all[i].object == object)
			return &g->all[i];
	return NULL;
}

static bool is_same(const struct group_desc *d, const struct python_group *p)
{
	return d->n == p->n && !memcmp(d->ranks, p->ranks, p->n * sizeof(*p->ranks)) &&
	       !strcmp(d->name, p->name);
}

static void add(struct groups *g, const struct python_group *p)
{
	struct known_group *k = find(g, p->object);
	if (k) {
		k->several |= !is_same(k->desc, p);
		return;
	}
	const struct group_desc *d = group_desc_copy(&g->arena, p->name, p->ranks, p->n);
	if (d && !array_grow(&g->all, &g->room, g->n + 1, sizeof(*g->all)))
		g->all[g->n++] = (struct known_group){.object = p->object, .desc = d};
}

static void look_again(struct groups *g, const struct py_runtime *py)
{
	struct python_group *now;
	int n = python_groups(py, &now);
	if (n < 0) {
		g->mark.entries = 0; /* try again */
		return;
	}
	for (int i = 0; i < n; i++)
		add(g, &now[i]);
	python_groups_free(now, (size_t)n);
}

const struct group_desc *groups_find(struct target *t, uint64_t object, int32_t *place)
{
	if (t->py && !t->groups)
		t->groups = calloc(1, sizeof(*t->groups));
	struct groups *g = t->py ? t->groups : NULL;
	if (!g)
		return NULL;
	if (python_groups_changed(t->py, &g->mark) > 0)
		look_again(g, t->py);
	const struct known_group *k = find(g, object);
	if (!k || k->several)
		return NULL;
	*place = -1;
	for (uint32_t i = 0; i < k->desc->n && t->rank.rank >= 0; i++)
		if (k->desc->ranks[i] == t->rank.rank)
			*place = (int32_t)i;
	return k->desc;
}

void groups_free(struct groups *g)
{
	if (!g)
		return;
	arena_free(&g->arena);
	free(g->all);
	free(g);
}
