/* Timelines of steps: what is drawn, by thread and stream. */
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

/* The shapes of the tensor arguments; NULL if out of memory. */
static const char *shapes_of(struct page_timeline *t, const struct op_event *ev)
{
	char text[EVENT_TENSORS_MAX];
	return intern_text(&t->texts, event_shapes(text, sizeof(text), ev));
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
	const char *kept = intern_text(&t->texts, key);
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
	intern_free(&t->texts);
	intern_free(&t->thread_ids);
	arena_free(&t->arena);
	free(t->spans);
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
	return intern_text(&t->texts, text);
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
		if (b->start_ns >= end)
			break;
		int64_t thread = thread_of_block(s->all, b);
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
