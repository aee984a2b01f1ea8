#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/options.h"
#include "perf/trace/internal.h"

/* The steps of one process. */
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

/* Parse "A-B", relative to `origin`. */
static int parse_time(struct trace_span *s, const char *time, uint64_t origin, struct err *e)
{
	char from[64];
	const char *dash = strchr(time, '-');
	uint64_t a = 0, b = UINT64_MAX - origin;
	if (!dash || (size_t)(dash - time) >= sizeof(from) || !time[1])
		return bad_time(time, e);
	snprintf(from, sizeof(from), "%.*s", (int)(dash - time), time);
	if ((from[0] && options_duration(from, &a)) || (dash[1] && options_duration(dash + 1, &b)))
		return bad_time(time, e);
	if (b <= a)
		return bad_time(time, e);
	s->from_ns = origin + a;
	s->to_ns = origin + b;
	return 0;
}

/* Processes of different hosts may have the same PID. */
static struct trace_steps *steps_of(struct trace_span *s, const struct op_event *ev)
{
	const int32_t key[2] = {ev->pid, (int32_t)ev->rank1};
	bool is_new;
	int64_t id = intern(&s->pids, key, sizeof(key), &is_new);
	if (id < 0 || array_grow(&s->processes, &s->room, (size_t)id + 1, sizeof(*s->processes)))
		return NULL;
	if (is_new)
		s->processes[id] = (struct trace_steps){.steps.op = s->step_op ? &s->op : NULL};
	return &s->processes[id];
}

int trace_span_see(struct trace_span *s, const struct op_event *ev)
{
	struct trace_steps *p = steps_of(s, ev);
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

static bool has_step(const struct trace_span *s, const struct trace_steps *p, uint64_t step)
{
	return ranges_have(&s->ranges, step) && (!s->whole || (step > 1 && step <= p->steps.done));
}

int trace_span_check(const struct trace_span *s, const char *path, struct err *e)
{
	uint64_t most = 0;
	for (size_t i = 0; i < s->pids.used; i++) {
		const struct trace_steps *p = &s->processes[i];
		if (!p->steps.done && !p->steps.inside)
			continue;
		for (uint64_t step = 1; step <= p->n; step++)
			if (has_step(s, p, step))
				return 0;
		if (p->n > most)
			most = p->n;
	}
	if (most && s->whole) {
		err_set(e, -ENOENT, "%s has no whole step%s%s", path,
			strcmp(s->step, "2-") ? " of --step " : "",
			strcmp(s->step, "2-") ? s->step : "");
		return err_hint(e, "steps count from 1; where the first one began is not known");
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

int trace_span_parse(struct trace_span *s, const struct trace_choice *c, uint64_t origin,
		     struct err *e)
{
	s->to_ns = UINT64_MAX;
	if (c->step_op && !c->step) {
		err_set(e, -EINVAL, "--step-op without --step");
		return err_hint(e, "say which step: --step 3");
	}
	int r = c->time ? parse_time(s, c->time, origin, e) : 0;
	if (r || (!c->step && !c->whole_steps))
		return r;
	s->whole = c->whole_steps;
	s->step = c->step ? c->step : "2-";
	s->step_op = c->step_op;
	r = ranges_parse("--step", s->step, &s->ranges, e);
	return r || !s->step_op ? r : filter_compile("--step-op", s->step_op, &s->op, e);
}

/* The step in progress at `ns`. */
static uint64_t step_at(const struct trace_steps *p, uint64_t ns)
{
	return array_up_to(p->starts, p->n, sizeof(*p->starts), ns);
}

uint64_t trace_span_steps(const struct trace_span *s)
{
	uint64_t most = 0;
	for (size_t i = 0; s->step && i < s->pids.used; i++) {
		const struct trace_steps *p = &s->processes[i];
		uint64_t n = 0;
		for (uint64_t step = 1; step <= p->n; step++)
			n += has_step(s, p, step);
		most = n > most ? n : most;
	}
	return most;
}

bool trace_span_has(const struct trace_span *s, const struct op_event *ev)
{
	if (ev->start_ns < s->from_ns || ev->start_ns >= s->to_ns)
		return false;
	if (!s->step)
		return true;
	const int32_t key[2] = {ev->pid, (int32_t)ev->rank1};
	int64_t id = intern_find(&s->pids, key, sizeof(key));
	const struct trace_steps *p = id < 0 ? NULL : &s->processes[id];
	return p && has_step(s, p, step_at(p, ev->start_ns));
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
