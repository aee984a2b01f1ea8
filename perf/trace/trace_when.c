#include "perf/trace/trace_when.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "perf/trace/trace_read.h"

/* Ops by their number, as the events of the file name them. */
struct seen {
	const struct op_desc **ops;
	size_t n, room;
};

static int see(struct seen *s, const struct op_desc *op)
{
	while (op->id >= s->room) {
		size_t room = s->room ? 2 * s->room : 1024;
		const struct op_desc **ops = reallocarray(s->ops, room, sizeof(*ops));
		if (!ops)
			return -ENOMEM;
		for (size_t i = s->room; i < room; i++)
			ops[i] = NULL;
		s->ops = ops;
		s->room = room;
	}
	s->ops[op->id] = op;
	return 0;
}

static int check(struct trace_when *w, struct seen *s, bool more, struct err *e)
{
	for (size_t i = 0; i < s->room; i++)
		if (s->ops[i])
			s->ops[s->n++] = s->ops[i];
	return when_check(w->when, s->ops, s->n, more, e);
}

int trace_when_open(struct trace_when *w, const char *path, struct err *e)
{
	struct trace_reader *reader;
	struct trace_item item;
	struct seen seen = {0};
	int n, r = w->text ? when_compile("--when", w->text, &w->when, e) : 0;
	if (r || !w->text || trace_reader_open(path, &reader, NULL))
		return r;
	while (!r && (n = trace_read_next(reader, &item, NULL)) > 0)
		if (item.type == TRACE_EVENT || (item.type == TRACE_SAMPLE && item.sample.op))
			r = see(&seen, item.type == TRACE_EVENT ? item.event.op : item.sample.op);
	r = r ? err_set(e, r, "no memory to read %s", path) : check(w, &seen, n == -EAGAIN, e);
	free(seen.ops);
	trace_reader_close(reader);
	return r;
}

bool trace_when_chooses(struct trace_when *w, const struct op_event *ev)
{
	return !w->when || when_chooses(w->when, ev, &w->counts);
}

void trace_when_print(const struct trace_when *w)
{
	char text[128];
	if (w->when)
		fprintf(stderr, "ditrace: %s\n", when_counts_text(text, sizeof(text), &w->counts));
}

void trace_when_close(struct trace_when *w)
{
	when_free(w->when);
	w->when = NULL;
}
