/* Probes at the entries of ops, which are taken out and placed again in turns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/engine/bpf/internal.h"

/* Owners of these links: this, and the number of the process. */
enum { OWNER = 1 << 9 };

struct entries {
	struct entries *next;
	struct link_wanted wanted; /* points into `places` and to `path`, which is owned */
	char *path;
	uint64_t places[]; /* offsets, cookies */
};

static void free_one(struct entries *e)
{
	free(e->path);
	free(e);
}

int entries_add(struct entries **all, struct links *l, const struct link_wanted *w)
{
	const size_t size = w->n * sizeof(*w->offsets);
	struct entries *e = malloc(sizeof(*e) + 2 * size);
	char *path = strdup(w->path);
	if (!e || !path) {
		free(e);
		free(path);
		return -ENOMEM;
	}
	*e = (struct entries){.next = *all, .wanted = *w, .path = path};
	memcpy(e->places, w->offsets, size);
	memcpy(e->places + w->n, w->cookies, size);
	e->wanted.owner = OWNER | w->owner;
	e->wanted.path = path;
	e->wanted.offsets = e->places;
	e->wanted.cookies = e->places + w->n;
	const int r = links_add(l, &e->wanted);
	if (r)
		free_one(e);
	else
		*all = e;
	return r;
}

void entries_drop(struct entries **all, struct links *l, uint16_t proc)
{
	for (struct entries **at = all, *e; (e = *at);) {
		if (proc != ENGINE_ALL_PROCS && e->wanted.owner != (OWNER | proc)) {
			at = &e->next;
			continue;
		}
		if (l && proc != ENGINE_ALL_PROCS)
			links_drop(l, e->wanted.owner);
		*at = e->next;
		free_one(e);
	}
}

void entries_take_out(const struct entries *all, struct links *l)
{
	for (const struct entries *e = all; e; e = e->next)
		links_drop(l, e->wanted.owner);
	for (const struct entries *e = all; e; e = e->next)
		links_await(l, e->wanted.owner);
}

void entries_place(const struct entries *all, struct links *l)
{
	for (const struct entries *e = all; e; e = e->next)
		links_add(l, &e->wanted);
}
