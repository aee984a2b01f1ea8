#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "perf/events/print_event.h"
#include "perf/export/html/internal.h"
#include "perf/export/internal.h"
#include "perf/report/blocks.h"

/* Of a trace without steps. */
enum { FIRST_OPS = 20000 };

struct timeline_slice {
	uint64_t start_ns, end_ns;
	const struct op_desc *op;     /* NULL: a Python frame, or of a device */
	const char *ran;	      /* what a device did; else NULL */
	const char *block;	      /* the name of a block; else NULL */
	const struct py_frame *frame; /* itself, or the one that locates the op; may be NULL */
	const char *parameter;	      /* in its place; else NULL */
	const char *shapes;	      /* of a device: what launched it */
	uint32_t thread, depth;
	uint8_t phase;
};

/* What is in one step. */
struct timeline_span {
	struct page_timeline *all;
	const struct breakdown_step *step; /* NULL: no step */
	struct slices *slices;
	struct timeline_slice *list;
	size_t n, room, ops;
	struct export_activities activities; /* of its time */
	struct code_block *blocks;	     /* of its time */
	size_t nblocks, blocks_room;
};

struct timeline_thread {
	int32_t pid, tid;
	const char *name;
	bool is_blocks; /* of the thread */
};

struct page_timeline {
	const struct page_steps *steps;
	struct timeline_span *spans; /* of whole steps, in order; or one */
	size_t n;
	struct intern shape_ids, thread_ids;
	const char **shapes;
	struct timeline_thread *threads;
	size_t shapes_room, threads_room;
	struct arena arena;
	struct block_pairs blocks;
};

/* Our own copy of the text; NULL if out of memory. */
static const char *kept_text(struct page_timeline *t, const char *text)
{
	bool is_new;
	int64_t id = intern(&t->shape_ids, text, (uint32_t)strlen(text), &is_new);
	if (id < 0 || array_grow(&t->shapes, &t->shapes_room, (size_t)id + 1, sizeof(*t->shapes)))
		return NULL;
	if (is_new)
		t->shapes[id] = arena_strndup(&t->arena, text, strlen(text));
	return t->shapes[id];
}

/* The shapes of the tensor arguments; NULL if out of memory. */
static const char *shapes_of(struct page_timeline *t, const struct op_event *ev)
{
	char text[EVENT_TENSORS_MAX];
	return kept_text(t, event_shapes(text, sizeof(text), ev));
}

/* The number of a thread, or what stands for one, by its key. */
static int64_t track_of(struct page_timeline *t, const void *key, size_t len,
			const struct timeline_thread *is)
{
	bool is_new;
	int64_t id = intern(&t->thread_ids, key, (uint32_t)len, &is_new);
	if (id < 0 ||
	    array_grow(&t->threads, &t->threads_room, (size_t)id + 1, sizeof(*t->threads)))
		return -ENOMEM;
	if (is_new)
		t->threads[id] = *is;
	return id;
}

static int64_t thread_of(struct page_timeline *t, int32_t pid, int32_t tid)
{
	const int32_t key[2] = {pid, tid};
	return track_of(t, key, sizeof(key),
			&(struct timeline_thread){.pid = pid, .tid = tid, .name = ""});
}

static int64_t thread_of_block(struct page_timeline *t, const struct code_block *b)
{
	const int32_t key[3] = {b->pid, b->tid, 1};
	return track_of(
	    t, key, sizeof(key),
	    &(struct timeline_thread){.pid = b->pid, .tid = b->tid, .name = "", .is_blocks = true});
}

/* A stream has no thread id. */
static int64_t thread_of_stream(struct page_timeline *t, const struct export_stream *s)
{
	char key[96], name[64];
	int n = snprintf(key, sizeof(key), "process %" PRId32 " ", s->pid);
	snprintf(name, sizeof(name), "%s stream %" PRIu32, s->device_name, s->stream);
	strcat(key, name);
	const char *kept = kept_text(t, key);
	return kept ? track_of(t, key, strlen(key),
			       &(struct timeline_thread){.pid = s->pid, .name = kept + n})
		    : -ENOMEM;
}

static int64_t open_slice(void *arg, const struct slice *slice)
{
	struct timeline_span *s = arg;
	const struct op_event *ev = slice->event;
	int64_t thread = thread_of(s->all, ev->pid, ev->tid);
	const char *shapes = slice->frame ? "" : shapes_of(s->all, ev);
	if (thread < 0 || !shapes || array_grow(&s->list, &s->room, s->n + 1, sizeof(*s->list)))
		return -ENOMEM;
	s->list[s->n] = (struct timeline_slice){
	    .start_ns = slice->start_ns,
	    .op = slice->frame ? NULL : ev->op,
	    .frame = slice->frame ? slice->frame : py_stack_where(ev->where_stack),
	    .parameter = slice->frame ? NULL : py_stack_parameter(ev->where_stack),
	    .shapes = shapes,
	    .thread = (uint32_t)thread,
	    .depth = slice->depth,
	    .phase = ev->phase};
	return (int64_t)s->n++;
}

static int close_slice(void *arg, const struct slice_end *end)
{
	struct timeline_span *s = arg;
	s->list[end->number].end_ns = end->end_ns;
	return 0;
}

static int open_span(struct page_timeline *t, const struct breakdown_step *step)
{
	struct timeline_span *s = &t->spans[t->n++];
	const struct slices_to to = {.open = open_slice, .close = close_slice, .arg = s};
	*s = (struct timeline_span){.all = t, .step = step, .slices = slices_new(&to)};
	return s->slices ? 0 : -ENOMEM;
}

/* In each span that it lies in. */
static int keep_block(void *arg, const struct code_block *b)
{
	struct page_timeline *t = arg;
	for (size_t i = 0; i < t->n; i++) {
		struct timeline_span *s = &t->spans[i];
		bool is_in = s->step ? b->start_ns < s->step->end_ns &&
					   (!b->end_ns || b->end_ns > s->step->start_ns)
				     : s->nblocks < FIRST_OPS;
		if (!is_in)
			continue;
		if (array_grow(&s->blocks, &s->blocks_room, s->nblocks + 1, sizeof(*s->blocks)))
			return -ENOMEM;
		s->blocks[s->nblocks++] = *b;
	}
	return 0;
}

struct page_timeline *page_timeline_new(const struct page_steps *steps)
{
	struct page_timeline *t = calloc(1, sizeof(*t));
	if (t)
		t->spans = calloc(steps->n + 1, sizeof(*t->spans));
	int r = t && t->spans ? 0 : -ENOMEM;
	for (size_t i = 0; i < steps->n && !r; i++)
		if (steps->list[i].whole)
			r = open_span(t, &steps->list[i].step);
	if (!r && !t->n)
		r = open_span(t, NULL);
	if (!r) {
		t->steps = steps;
		t->blocks = (struct block_pairs){.end = keep_block, .arg = t};
		return t;
	}
	page_timeline_free(t);
	return NULL;
}

void page_timeline_free(struct page_timeline *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++) {
		slices_free(t->spans[i].slices);
		free(t->spans[i].list);
		export_activities_free(&t->spans[i].activities);
		free(t->spans[i].blocks);
	}
	block_pairs_free(&t->blocks);
	intern_free(&t->shape_ids);
	intern_free(&t->thread_ids);
	arena_free(&t->arena);
	free(t->spans);
	free(t->shapes);
	free(t->threads);
	free(t);
}

static struct timeline_span *span_of(struct page_timeline *t, const struct op_event *ev)
{
	if (!t->spans[0].step)
		return t->spans[0].ops < FIRST_OPS ? &t->spans[0] : NULL;
	const struct page_step *step = page_steps_at(t->steps, ev->start_ns);
	for (size_t i = 0; step && step->whole && i < t->n; i++)
		if (t->spans[i].step == &step->step)
			return &t->spans[i];
	return NULL;
}

int page_timeline_add(struct page_timeline *t, const struct op_event *ev)
{
	struct timeline_span *s = span_of(t, ev);
	if (!s)
		return 0;
	s->ops++;
	return slices_add(s->slices, ev);
}

int page_timeline_add_mark(struct page_timeline *t, const struct op_event *ev)
{
	return block_pairs_add(&t->blocks, ev);
}

int page_timeline_add_activity(struct page_timeline *t, const struct activity *a)
{
	int r = 0;
	for (size_t i = 0; i < t->n && !r; i++) {
		struct timeline_span *s = &t->spans[i];
		bool is_in =
		    s->step ? a->of.start_ns < s->step->end_ns && a->of.end_ns > s->step->start_ns
			    : s->activities.n < FIRST_OPS;
		r = is_in ? export_activities_add(&s->activities, a) : 0;
	}
	return r;
}

static uint64_t span_end(const struct timeline_span *s)
{
	uint64_t end = s->step ? s->step->end_ns : 0;
	for (size_t i = 0; i < s->n && !s->step; i++)
		end = s->list[i].end_ns > end ? s->list[i].end_ns : end;
	return end;
}

static const char *launch_text(struct page_timeline *t, const struct export_activity *a)
{
	char text[512], ns[32];
	int n = snprintf(text, sizeof(text), "%s%s", a->has_op ? "by " : "", a->op->name);
	if (a->launched_ns && a->launched_ns <= a->start_ns && n < (int)sizeof(text))
		snprintf(text + n, sizeof(text) - (size_t)n, ", %s after its launch",
			 text_ns(ns, sizeof(ns), a->start_ns - a->launched_ns));
	return kept_text(t, text);
}

static int add_device_slice(void *arg, const struct export_activity *a,
			    const struct export_stream *stream, uint32_t lane)
{
	struct timeline_span *s = arg;
	int64_t thread = thread_of_stream(s->all, stream);
	const char *launch = launch_text(s->all, a);
	if (thread < 0 || !launch || array_grow(&s->list, &s->room, s->n + 1, sizeof(*s->list)))
		return -ENOMEM;
	s->list[s->n++] = (struct timeline_slice){.start_ns = a->start_ns,
						  .end_ns = a->end_ns,
						  .ran = a->name,
						  .frame = a->where,
						  .parameter = a->parameter,
						  .shapes = launch,
						  .thread = (uint32_t)thread,
						  .depth = lane};
	return 0;
}

/* Those of the time that is drawn. */
static int add_devices(struct timeline_span *s)
{
	uint64_t end = span_end(s);
	size_t n = 0;
	for (size_t i = 0; i < s->activities.n; i++)
		if (s->activities.list[i].start_ns < end)
			s->activities.list[n++] = s->activities.list[i];
	s->activities.n = n;
	return export_activities_each(&s->activities, add_device_slice, s);
}

static int by_start(const void *a, const void *b)
{
	const struct code_block *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->slot > y->slot) - (x->slot < y->slot);
}

/* Those of the time that is drawn; of one whose end is not known, up to the end of that. */
static int add_blocks(struct timeline_span *s)
{
	const uint64_t end = span_end(s);
	if (s->nblocks)
		qsort(s->blocks, s->nblocks, sizeof(*s->blocks), by_start);
	for (size_t i = 0; i < s->nblocks; i++) {
		const struct code_block *b = &s->blocks[i];
		int64_t thread = thread_of_block(s->all, b);
		if (b->start_ns >= end)
			break;
		if (thread < 0 || array_grow(&s->list, &s->room, s->n + 1, sizeof(*s->list)))
			return -ENOMEM;
		s->list[s->n++] =
		    (struct timeline_slice){.start_ns = b->start_ns,
					    .end_ns = b->end_ns ? b->end_ns : end,
					    .block = b->name,
					    .frame = py_stack_where(b->stack),
					    .shapes = b->end_ns ? "" : "(end not known)",
					    .thread = (uint32_t)thread,
					    .depth = b->slot};
	}
	return 0;
}

int page_timeline_thread(struct page_timeline *t, int32_t pid, int32_t tid, const char *name)
{
	int64_t id = thread_of(t, pid, tid);
	if (id < 0)
		return -ENOMEM;
	t->threads[id].name = arena_strndup(&t->arena, name, strlen(name));
	return t->threads[id].name ? 0 : -ENOMEM;
}

int page_timeline_finish(struct page_timeline *t)
{
	int r = block_pairs_finish(&t->blocks);
	for (size_t i = 0; i < t->n && !r; i++)
		r = slices_finish(t->spans[i].slices);
	for (size_t i = 0; i < t->n && !r; i++) {
		r = add_devices(&t->spans[i]);
		r = r ? r : add_blocks(&t->spans[i]);
	}
	return r;
}

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
		return page_name(names, s->op ? s->op->name : text);
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
