#include "perf/report/devices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "symbolizer/event/names.h"

/* A kind of copy. */
struct copy {
	const char *name;
	uint64_t ns;
};

struct devices {
	struct intern ids, copy_ids; /* copy_ids: by name */
	struct device *list;
	struct copy *copies;
	size_t room, copies_room;
	struct arena arena;
};

struct devices *devices_new(void)
{
	return calloc(1, sizeof(struct devices));
}

void devices_free(struct devices *d)
{
	if (!d)
		return;
	for (uint32_t i = 0; i < d->ids.used && i < d->room; i++)
		busy_free(&d->list[i].busy);
	intern_free(&d->ids);
	intern_free(&d->copy_ids);
	arena_free(&d->arena);
	free(d->list);
	free(d->copies);
	free(d);
}

static struct device *device_of(struct devices *d, const struct activity *a)
{
	const int32_t key[4] = {(int32_t)a->of.rank1, a->of.pid, a->device_type, a->device_index};
	bool is_new;
	int64_t id = intern(&d->ids, key, sizeof(key), &is_new);
	if (id < 0 || array_grow(&d->list, &d->room, (size_t)id + 1, sizeof(*d->list)))
		return NULL;
	if (is_new)
		d->list[id] = (struct device){.rank1 = a->of.rank1,
					      .pid = a->of.pid,
					      .type = a->device_type,
					      .index = a->device_index,
					      .first_ns = UINT64_MAX};
	return &d->list[id];
}

static int count_copy(struct devices *d, const char *name, uint64_t ns)
{
	size_t len = strlen(name);
	bool is_new;
	int64_t id = intern(&d->copy_ids, name, (uint32_t)len, &is_new);
	if (id < 0 || array_grow(&d->copies, &d->copies_room, (size_t)id + 1, sizeof(*d->copies)))
		return -ENOMEM;
	if (is_new)
		d->copies[id] = (struct copy){.name = arena_strndup(&d->arena, name, len)};
	d->copies[id].ns += ns;
	return d->copies[id].name ? 0 : -ENOMEM;
}

int devices_add(struct devices *d, const struct activity *a)
{
	struct device *of = device_of(d, a);
	uint64_t start = a->of.start_ns, end = a->of.end_ns > start ? a->of.end_ns : start;
	if (!of)
		return -ENOMEM;
	of->activities++;
	of->sum_ns += end - start;
	of->copies_ns += a->kind == ACTIVITY_COPY ? end - start : 0;
	of->first_ns = start < of->first_ns ? start : of->first_ns;
	of->last_ns = end > of->last_ns ? end : of->last_ns;
	int r = a->kind == ACTIVITY_COPY ? count_copy(d, a->name, end - start) : 0;
	return r ? r : busy_add(&of->busy, start, end);
}

struct device *devices_list(const struct devices *d, size_t *n)
{
	*n = d ? d->ids.used : 0;
	return d ? d->list : NULL;
}

const char *devices_longest_copy(const struct devices *d, uint64_t *ns)
{
	const char *name = NULL;
	*ns = 0;
	for (uint32_t i = 0; i < d->copy_ids.used; i++)
		if (!name || d->copies[i].ns > *ns) {
			name = d->copies[i].name;
			*ns = d->copies[i].ns;
		}
	return name;
}

const char *device_text(char *out, size_t size, const struct devices *d, const struct device *of)
{
	char name[32];
	bool alone = true;
	for (uint32_t i = 0; i < d->ids.used; i++)
		alone &= d->list[i].rank1 == of->rank1 && d->list[i].pid == of->pid;
	names_device(name, sizeof(name), of->type, of->index);
	if (alone)
		snprintf(out, size, "%s", name);
	else if (of->rank1)
		snprintf(out, size, "%s of rank %" PRIu32, name, of->rank1 - 1);
	else
		snprintf(out, size, "%s of pid %" PRId32, name, of->pid);
	return out;
}
