#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "perf/export/internal.h"

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
	const char *name = ev->where_stack ? ev->where_stack->module : NULL;
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
