#include "perf/trace/trace_span.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/options.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/ops/filter.h"

/* Of one process. */
struct trace_steps {
	struct steps steps;
	uint64_t *starts; /* when each step began */
	size_t n, room;
};

static int bad_time(const char *text, struct err *e)
{
	err_set(e, -EINVAL, "--time %s: not a span of time", text);
	return err_hint(e, "from and to, since the trace was begun: --time 3s-5s, 500ms-, -2m");
}

/* "A-B" with `origin` the zero of both. */
static int parse_time(struct trace_span *s, uint64_t origin, struct err *e)
{
	char from[64];
	const char *dash = strchr(s->time, '-');
	uint64_t a = 0, b = UINT64_MAX - origin;
	if (!dash || (size_t)(dash - s->time) >= sizeof(from) || !s->time[1])
		return bad_time(s->time, e);
	snprintf(from, sizeof(from), "%.*s", (int)(dash - s->time), s->time);
	if ((from[0] && options_duration(from, &a)) || (dash[1] && options_duration(dash + 1, &b)))
		return bad_time(s->time, e);
	if (b <= a)
		return bad_time(s->time, e);
	s->from_ns = origin + a;
	s->to_ns = origin + b;
	return 0;
}

static struct trace_steps *steps_of(struct trace_span *s, int32_t pid)
{
	bool is_new;
	int64_t id = intern(&s->pids, &pid, sizeof(pid), &is_new);
	if (id < 0 || array_grow(&s->processes, &s->room, (size_t)id + 1, sizeof(*s->processes)))
		return NULL;
	if (is_new)
		s->processes[id] = (struct trace_steps){.steps.op = s->step_op ? &s->op : NULL};
	return &s->processes[id];
}

static int see_event(struct trace_span *s, const struct op_event *ev)
{
	struct trace_steps *p = steps_of(s, ev->pid);
	if (!p)
		return -ENOMEM;
	uint64_t step = steps_see(&p->steps, ev);
	if (step <= p->n)
		return 0;
	if (array_grow(&p->starts, &p->room, (size_t)step, sizeof(*p->starts)))
		return -ENOMEM;
	while (p->n < step)
		p->starts[p->n++] = ev->start_ns;
	return 0;
}

static int find_steps(struct trace_span *s, struct trace_reader *reader)
{
	struct trace_order *order = trace_order_new(reader, false);
	struct trace_item item;
	int r = order ? 0 : -ENOMEM;
	while (!r && trace_order_next(order, &item, NULL) > 0)
		if (item.type == TRACE_EVENT)
			r = see_event(s, &item.event);
	trace_order_free(order);
	return r;
}

/* That a step that was asked for is there. */
static int check_steps(const struct trace_span *s, const char *path, struct err *e)
{
	uint64_t most = 0;
	for (size_t i = 0; i < s->pids.used; i++) {
		const struct trace_steps *p = &s->processes[i];
		if (!p->steps.done && !p->steps.inside)
			continue;
		for (uint64_t step = 1; step <= p->n; step++)
			if (ranges_have(&s->ranges, step))
				return 0;
		if (p->n > most)
			most = p->n;
	}
	if (most) {
		err_set(e, -ENOENT, "--step %s: %s has %" PRIu64 " steps", s->step, path, most);
		return err_hint(e, "choose among 1-%" PRIu64, most);
	}
	err_set(e, -ENOENT, "--step %s: %s has no end of a step%s%s", s->step, path,
		s->step_op ? ", no call of " : ": no call of an optimizer's step",
		s->step_op ? s->step_op : "");
	return err_hint(e, "name an op that ends a step: --step-op aten::_foreach_add_");
}

static int open_steps(struct trace_span *s, struct trace_reader *reader, const char *path,
		      struct err *e)
{
	int r = ranges_parse("--step", s->step, &s->ranges, e);
	r = r || !s->step_op ? r : filter_compile("--step-op", s->step_op, &s->op, e);
	if (r)
		return r;
	r = find_steps(s, reader);
	return r ? err_set(e, r, "no memory to read %s", path) : check_steps(s, path, e);
}

int trace_span_open(struct trace_span *s, const char *path, struct err *e)
{
	struct trace_reader *reader;
	int r = 0;
	s->to_ns = UINT64_MAX;
	if (s->step_op && !s->step) {
		err_set(e, -EINVAL, "--step-op without --step");
		return err_hint(e, "say which step: --step 3");
	}
	if (!s->time && !s->step)
		return 0;
	r = trace_reader_open(path, &reader, e);
	if (r)
		return r;
	if (s->time)
		r = parse_time(s, trace_reader_origin(reader), e);
	if (!r && s->step)
		r = open_steps(s, reader, path, e);
	trace_reader_close(reader);
	return r;
}

/* The step that was going on. */
static uint64_t step_at(const struct trace_steps *p, uint64_t ns)
{
	return array_up_to(p->starts, p->n, sizeof(*p->starts), ns);
}

bool trace_span_has(const struct trace_span *s, const struct op_event *ev)
{
	if (ev->start_ns < s->from_ns || ev->start_ns >= s->to_ns)
		return false;
	if (!s->step)
		return true;
	int64_t id = intern_find(&s->pids, &ev->pid, sizeof(ev->pid));
	return id >= 0 && ranges_have(&s->ranges, step_at(&s->processes[id], ev->start_ns));
}

void trace_span_close(struct trace_span *s)
{
	for (size_t i = 0; i < s->pids.used && i < s->room; i++)
		free(s->processes[i].starts);
	free(s->processes);
	intern_free(&s->pids);
	ranges_free(&s->ranges);
	filter_free(&s->op);
}

/* Ops by their number, as the events of the file name them. */
struct seen {
	const struct op_desc **ops;
	size_t n, room;
};

static int see_op(struct seen *s, const struct op_desc *op)
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
			r = see_op(&seen,
				   item.type == TRACE_EVENT ? item.event.op : item.sample.op);
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
