/* What is taken of events, and kept of processes. */
#define _GNU_SOURCE
#include "perf/metrics/metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/collectives/collectives.h"
#include "perf/metrics/internal.h"

struct metrics *metrics_new(bool keep)
{
	struct metrics *m = calloc(1, sizeof(*m));
	if (m)
		m->keep = keep;
	return m;
}

static void free_series(struct metrics_series *s)
{
	aggregate_free(s->ops);
	breakdown_free(s->breakdown);
	free(s->steps.held);
	free(s->torch);
	free(s->python);
	free(s->engine);
	free(s);
}

void metrics_free(struct metrics *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->nseries; i++)
		free_series(m->series[i]);
	intern_free(&m->named);
	free(m->series);
	free(m->processes);
	free(m);
}

/* Of process `pid`, or (0) of the workers of that rank. NULL: no memory. */
static struct metrics_series *add_series(struct metrics *m, int32_t pid,
					 const struct process_rank *rank)
{
	struct metrics_series *s = calloc(1, sizeof(*s));
	if (!s || array_grow(&m->series, &m->series_room, m->nseries + 1, sizeof(*m->series))) {
		free(s);
		return NULL;
	}
	*s = (struct metrics_series){.pid = pid, .rank = *rank};
	m->series[m->nseries++] = s;
	return s;
}

/* Most processes that load data have none of these of their own. */
static int begin_series(struct metrics_series *s)
{
	s->ops = aggregate_new(AGGREGATE_OP | AGGREGATE_PHASE | AGGREGATE_STEADY);
	s->breakdown = s->pid ? breakdown_new() : NULL;
	if (!s->ops || (s->pid && !s->breakdown))
		return -ENOMEM;
	if (s->pid)
		breakdown_each_step(s->breakdown, metrics_hold_step, s);
	return 0;
}

static struct metrics_series *workers_of(struct metrics *m, const struct process_rank *rank)
{
	for (size_t i = 0; i < m->nseries; i++)
		if (!m->series[i]->pid && m->series[i]->rank.rank == rank->rank)
			return m->series[i];
	return add_series(m, 0, rank);
}

static bool is_of(const struct metrics_process *p, int32_t pid, uint32_t rank1)
{
	return p->pid == pid && (!rank1 || !p->rank1 || p->rank1 == rank1);
}

/* What comes of a process after its end was read counts, too. */
static struct metrics_process *find_process(struct metrics *m, int32_t pid, uint32_t rank1)
{
	if (m->last < m->nprocesses && is_of(&m->processes[m->last], pid, rank1))
		return &m->processes[m->last];
	for (size_t i = 0; i < m->nprocesses; i++)
		if (is_of(&m->processes[i], pid, rank1)) {
			m->last = i;
			return &m->processes[i];
		}
	return NULL;
}

static void end_process(struct metrics_process *p, uint64_t now_ns)
{
	if (!p->ended_ns)
		p->ended_ns = now_ns;
	if (p->series->pid)
		p->series->ended_ns = p->ended_ns;
}

static void remove_series(struct metrics *m, const struct metrics_series *s)
{
	size_t i = 0;
	while (m->series[i] != s)
		i++;
	free_series(m->series[i]);
	memmove(m->series + i, m->series + i + 1, (m->nseries - i - 1) * sizeof(*m->series));
	m->nseries--;
}

static void remove_process(struct metrics *m, size_t i)
{
	if (m->processes[i].series->pid)
		remove_series(m, m->processes[i].series);
	m->processes[i] = m->processes[--m->nprocesses];
}

int metrics_process(struct metrics *m, const struct trace_process *told)
{
	uint32_t rank1 = (uint32_t)(told->rank.rank + 1);
	struct metrics_process *old = find_process(m, told->pid, rank1);
	if (old && !old->ended_ns && old->series->pid && !old->series->ops) {
		old->rank1 = rank1;
		old->series->rank = told->rank;
		old->series->hidden = told->worker;
		return 0;
	}
	if (old)
		remove_process(m, (size_t)(old - m->processes));
	struct metrics_series *s = add_series(m, told->pid, &told->rank);
	if (!s ||
	    array_grow(&m->processes, &m->processes_room, m->nprocesses + 1, sizeof(*m->processes)))
		return -ENOMEM;
	s->hidden = told->worker;
	m->processes[m->nprocesses++] =
	    (struct metrics_process){.pid = told->pid, .rank1 = rank1, .series = s};
	return 0;
}

int metrics_target(struct metrics *m, const struct trace_target *t)
{
	struct metrics_process *p = find_process(m, t->pid, t->rank1);
	if (!p || !p->series->pid || p->series->torch)
		return 0;
	p->series->torch = strdup(t->torch_version);
	p->series->python = strdup(t->python_version);
	p->series->engine = strdup(t->engine);
	return p->series->torch && p->series->python && p->series->engine ? 0 : -ENOMEM;
}

/* What a process is for shows in what its main thread runs first. Those that load data come and go:
 * they are told of together. */
static int decide(struct metrics *m, struct metrics_process *p, const struct op_event *ev)
{
	if (!ev->stack || ev->tid != ev->pid)
		return 0;
	struct metrics_series *own = p->series;
	p->decided = true;
	own->hidden = false;
	if (!breakdown_is_worker(ev->stack))
		return 0;
	p->series = workers_of(m, &own->rank);
	if (p->series)
		remove_series(m, own);
	else
		p->series = own;
	return p->series == own ? -ENOMEM : 0;
}

/* The series that the event counts in, *out: NULL if its process is not known. */
static int series_of(struct metrics *m, const struct op_event *ev, struct metrics_series **out)
{
	struct metrics_process *p = find_process(m, ev->pid, ev->rank1);
	int r = p && !p->decided ? decide(m, p, ev) : 0;
	*out = p ? p->series : NULL;
	return r || !p || p->series->ops ? r : begin_series(p->series);
}

/* Of calls that were summed up the tensors are not known. */
static void count_collective(struct metrics_series *s, const struct op_event *ev, uint64_t calls)
{
	struct collective what;
	unsigned i = 0;
	if (!collective_of(ev, &what))
		return;
	while (i < COLLECTIVE_KINDS && s->collectives[i].name &&
	       s->collectives[i].name != what.name)
		i++;
	if (i == COLLECTIVE_KINDS)
		return;
	struct metrics_collective *c = &s->collectives[i];
	c->name = what.name;
	c->calls += calls;
	c->bytes += what.has_bytes ? what.bytes : 0;
	c->unsized += what.has_bytes || strstr(what.name, "barrier") ? 0 : calls;
}

/* Their threads are many, and never come back: calls and self times need to know none of them. */
static int add_of_worker(struct metrics_series *s, const struct op_event *ev)
{
	struct op_event all = *ev;
	all.pid = all.tid = 0;
	return aggregate_add(s->ops, &all);
}

int metrics_event(struct metrics *m, const struct op_event *ev)
{
	struct metrics_series *s;
	int r = series_of(m, ev, &s);
	if (r || !s)
		return r;
	if (ev->end_ns)
		count_collective(s, ev, 1);
	if (!s->pid)
		return add_of_worker(s, ev);
	r = aggregate_add(s->ops, ev);
	return r ? r : breakdown_add(s->breakdown, ev);
}

int metrics_sum(struct metrics *m, const struct op_sum *sum)
{
	struct metrics_series *s;
	int r = series_of(m, &sum->of, &s);
	if (r || !s)
		return r;
	metrics_steps_unsure(&s->steps, sum->of.start_ns, sum->of.end_ns);
	count_collective(s, &sum->of, sum->calls);
	struct op_sum all = *sum;
	if (!s->pid)
		all.of.pid = all.of.tid = 0;
	return aggregate_add_sum(s->ops, &all);
}

int metrics_activity(struct metrics *m, const struct activity *a)
{
	struct metrics_series *s;
	int r = series_of(m, &a->of, &s);
	return r || !s ? r : aggregate_add_activity(s->ops, a);
}

void metrics_lost(struct metrics *m, uint64_t now_ns, uint64_t count)
{
	uint64_t since = now_ns > METRICS_STEP_HELD_NS ? now_ns - METRICS_STEP_HELD_NS : 0;
	m->lost += count;
	for (size_t i = 0; i < m->nseries; i++)
		metrics_steps_unsure(&m->series[i]->steps, since, now_ns);
}

void metrics_activities_lost(struct metrics *m, uint64_t count)
{
	m->activities_lost += count;
}

void metrics_chosen(struct metrics *m)
{
	m->chosen = true;
}

void metrics_stats(struct metrics *m, const struct trace_stats *s)
{
	m->stats = *s;
}

int metrics_item(struct metrics *m, const struct trace_item *item)
{
	switch (item->type) {
	case TRACE_PROCESS:
		return metrics_process(m, &item->process);
	case TRACE_TARGET:
		return metrics_target(m, &item->target);
	case TRACE_EVENT:
		return metrics_event(m, &item->event);
	case TRACE_SUM:
		return metrics_sum(m, &item->sum);
	case TRACE_ACTIVITY:
		return metrics_activity(m, &item->activity);
	case TRACE_LOST:
		metrics_lost(m, item->lost.time_ns, item->lost.count);
		return 0;
	case TRACE_ACTIVITIES_LOST:
		metrics_activities_lost(m, item->lost.count);
		return 0;
	case TRACE_CHOSEN:
		metrics_chosen(m);
		return 0;
	case TRACE_STATS:
		metrics_stats(m, &item->stats);
		return 0;
	default:
		return 0;
	}
}

void metrics_forget(struct metrics *m)
{
	for (size_t i = 0; i < m->nseries; i++) {
		if (m->series[i]->ops)
			aggregate_forget(m->series[i]->ops);
		if (m->series[i]->breakdown)
			breakdown_forget(m->series[i]->breakdown);
	}
}

static uint64_t kept_ns(const struct metrics *m, const struct metrics_series *s)
{
	if (!s->pid || !s->ops)
		return METRICS_OTHERS_KEPT_NS;
	return m->keep ? UINT64_MAX : METRICS_ENDED_KEPT_NS;
}

void metrics_look_for_ends(struct metrics *m, uint64_t now_ns, metrics_end_fn *fn)
{
	for (size_t i = m->nprocesses; i-- > 0;) {
		struct metrics_process *p = &m->processes[i];
		enum metrics_end end =
		    p->ended_ns ? METRICS_HAS_ENDED : fn(p->pid, p->series->rank.host);
		if (p->series->pid)
			p->series->end_not_known = end == METRICS_NOT_KNOWN;
		if (end == METRICS_HAS_ENDED)
			end_process(p, now_ns);
		if (p->ended_ns && now_ns - p->ended_ns > kept_ns(m, p->series))
			remove_process(m, i);
	}
}

void metrics_tick(struct metrics *m, uint64_t now_ns)
{
	for (size_t i = 0; i < m->nseries; i++)
		metrics_count_steps(&m->series[i]->steps, now_ns);
}

/* Which ops have series of their own. */

struct op_time {
	const char *op; /* a row's */
	uint64_t ns;
};

static int compare_times(const void *a, const void *b)
{
	const struct op_time *p = a, *q = b;
	return p->ns != q->ns ? (p->ns < q->ns ? 1 : -1) : strcmp(p->op, q->op);
}

static int add_times(const struct metrics_series *s, struct intern *ids, struct op_time **times,
		     size_t *room)
{
	size_t n = 0;
	bool is_new;
	const struct aggregate_row *const *rows = s->ops ? aggregate_rows(s->ops, &n) : NULL;
	for (size_t i = 0; i < n; i++) {
		int64_t id = intern(ids, rows[i]->op, (uint32_t)strlen(rows[i]->op), &is_new);
		if (id < 0 || array_grow(times, room, (size_t)id + 1, sizeof(**times)))
			return -ENOMEM;
		if (is_new)
			(*times)[id] = (struct op_time){.op = rows[i]->op};
		(*times)[id].ns += rows[i]->self_ns;
	}
	return 0;
}

int metrics_name_ops(struct metrics *m)
{
	struct intern ids = {0};
	struct op_time *times = NULL;
	size_t room = 0;
	int64_t r = 0;
	for (size_t i = 0; i < m->nseries && !r; i++)
		r = add_times(m->series[i], &ids, &times, &room);
	if (!r && ids.used)
		qsort(times, ids.used, sizeof(*times), compare_times);
	for (size_t i = 0; !r && i < ids.used && i < METRICS_OPS_TOP; i++) {
		uint32_t len = (uint32_t)strlen(times[i].op);
		bool is_new;
		if (m->named.used < METRICS_OPS_MAX &&
		    intern(&m->named, times[i].op, len, &is_new) < 0)
			r = -ENOMEM;
	}
	free(times);
	intern_free(&ids);
	return (int)r;
}

bool metrics_op_is_named(const struct metrics *m, const char *op)
{
	return intern_find(&m->named, op, (uint32_t)strlen(op)) >= 0;
}
