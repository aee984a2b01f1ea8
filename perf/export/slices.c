#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "perf/export/internal.h"

/* A frame has the end of the op that it is in. */
struct open_slice {
	uint64_t id, end_ns; /* end_ns UINT64_MAX: unfinished, or in no op */
	const struct py_frame *frame;
	const struct py_stack *stack; /* of the op */
	uint32_t number;
};

struct slice_thread {
	int32_t pid, tid;
	struct open_slice *open;
	size_t n, room;
	uint64_t last_ns;
};

struct slices {
	struct slices_to to;
	struct intern ids;
	struct slice_thread *threads;
	size_t room;
};

struct slices *slices_new(const struct slices_to *to)
{
	struct slices *s = calloc(1, sizeof(*s));
	if (s)
		s->to = *to;
	return s;
}

void slices_free(struct slices *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->ids.used && i < s->room; i++)
		free(s->threads[i].open);
	intern_free(&s->ids);
	free(s->threads);
	free(s);
}

int64_t slices_thread(struct slices *s, int32_t pid, int32_t tid)
{
	int32_t key[2] = {pid, tid};
	bool is_new;
	int64_t id = intern(&s->ids, key, sizeof(key), &is_new);
	if (id < 0 || array_grow(&s->threads, &s->room, (size_t)id + 1, sizeof(*s->threads)))
		return -ENOMEM;
	if (is_new)
		s->threads[id] = (struct slice_thread){.pid = pid, .tid = tid};
	return id;
}

/* An op ends at `latest_ns` at the latest, a frame with the last op in it. */
static int close_last(struct slices *s, uint32_t thread, uint64_t latest_ns)
{
	struct slice_thread *t = &s->threads[thread];
	struct open_slice o = t->open[--t->n];
	uint64_t end = o.end_ns < latest_ns ? o.end_ns : latest_ns;
	if (!o.frame && end > t->last_ns)
		t->last_ns = end;
	const struct slice_end e = {.pid = t->pid,
				    .tid = t->tid,
				    .thread = thread,
				    .number = o.number,
				    .end_ns = t->last_ns};
	return s->to.close(s->to.arg, &e);
}

static int open_next(struct slices *s, uint32_t thread, const struct py_frame *frame,
		     const struct op_event *ev)
{
	struct slice_thread *t = &s->threads[thread];
	if (ev->start_ns > t->last_ns)
		t->last_ns = ev->start_ns;
	uint64_t outer_ns = t->n ? t->open[t->n - 1].end_ns : UINT64_MAX;
	uint64_t end_ns = frame || !ev->end_ns ? UINT64_MAX : ev->end_ns;
	const struct slice slice = {.frame = frame,
				    .event = ev,
				    .thread = thread,
				    .depth = (uint32_t)t->n,
				    .start_ns = t->last_ns};
	int64_t number = s->to.open(s->to.arg, &slice);
	if (number < 0)
		return (int)number;
	if (array_grow(&t->open, &t->room, t->n + 1, sizeof(*t->open)))
		return -ENOMEM;
	t->open[t->n++] = (struct open_slice){.id = frame ? 0 : ev->id,
					      .end_ns = end_ns < outer_ns ? end_ns : outer_ns,
					      .frame = frame,
					      .stack = ev->stack,
					      .number = (uint32_t)number};
	return 0;
}

/* How many open slices enclose the event, whatever its stack: those up to its caller, or up to the
 * last op that has not ended. */
static size_t enclosing(const struct slice_thread *t, const struct op_event *ev)
{
	size_t n = 0;
	for (size_t i = t->n; i--;) {
		const struct open_slice *o = &t->open[i];
		if (!o->frame && ev->parent && o->id == ev->parent)
			return i + 1;
		if (!o->frame && !n && o->end_ns > ev->start_ns)
			n = i + 1;
	}
	return n;
}

/* How many outermost frames of the event's stack lie outside of its innermost open op; all of them
 * if it is not known where that op stands among them. */
static uint16_t outer_frames(const struct slice_thread *t, size_t ops, const struct op_event *ev)
{
	const struct py_stack *outer = ops ? t->open[ops - 1].stack : NULL;
	if (!ops)
		return 0;
	return outer && py_stack_lies_within(ev->stack, outer) ? outer->depth : ev->stack->depth;
}

int slices_add(struct slices *s, const struct op_event *ev)
{
	int64_t thread = slices_thread(s, ev->pid, ev->tid);
	if (thread < 0)
		return -ENOMEM;
	struct slice_thread *t = &s->threads[thread];
	size_t keep = enclosing(t, ev);
	uint16_t left = 0; /* frames to be opened */
	int r = 0;
	if (ev->stack)
		left = (uint16_t)(ev->stack->depth - outer_frames(t, keep, ev));
	while (left && keep < t->n && t->open[keep].frame == ev->stack->frames[left - 1]) {
		keep++;
		left--;
	}
	while (!r && t->n > keep)
		r = close_last(s, (uint32_t)thread, ev->start_ns);
	while (!r && left--)
		r = open_next(s, (uint32_t)thread, ev->stack->frames[left], ev);
	return r ? r : open_next(s, (uint32_t)thread, NULL, ev);
}

int slices_finish(struct slices *s)
{
	int r = 0;
	for (uint32_t i = 0; i < s->ids.used && i < s->room; i++) {
		struct slice_thread *t = &s->threads[i];
		uint64_t last = t->last_ns;
		for (size_t k = 0; k < t->n; k++)
			if (t->open[k].end_ns != UINT64_MAX && t->open[k].end_ns > last)
				last = t->open[k].end_ns;
		while (!r && t->n)
			r = close_last(s, i, last);
	}
	return r;
}

struct module_spans {
	module_span_fn *fn;
	void *arg;
	struct intern ids;	  /* of threads */
	struct module_span *open; /* by thread; name NULL: none is */
	size_t room;
};

struct module_spans *module_spans_new(module_span_fn *fn, void *arg)
{
	struct module_spans *m = calloc(1, sizeof(*m));
	if (m) {
		m->fn = fn;
		m->arg = arg;
	}
	return m;
}

void module_spans_free(struct module_spans *m)
{
	if (!m)
		return;
	intern_free(&m->ids);
	free(m->open);
	free(m);
}

static struct module_span *span_of(struct module_spans *m, const struct op_event *ev)
{
	int32_t key[2] = {ev->pid, ev->tid};
	bool is_new;
	int64_t id = intern(&m->ids, key, sizeof(key), &is_new);
	if (id < 0 || array_grow(&m->open, &m->room, (size_t)id + 1, sizeof(*m->open)))
		return NULL;
	if (is_new)
		m->open[id] =
		    (struct module_span){.pid = ev->pid, .tid = ev->tid, .is_first = true};
	return &m->open[id];
}

static int end_span(struct module_spans *m, struct module_span *s)
{
	int r = s->name ? m->fn(m->arg, s) : 0;
	s->is_first = s->is_first && !s->name;
	s->name = NULL;
	return r;
}

int module_spans_add(struct module_spans *m, const struct op_event *ev)
{
	const char *name = py_stack_module(ev->where_stack);
	struct module_span *s = ev->depth ? NULL : span_of(m, ev);
	int r = 0;
	if (!s)
		return ev->depth ? 0 : -ENOMEM;
	if (s->name && (!name || strcmp(s->name, name) != 0))
		r = end_span(m, s);
	if (!s->name) {
		s->name = name;
		s->start_ns = s->end_ns > ev->start_ns ? s->end_ns : ev->start_ns;
	}
	if (ev->end_ns > s->end_ns)
		s->end_ns = ev->end_ns;
	return r;
}

int module_spans_finish(struct module_spans *m)
{
	int r = 0;
	for (uint32_t i = 0; i < m->ids.used && i < m->room && !r; i++)
		r = end_span(m, &m->open[i]);
	return r;
}
