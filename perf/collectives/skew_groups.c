/* Which rank the others wait for, of all groups: which of them says most. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "perf/collectives/internal.h"

static int add_group(struct skew *s, const struct collective_world *w)
{
	struct skew_group *g = skew_group_new(s->c, w);
	if (!g)
		return -ENOMEM;
	if (!g->n) {
		skew_group_free(g);
		return 0;
	}
	s->groups[s->ngroups++] = g;
	s->nplaces += w->nranks;
	return 0;
}

/* The groups of each rank: places sorted by rank. */
static int find_places(struct skew *s)
{
	const size_t nranks = s->c->nranks;
	s->places = calloc(s->nplaces + 1, sizeof(*s->places));
	s->first = calloc(nranks + 2, sizeof(*s->first));
	s->rank_of = malloc((s->c->nprocesses + 1) * sizeof(*s->rank_of));
	if (!s->places || !s->first || !s->rank_of)
		return -ENOMEM;
	memset(s->rank_of, 0xff, s->c->nprocesses * sizeof(*s->rank_of));
	for (size_t i = 0; i < nranks; i++)
		s->rank_of[s->c->ranks[i]] = i;
	for (size_t i = 0; i < s->ngroups; i++)
		for (size_t k = 0; k < s->groups[i]->world->nranks; k++)
			s->first[s->groups[i]->world->ranks[k] + 2]++;
	for (size_t i = 0; i < nranks; i++)
		s->first[i + 2] += s->first[i + 1];
	/* first[r + 1]: where the next place of rank r goes; at last, where those of r + 1 begin */
	for (size_t i = 0; i < s->ngroups; i++)
		for (size_t k = 0; k < s->groups[i]->world->nranks; k++)
			s->places[s->first[s->groups[i]->world->ranks[k] + 1]++] =
			    (struct skew_place){s->groups[i], k};
	return 0;
}

struct skew *skew_new(const struct collectives *c)
{
	struct skew *s = calloc(1, sizeof(*s));
	int r = s ? 0 : -ENOMEM;
	if (s) {
		s->c = c;
		s->groups = calloc(c->nworlds + 1, sizeof(struct skew_group *));
		r = s->groups ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < c->nworlds && !r; i++)
		r = add_group(s, &c->worlds[i]);
	r = r ? r : find_places(s);
	if (!r)
		return s;
	skew_free(s);
	return NULL;
}

void skew_free(struct skew *s)
{
	if (!s)
		return;
	for (size_t i = 0; s->groups && i < s->ngroups; i++)
		skew_group_free(s->groups[i]);
	free(s->groups);
	free(s->places);
	free(s->first);
	free(s->rank_of);
	free(s);
}

/* The rank of a process that is compared; SIZE_MAX: none. */
static size_t rank_of(const struct skew *s, int32_t pid, uint32_t rank1)
{
	int64_t process = s->ngroups ? collective_process_of(s->c, pid, rank1) : -1;
	return process < 0 ? SIZE_MAX : s->rank_of[process];
}

int skew_see(struct skew *s, const struct op_event *ev)
{
	size_t rank = rank_of(s, ev->pid, ev->rank1);
	int r = 0;
	if (rank == SIZE_MAX)
		return 0;
	for (size_t i = s->first[rank]; i < s->first[rank + 1] && !r; i++)
		r = skew_group_see(s->places[i].group, s->places[i].place, ev);
	return r;
}

void skew_see_usage(struct skew *s, const struct trace_usage *u, uint32_t rank1)
{
	size_t rank = rank_of(s, u->pid, rank1);
	for (size_t i = rank == SIZE_MAX ? 0 : s->first[rank];
	     rank != SIZE_MAX && i < s->first[rank + 1]; i++)
		skew_group_see_usage(s->places[i].group, s->places[i].place, u);
}

/* A rank that is late in one group may only have waited in another one. */
const struct skew_group *skew_held_in(const struct skew *all, const struct skew_group *of,
				      size_t rank)
{
	for (size_t i = all->first[rank]; i < all->first[rank + 1]; i++) {
		struct skew_group *g = all->places[i].group;
		if (g == of)
			continue;
		const struct skew_verdict *v = skew_judged(g);
		if (v->is_named && v->rank != all->places[i].place)
			return g;
	}
	return NULL;
}

/* How long all others waited for it, all together. */
static uint64_t lost_ns(const struct skew_group *s, const struct skew_verdict *v)
{
	return s->ranks[v->rank].usual_ns * (s->world->nranks - 1);
}

/* A group, what it says, and whether the rank that it names waits itself in another one. */
struct said {
	const struct skew_group *group;
	const struct skew_verdict *v;
	bool is_held;
};

static struct said what_says(const struct skew *all, struct skew_group *g)
{
	struct said s = {.group = g, .v = skew_judged(g)};
	s.is_held = s.v->is_named && skew_held_in(all, g, g->world->ranks[s.v->rank]);
	return s;
}

static bool says_more(const struct said *a, const struct said *b)
{
	const struct skew_verdict *v = a->v, *w = b->v;
	if (v->is_named != w->is_named)
		return v->is_named;
	if (a->is_held != b->is_held)
		return b->is_held;
	if (v->is_named && v->explains != w->explains)
		return v->explains;
	return v->is_named ? lost_ns(a->group, v) > lost_ns(b->group, w)
			   : a->group->n > b->group->n;
}

const struct skew_group *skew_first(const struct skew *s)
{
	struct said first = {0};
	for (size_t i = 0; i < s->ngroups; i++) {
		const struct said said = what_says(s, s->groups[i]);
		if (!first.group || says_more(&said, &first))
			first = said;
	}
	return first.group;
}
