/* The union of many spans of time. The latest are held as they are; the earlier ones become busy
 * times of stretches, which double in length when there are too many. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "perf/report/devices.h"

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
