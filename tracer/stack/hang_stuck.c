/* The collectives that ranks wait in, and which part each rank has in them. */
#include <stdlib.h>
#include <string.h>

#include "tracer/stack/internal.h"

static bool same_group(const struct hang_group *a, const struct hang_group *b)
{
	return !strcmp(a->name, b->name) && !strcmp(a->backend, b->backend) &&
	       a->nranks == b->nranks && !memcmp(a->ranks, b->ranks, a->nranks * sizeof(*a->ranks));
}

const struct hang_group *hang_group_of(const struct hang_rank *r, const struct hang_group *g)
{
	for (size_t i = 0; i < r->ngroups; i++)
		if (same_group(&r->groups[i], g))
			return &r->groups[i];
	return NULL;
}

static bool is_member(const struct hang_group *g, int32_t rank)
{
	for (size_t i = 0; i < g->nranks; i++)
		if (g->ranks[i] == rank)
			return true;
	return false;
}

static uint64_t number_of(const struct hang_group *g, const struct hang_call *c)
{
	return c->number ? c->number : g->count;
}

const struct hang_call *hang_call_of(const struct hang_rank *r, const struct hang_stuck *s)
{
	const struct hang_group *g = hang_group_of(r, s->group);
	for (size_t i = 0; g && i < g->ncalls; i++)
		if (number_of(g, &g->calls[i]) == s->number)
			return &g->calls[i];
	return NULL;
}

enum hang_part hang_part_of(const struct hang_rank *r, const struct hang_stuck *s)
{
	const struct hang_group *g = hang_group_of(r, s->group);
	if (!g && !is_member(s->group, r->rank))
		return PART_OUTSIDE;
	if (r->state != HANG_HERE)
		return r->state == HANG_ENDED ? PART_GONE : PART_UNSEEN;
	if (hang_call_of(r, s))
		return PART_CALLS;
	if (g && !g->counted)
		return PART_PAST; /* for all that is known */
	if (!g || g->count < s->number)
		return PART_BEHIND;
	return s->has_calls ? PART_PAST : PART_CALLS;
}

void hang_find_stuck(struct hang *h, const struct hang_group *g)
{
	struct hang_stuck s = {.group = g, .number = UINT64_MAX};
	uint64_t least = UINT64_MAX, most = 0;
	for (size_t i = 0; i < h->nstuck; i++)
		if (same_group(h->stuck[i].group, g))
			return;
	for (size_t i = 0; i < h->n; i++) {
		const struct hang_group *x = hang_group_of(&h->ranks[i], g);
		for (size_t k = 0; x && k < x->ncalls; k++) {
			uint64_t number = number_of(x, &x->calls[k]);
			s.number = number < s.number ? number : s.number;
			s.has_calls = true;
		}
		if (!x || !x->counted)
			continue;
		least = x->count < least ? x->count : least;
		most = x->count > most ? x->count : most;
	}
	if (!s.has_calls && (!strcmp(g->backend, "gloo") || most <= least))
		return;
	if (!s.has_calls)
		s.number = least + 1;
	h->stuck[h->nstuck++] = s;
}

const struct hang_group *hang_waits_in(const struct hang_rank *r)
{
	const struct hang_group *found = NULL;
	for (size_t i = 0; i < r->ngroups && r->in_collective; i++) {
		if (r->groups[i].ncalls && found)
			return NULL;
		if (r->groups[i].ncalls)
			found = &r->groups[i];
	}
	return found;
}

bool hang_same_call(const struct hang_call *a, const struct hang_call *b)
{
	return !strcmp(a->kind, b->kind) && (!strcmp(a->tensors, b->tensors) || !a->tensors[0] ||
					     !b->tensors[0] || !strcmp(a->kind, "all_to_all"));
}

bool hang_differs(const struct hang *h, const struct hang_stuck *s, const struct hang_call **a,
		  const struct hang_call **b)
{
	*a = NULL;
	for (size_t i = 0; i < h->n; i++) {
		*b = hang_call_of(&h->ranks[i], s);
		if (*a && *b && !hang_same_call(*a, *b))
			return true;
		*a = *a ? *a : *b;
	}
	return false;
}

struct hang_stuck *hang_stuck_of(const struct hang *h, const struct hang_rank *r)
{
	const struct hang_group *g = hang_waits_in(r);
	for (size_t i = 0; g && i < h->nstuck; i++)
		if (same_group(h->stuck[i].group, g) && hang_call_of(r, &h->stuck[i]))
			return &h->stuck[i];
	return NULL;
}

size_t hang_waits_for(const struct hang *h, size_t i)
{
	const struct hang_stuck *s = hang_stuck_of(h, &h->ranks[i]);
	for (size_t k = 0; s && k < h->n; k++)
		if (hang_part_of(&h->ranks[k], s) == PART_BEHIND && hang_stuck_of(h, &h->ranks[k]))
			return k;
	return h->n;
}

bool hang_has_cause(const struct hang *h, const struct hang_stuck *s)
{
	const struct hang_call *a, *b;
	for (size_t i = 0; i < h->n; i++) {
		enum hang_part p = hang_part_of(&h->ranks[i], s);
		if (p == PART_GONE || (p == PART_BEHIND && !hang_waits_in(&h->ranks[i])))
			return true;
	}
	return hang_differs(h, s, &a, &b);
}
