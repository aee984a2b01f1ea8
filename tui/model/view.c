#include "tui/model/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "tui/model/internal.h"

static const char *thread_name(void *arg, int32_t pid, int32_t tid)
{
	const struct view *v = arg;
	for (size_t i = v->nthreads; i--;)
		if (v->threads[i].pid == pid && v->threads[i].tid == tid)
			return v->threads[i].name;
	return "";
}

static void free_tallies(struct view *v)
{
	for (int g = 0; g < GROUPING_GROUPS; g++) {
		grouping_free(v->all[g]);
		v->all[g] = NULL;
	}
	grouping_free(v->going);
	grouping_free(v->whole);
	v->going = v->whole = NULL;
	off_op_reset(&v->all_outside);
}

static int new_tallies(struct view *v)
{
	for (int g = 0; g < GROUPING_GROUPS; g++)
		if (!(v->all[g] = grouping_new((enum grouping_by)g, v->marks, thread_name, v)))
			return -ENOMEM;
	return view_begin_interval(v);
}

int view_begin_interval(struct view *v)
{
	grouping_free(v->going);
	grouping_free(v->whole);
	v->going = v->whole = NULL;
	off_op_reset(&v->going_outside);
	off_op_reset(&v->whole_outside);
	v->going_first = v->going_last = v->whole_ns = 0;
	if (v->interval && !(v->going = grouping_new(v->group, v->marks, thread_name, v)))
		return -ENOMEM;
	return 0;
}

struct view *view_new(void)
{
	struct view *v = calloc(1, sizeof(*v));
	if (v && !new_tallies(v) && (v->made = calloc(MADE, sizeof(*v->made))))
		return v;
	view_free(v);
	return NULL;
}

void view_free(struct view *v)
{
	if (!v)
		return;
	free_tallies(v);
	off_op_reset(&v->going_outside);
	off_op_reset(&v->whole_outside);
	looks_free(&v->looks);
	free(v->made);
	free(v->links);
	free(v->threads);
	free(v->rows);
	view_tree_free(&v->tree);
	arena_free(&v->strings);
	free(v);
}

int view_reset(struct view *v)
{
	free_tallies(v);
	memset(v->made, 0, MADE * sizeof(*v->made));
	v->nlinks = 0;
	v->nrows = 0;
	memset(v->costs, 0, sizeof(v->costs));
	v->cost_unknown = true;
	v->steps = (struct step_times){0};
	v->first_ns = v->last_ns = 0;
	v->summed = 0;
	v->devices = false;
	v->second = (struct second){0};
	v->ops_per_s = 0;
	return new_tallies(v);
}

void view_now(struct view *v, uint64_t ns)
{
	v->now_ns = ns;
}

int view_new_file(struct view *v)
{
	int r = view_reset(v);
	v->now_ns = 0;
	v->has_stats = false;
	v->cost_unknown = false;
	return r;
}

int view_show_marks(struct view *v)
{
	v->marks = true;
	return view_new_file(v);
}

/* Count ops by full seconds of trace time. */
static void count_second(struct view *v, uint64_t now, uint64_t ops)
{
	enum { SECOND = 1000000000 };
	if (!v->second.from)
		v->second.from = now;
	if (now >= v->second.from + SECOND) {
		v->ops_per_s = (double)v->second.ops * SECOND / (double)(now - v->second.from);
		v->second = (struct second){.from = now};
	}
	v->second.ops += ops;
}

/* Events after the end of an interval start a new one. */
static int go_on_interval(struct view *v, const struct op_event *ev)
{
	if (v->going_first && ev->end_ns >= v->going_first + VIEW_INTERVAL_NS) {
		grouping_free(v->whole);
		v->whole = v->going;
		off_op_reset(&v->whole_outside);
		v->whole_outside = v->going_outside;
		v->going_outside = (struct off_op){0};
		v->whole_ns = v->going_last - v->going_first;
		v->going_first = 0;
		v->going = grouping_new(v->group, v->marks, thread_name, v);
		if (!v->going)
			return -ENOMEM;
	}
	if (!v->going_first)
		v->going_first = ev->start_ns;
	v->going_last = ev->end_ns;
	return 0;
}

static int add_to_interval(struct view *v, const struct op_event *ev,
			   const struct trace_raw_event *raw)
{
	const struct grouping_row *row;
	int r = go_on_interval(v, ev);
	return r ? r : grouping_add(v->going, ev, raw, &row);
}

static int link_forward(struct view *v, const struct op_event *ev, uint32_t row)
{
	struct made *forward = &v->made[ev->forward_id % MADE];
	size_t had = v->nlinks;
	if (ev->phase != PHASE_BACKWARD) {
		v->made[ev->id % MADE] = (struct made){.id = ev->id, .row = row};
		return 0;
	}
	if (!ev->forward_id || forward->id != ev->forward_id)
		return 0;
	if (row >= had) {
		if (array_grow(&v->links, &v->links_room, row + 1, sizeof(*v->links)))
			return -ENOMEM;
		memset(v->links + had, 0, (row + 1 - had) * sizeof(*v->links));
		v->nlinks = row + 1;
	}
	struct links *l = &v->links[row];
	for (unsigned i = 0; i < l->n; i++)
		if (l->forward[i] == forward->row)
			return 0;
	if (l->n < VIEW_LINKS)
		l->forward[l->n++] = forward->row;
	return 0;
}

static void add_looks(struct off_op_part *to, const struct off_op_part *looks)
{
	to->ran += looks->ran;
	to->waited += looks->waited;
}

/* Add the off-op time before the event; call after add_to_interval. */
static int add_outside(struct view *v, const struct op_event *ev)
{
	struct off_op_part *part = NULL, *part_going = NULL, looks;
	uint64_t from = ev->start_ns, same;
	if (ev->depth)
		return 0;
	int r = off_op_see(&v->all_outside, ev, &part, &from);
	if (r >= 0 && v->going)
		r = off_op_see(&v->going_outside, ev, &part_going, &same);
	if (r < 0)
		return r;
	looks_take(&v->looks, ev, from, &looks);
	if (part)
		add_looks(part, &looks);
	if (part_going)
		add_looks(part_going, &looks);
	return 0;
}

static void count_time(struct view *v, const struct op_event *ev, uint64_t ops)
{
	if (!v->first_ns || ev->start_ns < v->first_ns)
		v->first_ns = ev->start_ns;
	if (ev->end_ns > v->last_ns)
		v->last_ns = ev->end_ns;
	count_second(v, ev->end_ns, ops);
}

static void count_event(struct view *v, const struct op_event *ev)
{
	count_time(v, ev, v->marks || !op_mark(ev->op));
	step_times_see(&v->steps, ev);
}

static int add_sum(struct view *v, const struct op_sum *s)
{
	int r = 0;
	const uint64_t calls = v->marks || !op_mark(s->of.op) ? s->calls : 0;
	count_time(v, &s->of, calls);
	v->summed += calls;
	for (int g = 0; g < GROUPING_GROUPS && !r; g++)
		r = grouping_add_sum(v->all[g], s);
	if (!r && v->interval)
		r = go_on_interval(v, &s->of);
	return r || !v->interval ? r : grouping_add_sum(v->going, s);
}

static int add_event(struct view *v, const struct op_event *ev, const struct trace_raw_event *raw)
{
	const struct grouping_row *row;
	int r = 0;
	if (ev->end_ns)
		count_event(v, ev);
	for (int g = 0; g < GROUPING_GROUPS && !r; g++) {
		r = grouping_add(v->all[g], ev, raw, &row);
		if (!r && row && g == GROUPING_OP_LINE)
			r = link_forward(v, ev, row->id);
	}
	if (!r && ev->end_ns && v->interval)
		r = add_to_interval(v, ev, raw);
	return r ? r : add_outside(v, ev);
}

static int add_activity(struct view *v, const struct activity *a)
{
	int r = 0;
	for (int g = 0; g < GROUPING_GROUPS && !r; g++)
		r = grouping_add_activity(v->all[g], a);
	v->devices = true;
	return r || !v->interval ? r : grouping_add_activity(v->going, a);
}

static int add_thread(struct view *v, int32_t pid, int32_t tid, const char *name)
{
	size_t i = 0;
	while (i < v->nthreads && (v->threads[i].pid != pid || v->threads[i].tid != tid))
		i++;
	if (i == THREADS_MAX)
		return 0;
	if (i == v->nthreads) {
		if (array_grow(&v->threads, &v->threads_room, i + 1, sizeof(*v->threads)))
			return -ENOMEM;
		v->nthreads++;
	}
	struct view_thread *t = &v->threads[i];
	*t = (struct view_thread){.pid = pid, .tid = tid};
	strncat(t->name, name, sizeof(t->name) - 1);
	return 0;
}

static int add_target(struct view *v, const struct trace_target *t)
{
	struct trace_target *to = &v->target;
	const char **strings[] = {&to->comm,	       &to->argv,   &to->torch_version,
				  &to->python_version, &to->engine, &to->torch_dir};
	if (v->targets && t->pid == v->target.pid)
		return 0; /* the same process, attached again */
	if (v->targets++)
		return 0;
	*to = *t;
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		if (!(*strings[i] = arena_strndup(&v->strings, *strings[i], strlen(*strings[i]))))
			return -ENOMEM;
	return 0;
}

static void add_stats(struct view *v, const struct trace_stats *s)
{
	const struct cost now = {s->probe_ns, s->cpu_ns};
	v->stats = *s;
	v->has_stats = true;
	if (v->cost_unknown)
		v->costs[0] = v->costs[2] = now;
	v->cost_unknown = false;
	v->costs[1] = v->costs[2];
	v->costs[2] = now;
}

int view_add(struct view *v, const struct trace_item *item)
{
	switch (item->type) {
	case TRACE_EVENT:
		return add_event(v, &item->event, &item->raw);
	case TRACE_SUM:
		return add_sum(v, &item->sum);
	case TRACE_ACTIVITY:
		return add_activity(v, &item->activity);
	case TRACE_LOST:
		v->lost += item->lost.count;
		return 0;
	case TRACE_STATS:
		add_stats(v, &item->stats);
		return 0;
	case TRACE_TARGET:
		return add_target(v, &item->target);
	case TRACE_THREAD:
		return add_thread(v, item->thread.pid, item->thread.tid, item->thread.name);
	default:
		return 0;
	}
}

struct grouping_row *const *view_all(const struct view *v, enum grouping_by group, size_t *n)
{
	return grouping_rows(v->all[group], n);
}

int64_t view_id(const struct view *v, const struct view_row *row)
{
	size_t n;
	struct grouping_row *const *all = view_all(v, v->group, &n);
	const struct aggregate_row *s = row->sum;
	if (!s)
		return row->module_id;
	for (size_t i = 0; i < n; i++) {
		const struct aggregate_row *r = all[i]->sum;
		if (r && r->phase == s->phase && r->line == s->line && !strcmp(r->op, s->op) &&
		    !strcmp(r->file ? r->file : "", s->file ? s->file : "") &&
		    (r->file || !r->function == !s->function) &&
		    !strcmp(r->parameter ? r->parameter : "", s->parameter ? s->parameter : ""))
			return (int64_t)i;
	}
	return -1;
}

unsigned view_forwards(const struct view *v, uint32_t id, uint32_t *out)
{
	if (id >= v->nlinks)
		return 0;
	memcpy(out, v->links[id].forward, sizeof(v->links[id].forward));
	return v->links[id].n;
}

bool view_thread(const struct view *v, size_t i, int32_t *pid, int32_t *tid)
{
	if (i >= v->nthreads)
		return false;
	*pid = v->threads[i].pid;
	*tid = v->threads[i].tid;
	return true;
}

int view_look(struct view *v, int32_t pid, int32_t tid, uint64_t ns, bool ran)
{
	return looks_add(&v->looks, pid, tid, ns, ran);
}
