/* What devices did, in sums; and the union of many spans of time. */
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

static int compare_spans(const void *a, const void *b)
{
	const struct busy_span *x = a, *y = b;
	return (x->from > y->from) - (x->from < y->from);
}

/* Sort what is held, and join what overlaps. */
static void tidy_up(struct busy *b)
{
	size_t kept = 0;
	if (b->tidy || !b->n)
		return;
	qsort(b->held, b->n, sizeof(*b->held), compare_spans);
	for (size_t i = 1; i < b->n; i++) {
		struct busy_span s = b->held[i];
		if (s.from > b->held[kept].to)
			b->held[++kept] = s;
		else if (s.to > b->held[kept].to)
			b->held[kept].to = s.to;
	}
	b->n = kept + 1;
	b->tidy = true;
}

static void double_width(struct busy *b)
{
	for (size_t i = 0; i < BUSY_BINS; i++)
		b->bins[i] = i < BUSY_BINS / 2 ? b->bins[2 * i] + b->bins[2 * i + 1] : 0;
	b->width *= 2;
}

/* No stretch is busy for longer than it is. */
static void bin_span(struct busy *b, uint64_t from, uint64_t to)
{
	from = from > b->begin ? from : b->begin;
	while (from < to) {
		while ((from - b->begin) / b->width >= BUSY_BINS)
			double_width(b);
		size_t i = (size_t)((from - b->begin) / b->width);
		uint64_t room = b->width - (from - b->begin) % b->width;
		uint64_t part = room < to - from ? room : to - from;
		b->bins[i] += part < b->width - b->bins[i] ? part : b->width - b->bins[i];
		from += part;
	}
}

/* Hold the later half only. */
static int settle(struct busy *b)
{
	size_t n;
	tidy_up(b);
	if (b->n <= BUSY_HELD / 2)
		return 0;
	if (!b->bins) {
		b->bins = calloc(BUSY_BINS, sizeof(*b->bins));
		b->begin = b->held[0].from;
		b->width = 1 << 10;
	}
	if (!b->bins)
		return -ENOMEM;
	n = b->n - BUSY_HELD / 2;
	for (size_t i = 0; i < n; i++)
		bin_span(b, b->held[i].from, b->held[i].to);
	b->settled = b->held[n - 1].to;
	b->n -= n;
	memmove(b->held, b->held + n, b->n * sizeof(*b->held));
	return 0;
}

int busy_add(struct busy *b, uint64_t from, uint64_t to)
{
	struct busy_span *last = b->n ? &b->held[b->n - 1] : NULL;
	if (from < b->settled) {
		b->late = true;
		bin_span(b, from, to < b->settled ? to : b->settled);
		from = b->settled;
	}
	if (from >= to)
		return 0;
	if (last && from >= last->from && from <= last->to) {
		last->to = to > last->to ? to : last->to;
		return 0;
	}
	if (b->n == BUSY_HELD && settle(b))
		return -ENOMEM;
	if (array_grow(&b->held, &b->room, b->n + 1, sizeof(*b->held)))
		return -ENOMEM;
	b->tidy = b->tidy && (!b->n || from > b->held[b->n - 1].to);
	b->held[b->n++] = (struct busy_span){.from = from, .to = to};
	return 0;
}

static uint64_t overlap(uint64_t from, uint64_t to, uint64_t low, uint64_t high)
{
	from = from > low ? from : low;
	to = to < high ? to : high;
	return from < to ? to - from : 0;
}

/* Of a stretch that lies partly between, the same part of its time. */
uint64_t busy_between(struct busy *b, uint64_t from, uint64_t to, uint64_t *off)
{
	uint64_t ns = 0;
	*off = 0;
	tidy_up(b);
	for (size_t i = 0; i < b->n; i++)
		ns += overlap(b->held[i].from, b->held[i].to, from, to);
	for (size_t i = 0; b->bins && i < BUSY_BINS; i++) {
		uint64_t begin = b->begin + i * b->width;
		uint64_t inside = overlap(begin, begin + b->width, from, to);
		if (inside == b->width) {
			ns += b->bins[i];
		} else if (inside) {
			ns += (uint64_t)((double)b->bins[i] * (double)inside / (double)b->width);
			*off += b->bins[i] < inside ? b->bins[i] : inside;
		}
	}
	return ns;
}

void busy_free(struct busy *b)
{
	free(b->held);
	free(b->bins);
	*b = (struct busy){0};
}
