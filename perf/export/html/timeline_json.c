/* Timelines of steps as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "perf/events/print_event.h"
#include "perf/export/html/internal.h"

static uint64_t duration(const struct timeline_slice *s)
{
	return s->end_ns - s->start_ns;
}

static int descending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x < y) - (x > y);
}

/* What a slice must be longer than, so that at most `most` are left. */
static int shortest(const struct timeline_span *s, size_t most, uint64_t *floor)
{
	*floor = 0;
	if (s->n <= most)
		return 0;
	uint64_t *times = malloc(s->n * sizeof(*times));
	if (!times)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++)
		times[i] = duration(&s->list[i]);
	qsort(times, s->n, sizeof(*times), descending);
	*floor = times[most];
	free(times);
	return 0;
}

enum column { THREAD, START, DURATION, DEPTH, KIND, NAME, SHAPES, PLACE, COLUMNS };

static int64_t place_of(struct page_names *names, const struct timeline_slice *s)
{
	const struct py_frame *f = s->frame;
	char text[CALL_FRAME_TEXT_MAX + 256];
	if (s->parameter)
		return page_name(names, parameter_text(text, sizeof(text), s->parameter));
	size_t len = f ? call_frame_text(text, f) : 0;
	text[len] = '\0';
	if (f && f->text)
		snprintf(text + len, sizeof(text) - len, ": %.200s", f->text);
	return page_name(names, text);
}

/* A start is the time since the slice before. */
static int64_t cell(enum column c, const struct timeline_slice *s, uint64_t before,
		    struct page_names *names)
{
	char text[CALL_FRAME_TEXT_MAX];
	switch (c) {
	case THREAD:
		return s->thread;
	case START:
		return (int64_t)(s->start_ns - before);
	case DURATION:
		return (int64_t)duration(s);
	case DEPTH:
		return s->depth;
	case KIND:
		return s->block ? 2 + PHASES : s->ran ? 1 + PHASES : s->op ? 1 + s->phase : 0;
	case NAME:
		if (s->ran || s->block)
			return page_name(names, s->ran ? s->ran : s->block);
		if (!s->op)
			call_frame_text(text, s->frame);
		return page_name(names, s->op ? op_text(s->op->name) : text);
	case SHAPES:
		return page_name(names, s->shapes);
	default:
		return place_of(names, s);
	}
}

static int put_columns(const struct timeline_span *s, uint64_t start, uint64_t floor,
		       struct json_out *j, struct page_names *names)
{
	static const char *const keys[COLUMNS] = {"thread", "start", "ns",     "depth",
						  "kind",   "name",  "shapes", "place"};
	for (enum column c = 0; c < COLUMNS; c++) {
		uint64_t before = start;
		json_line(j);
		json_open(j, keys[c], '[');
		for (size_t i = 0; i < s->n; i++) {
			if (floor && duration(&s->list[i]) <= floor)
				continue;
			int64_t v = cell(c, &s->list[i], before, names);
			if (c >= NAME && v < 0)
				return -ENOMEM;
			json_i64(j, NULL, v);
			before = s->list[i].start_ns;
		}
		json_close(j, ']');
	}
	return 0;
}

static int put_span(const struct timeline_span *s, struct json_out *j, struct page_names *names,
		    size_t most)
{
	uint64_t floor = 0, start = s->step ? s->step->start_ns : 0,
		 end = s->step ? s->step->end_ns : 0;
	size_t shown = 0;
	if (shortest(s, most, &floor))
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		shown += !floor || duration(&s->list[i]) > floor;
		if (!s->step && (!start || s->list[i].start_ns < start))
			start = s->list[i].start_ns;
		if (!s->step && s->list[i].end_ns > end)
			end = s->list[i].end_ns;
	}
	json_line(j);
	json_open(j, NULL, '{');
	json_u64(j, "step", s->step ? s->step->number : 0);
	json_u64(j, "length_ns", end - start);
	json_u64(j, "ops", s->ops);
	json_u64(j, "left_out", s->n - shown);
	json_u64(j, "floor_ns", floor);
	int r = put_columns(s, start, floor, j, names);
	json_close(j, '}');
	return r;
}

static void put_threads(const struct page_timeline *t, struct json_out *j)
{
	json_line(j);
	json_open(j, "threads", '[');
	for (uint32_t i = 0; i < t->thread_ids.used; i++) {
		json_open(j, NULL, '[');
		json_i64(j, NULL, t->threads[i].pid);
		json_i64(j, NULL, t->threads[i].tid); /* 0: a stream of a device */
		json_text(j, NULL, t->threads[i].name);
		if (t->threads[i].is_blocks)
			json_u64(j, NULL, 1);
		json_close(j, ']');
	}
	json_close(j, ']');
}

int page_timeline_json(const struct page_timeline *t, struct json_out *j, struct page_names *names,
		       size_t most)
{
	size_t all = 0;
	int r = 0;
	for (size_t i = 0; i < t->n; i++)
		all += t->spans[i].n;
	put_threads(t, j);
	json_line(j);
	json_open(j, "whole", '[');
	for (size_t i = 0; i < t->n && !r; i++) {
		const struct timeline_span *s = &t->spans[i];
		r = put_span(s, j, names, all <= most ? s->n : most * s->n / all);
	}
	json_close(j, ']');
	return r;
}
