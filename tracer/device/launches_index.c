/* The launches of a process by correlation, and, while they wait for an op, those of a thread by
 * time.
 */
#include <stdlib.h>

#include "base/arena.h"
#include "tracer/device/internal.h"

enum { FIRST_ROOM = 256, SPARED_MOST = 64 };

void correlations_begin(struct correlations *c)
{
	*c = (struct correlations){.free_ran = NO_LAUNCH};
	for (unsigned i = 0; i < LAUNCH_SETTLED; i++)
		c->lists[i] = (struct launch_list){NO_LAUNCH, NO_LAUNCH};
}

static uint32_t *place_of(const struct correlations *c, uint32_t correlation)
{
	/* They count up. */
	return &c->place[correlation & (2 * c->room - 1)];
}

uint32_t correlations_find(const struct correlations *c, uint32_t correlation)
{
	uint32_t i = c->room ? *place_of(c, correlation) : NO_LAUNCH;
	while (i != NO_LAUNCH && c->launch[i].correlation != correlation)
		i = c->launch[i].same;
	return i;
}

static void index_add(struct correlations *c, uint32_t launch)
{
	uint32_t *place = place_of(c, c->launch[launch].correlation);
	c->launch[launch].same = *place;
	*place = launch;
}

static void index_remove(struct correlations *c, uint32_t launch)
{
	uint32_t *at = place_of(c, c->launch[launch].correlation);
	while (*at != launch)
		at = &c->launch[*at].same;
	*at = c->launch[launch].same;
}

static void launches_grow(struct correlations *c)
{
	uint32_t room = c->room ? 2 * c->room : FIRST_ROOM;
	uint32_t *place = malloc(2 * (size_t)room * sizeof(*place));
	struct launch *launch = place ? reallocarray(c->launch, room, sizeof(*c->launch)) : NULL;
	if (!launch) {
		free(place);
		return;
	}
	free(c->place);
	c->place = place;
	c->launch = launch;
	c->room = room;
	for (uint32_t i = 0; i < 2 * room; i++)
		place[i] = NO_LAUNCH;
	for (uint32_t i = 0; i < c->n; i++)
		index_add(c, i);
}

uint32_t correlations_oldest(struct correlations *c, uint64_t used)
{
	if (c->n == c->room && c->room < LAUNCHES_MOST)
		launches_grow(c);
	if (c->n < c->room || !c->n)
		return NO_LAUNCH;
	for (unsigned i = 0; i < SPARED_MOST && c->launch[c->oldest].used > used; i++)
		c->oldest = (c->oldest + 1) % c->n;
	return c->oldest;
}

uint32_t correlations_add(struct correlations *c, uint32_t correlation, uint64_t stamp)
{
	uint32_t launch = c->n;
	if (!c->room)
		return NO_LAUNCH;
	if (c->n < c->room) {
		c->n++;
	} else {
		launch = c->oldest;
		c->oldest = (c->oldest + 1) % c->n;
		index_remove(c, launch);
	}
	c->launch[launch] = (struct launch){
	    .stamp = stamp,
	    .correlation = correlation,
	    .ran = NO_LAUNCH,
	    .last_ran = NO_LAUNCH,
	};
	index_add(c, launch);
	return launch;
}

static void list_remove(struct correlations *c, uint32_t launch)
{
	const struct launch *l = &c->launch[launch];
	struct launch_list *list = &c->lists[l->state];
	*(l->before == NO_LAUNCH ? &list->first : &c->launch[l->before].behind) = l->behind;
	*(l->behind == NO_LAUNCH ? &list->last : &c->launch[l->behind].before) = l->before;
}

static void list_append(struct correlations *c, uint32_t launch)
{
	struct launch *l = &c->launch[launch];
	struct launch_list *list = &c->lists[l->state];
	l->before = list->last;
	l->behind = NO_LAUNCH;
	*(list->last == NO_LAUNCH ? &list->first : &c->launch[list->last].behind) = launch;
	list->last = launch;
}

static uint32_t ran_new(struct correlations *c)
{
	uint32_t i = c->free_ran;
	if (i != NO_LAUNCH) {
		c->free_ran = c->ran[i].next;
		return i;
	}
	if (c->nran == RANS_MOST || array_grow(&c->ran, &c->ran_room, c->nran + 1, sizeof(*c->ran)))
		return NO_LAUNCH;
	return c->nran++;
}

bool correlations_keep(struct correlations *c, uint32_t launch, const struct activity *a)
{
	struct launch *l = &c->launch[launch];
	uint32_t i = ran_new(c);
	if (i == NO_LAUNCH)
		return false;
	c->ran[i] = (struct ran){
	    .start_ns = a->of.start_ns,
	    .end_ns = a->of.end_ns,
	    .bytes = a->bytes,
	    .name = a->name,
	    .stream = a->stream,
	    .next = NO_LAUNCH,
	    .kind = (uint8_t)a->kind,
	    .device_type = a->device_type,
	    .device_index = a->device_index,
	    .in_graph = a->in_graph,
	};
	if (l->ran == NO_LAUNCH)
		list_append(c, launch);
	*(l->ran == NO_LAUNCH ? &l->ran : &c->ran[l->last_ran].next) = i;
	l->last_ran = i;
	return true;
}

bool correlations_take(struct correlations *c, uint32_t launch, struct activity *a)
{
	struct launch *l = &c->launch[launch];
	uint32_t i = l->ran;
	if (i == NO_LAUNCH)
		return false;
	const struct ran *r = &c->ran[i];
	*a = (struct activity){
	    .of = {.start_ns = r->start_ns, .end_ns = r->end_ns},
	    .kind = r->kind,
	    .device_type = r->device_type,
	    .device_index = r->device_index,
	    .in_graph = r->in_graph,
	    .stream = r->stream,
	    .bytes = r->bytes,
	    .name = r->name,
	};
	l->ran = r->next;
	c->ran[i].next = c->free_ran;
	c->free_ran = i;
	if (l->ran == NO_LAUNCH && l->state != LAUNCH_SETTLED)
		list_remove(c, launch);
	return true;
}

void correlations_set(struct correlations *c, uint32_t launch, enum launch_state state)
{
	struct launch *l = &c->launch[launch];
	bool is_listed = l->ran != NO_LAUNCH;
	if (is_listed && l->state != LAUNCH_SETTLED)
		list_remove(c, launch);
	l->state = (uint8_t)state;
	if (is_listed && state != LAUNCH_SETTLED)
		list_append(c, launch);
}

void correlations_free(struct correlations *c)
{
	free(c->launch);
	free(c->place);
	free(c->ran);
	*c = (struct correlations){0};
}

/* By time. */

static int compare_waiting(const void *a, const void *b)
{
	const struct waiting_launch *x = a, *y = b;
	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static void waiting_compact(struct waiting *w)
{
	size_t n = 0;
	for (size_t i = w->first; i < w->n; i++)
		if (w->at[i].launch != NO_LAUNCH)
			w->at[n++] = w->at[i];
	w->first = 0;
	w->n = n;
}

static void waiting_sort(struct waiting *w)
{
	if (!w->unsorted)
		return;
	waiting_compact(w);
	qsort(w->at, w->n, sizeof(*w->at), compare_waiting);
	w->unsorted = false;
}

void waiting_trim(struct waiting *w)
{
	enum { FEW = 1024 };
	waiting_sort(w);
	while (w->first < w->n && w->at[w->first].launch == NO_LAUNCH)
		w->first++;
	if (w->first == w->n)
		w->first = w->n = 0;
	if (w->n > FEW && w->live < w->n / 2)
		waiting_compact(w);
}

bool waiting_add(struct waiting *w, uint64_t ns, uint32_t launch)
{
	if (array_grow(&w->at, &w->room, w->n + 1, sizeof(*w->at)))
		return false;
	w->unsorted |= w->n > w->first && w->at[w->n - 1].ns > ns;
	w->at[w->n++] = (struct waiting_launch){ns, launch};
	w->live++;
	return true;
}

size_t waiting_from(struct waiting *w, uint64_t ns)
{
	waiting_sort(w);
	return ns ? w->first +
			array_up_to(w->at + w->first, w->n - w->first, sizeof(*w->at), ns - 1)
		  : w->first;
}

uint32_t waiting_take(struct waiting *w, size_t i)
{
	uint32_t launch = w->at[i].launch;
	w->live -= launch != NO_LAUNCH;
	w->at[i].launch = NO_LAUNCH;
	return launch;
}

void waiting_drop(struct waiting *w, uint64_t ns, uint32_t launch)
{
	for (size_t i = waiting_from(w, ns); i < w->n && w->at[i].ns == ns; i++)
		if (w->at[i].launch == launch)
			waiting_take(w, i);
	waiting_trim(w);
}
