#include "perf/report/aggregate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "perf/report/internal.h"
#include "perf/report/report.h"

enum { PENDING_MAX = 65536 };

static void observe(struct aggregate *a, struct aggregate_thread *t, const struct op_event *ev)
{
	uint64_t end = ev->end_ns > ev->start_ns ? ev->end_ns : ev->start_ns;
	a->totals.observed_ns -= t->last_ns - t->first_ns;
	if (ev->start_ns < t->first_ns)
		t->first_ns = ev->start_ns;
	if (end > t->last_ns)
		t->last_ns = end;
	a->totals.observed_ns += t->last_ns - t->first_ns;
}

/* Merge pending entries of the same row and depth. */
static void compact(struct aggregate *a, struct aggregate_thread *t)
{
	uint32_t kept = 0, run = 0;
	for (uint32_t i = 0; i < t->npending; i++) {
		struct pending p = t->pending[i];
		if (kept == 0 || t->pending[kept - 1].depth != p.depth)
			run = kept;
		uint32_t at = a->merged[p.row];
		if (at >= run && at < kept && t->pending[at].row == p.row) {
			t->pending[at].start_ns = p.start_ns;
			t->pending[at].ns += p.ns;
			net_add(&t->pending[at].net, &p.net);
			continue;
		}
		a->merged[p.row] = kept;
		t->pending[kept++] = p;
	}
	t->npending = kept;
}

static int push(struct aggregate *a, struct aggregate_thread *t, struct pending p)
{
	if (t->npending == PENDING_MAX) {
		compact(a, t);
		if (t->npending > PENDING_MAX / 2)
			t->npending = 0;
	}
	if (t->npending == t->pending_size &&
	    aggregate_grow(&t->pending, &t->pending_size, sizeof(*t->pending)))
		return -ENOMEM;
	t->pending[t->npending++] = p;
	return 0;
}

/* Calls of the same row inside this one are already part of what it has: subtract them from the
 * row's sums. The other pending calls move up to this op's depth; those that began before it were
 * called by one that was left out. */
static int nest(struct aggregate *a, struct aggregate_thread *t, uint16_t depth,
		struct pending call)
{
	struct aggregate_row *row = a->rows[call.row];
	uint32_t from = t->npending, kept;
	while (from && t->pending[from - 1].depth > depth)
		from--;
	kept = from;
	for (uint32_t i = from; i < t->npending; i++) {
		struct pending p = t->pending[i];
		if (p.row == call.row && p.start_ns >= call.start_ns) {
			row->total_ns -= p.ns;
			for (int k = 0; k < MEMORY_KINDS; k++)
				row->memory[k].net -= p.net.of[k];
			continue;
		}
		p.depth = depth;
		t->pending[kept++] = p;
	}
	t->npending = kept;
	for (int k = 0; k < MEMORY_KINDS; k++)
		row->memory[k].net += call.net.of[k];
	if (depth == 0) {
		t->npending = 0;
		return 0;
	}
	call.depth = depth;
	return push(a, t, call);
}

/* The time in the call, less compilations in it, which are none of the time of what runs. */
static uint64_t without_compilations(struct aggregate *a, struct aggregate_thread *t,
				     const struct op_event *ev, uint64_t ns)
{
	uint64_t inside = 0;
	if (event_is_compilation(ev)) {
		t->compile_ns += ns;
		a->totals.compile_ns += ns;
		a->totals.compilations++;
		inside = ns;
	} else if (ev->depth + 1 < AGGREGATE_DEPTH) {
		inside = t->compiled[ev->depth + 1];
		t->compiled[ev->depth + 1] = 0;
		ns -= inside < ns ? inside : ns;
	}
	if (a->keys & AGGREGATE_SAMPLES && ev->phase == PHASE_COMPILE)
		a->totals.compile_ns += ns;
	if (ev->depth && ev->depth < AGGREGATE_DEPTH)
		t->compiled[ev->depth] += inside;
	return ns;
}

static int count_call(struct aggregate *a, struct aggregate_row *row, const struct op_event *ev,
		      uint64_t ns, uint64_t self)
{
	row->calls++;
	if (ev->thrown)
		row->thrown++;
	row->total_ns += ns;
	row->sum_ns += ns;
	row->self_ns += self;
	if (ns < row->min_ns)
		row->min_ns = ns;
	if (ns > row->max_ns)
		row->max_ns = ns;
	a->totals.events++;
	a->totals.thrown += ev->thrown;
	a->totals.self_ns += ev->phase == PHASE_COMPILE ? 0 : self;
	if (row->batches)
		batches_add(row->batches, a->totals.events + a->totals.passed - 1,
			    log(ns ? (double)ns : 1));
	return histogram_add(&row->times, ns);
}

static int count_rank(struct aggregate_row *row, const struct aggregate_thread *t, uint64_t self)
{
	size_t room = row->nranks;
	if (t->rank_at < 0)
		return 0;
	if ((size_t)t->rank_at >= room) {
		if (array_grow(&row->ranks_ns, &room, (size_t)t->rank_at + 1,
			       sizeof(*row->ranks_ns)))
			return -ENOMEM;
		memset(row->ranks_ns + row->nranks, 0,
		       (room - row->nranks) * sizeof(*row->ranks_ns));
		row->nranks = (uint32_t)room;
	}
	row->ranks_ns[t->rank_at] += self;
	return 0;
}

static void count_flops(struct aggregate_thread *t, struct aggregate_row *row,
			const struct op_event *ev)
{
	double flops;
	row->flops_unknown += flops_of(ev, &flops) == FLOPS_UNKNOWN;
	row->flops += flops_own(&t->flops, ev->depth, flops);
}

/* The row of the node's forward op, or the node's own if the forward op is not known; or -ENOMEM.
 */
static int64_t row_of_node(struct aggregate *a, const struct op_event *ev)
{
	int64_t row = aggregate_known(a, ev->forward_id);
	return row >= 0 ? row : aggregate_row_of(a, ev, false, LAUNCH_IN_OP);
}

/* In the backward, nodes count in the row of their forward op, and other ops in no row. All of them
 * count as time in ops. What is recomputed makes nodes of its own. */
static int add_backward(struct aggregate *a, const struct op_event *ev, uint64_t ns)
{
	a->totals.events++;
	a->totals.thrown += ev->thrown;
	a->totals.self_ns += ns > ev->child_ns ? ns - ev->child_ns : 0;
	if (ev->op->kind != OP_BACKWARD && ev->phase != PHASE_RECOMPUTE)
		return 0;
	int64_t id = ev->phase == PHASE_RECOMPUTE ? aggregate_row_of(a, ev, false, LAUNCH_IN_OP)
						  : row_of_node(a, ev);
	if (id < 0)
		return -ENOMEM;
	if (ev->phase == PHASE_RECOMPUTE)
		return aggregate_remember(a, ev->id, (uint32_t)id);
	a->rows[id]->backward_calls++;
	a->rows[id]->backward_ns += ns;
	return 0;
}

static void find_worker(const struct aggregate *a, struct aggregate_thread *t,
			const struct op_event *ev)
{
	if (!(a->keys & AGGREGATE_WORKERS) || t->has_stack || !ev->stack)
		return;
	t->has_stack = true;
	t->worker = breakdown_is_worker(ev->stack);
}

int aggregate_add(struct aggregate *a, const struct op_event *ev)
{
	struct aggregate_thread *t = aggregate_thread_of(a, ev);
	if (!t)
		return -ENOMEM;
	observe(a, t, ev);
	find_worker(a, t, ev);
	if (aggregate_is_mark(a, ev->op))
		return 0;
	if (ev->end_ns == 0) {
		a->totals.unfinished++;
		return 0;
	}
	uint64_t ns = ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0;
	uint64_t self = ns > ev->child_ns ? ns - ev->child_ns : 0;
	ns = without_compilations(a, t, ev, ns);
	t->self_ns += ev->phase == PHASE_COMPILE ? 0 : self;
	t->backward_ns += phase_is_backward(ev->phase) ? self : 0;
	if (a->keys & AGGREGATE_SIDES && phase_is_backward(ev->phase))
		return add_backward(a, ev, ns);
	int64_t id = aggregate_row_again(a, t, ev);
	if (id < 0)
		return -ENOMEM;
	int r = count_call(a, a->rows[id], ev, ns, self);
	r = r ? r : count_rank(a->rows[id], t, self);
	if (!r && a->keys & (AGGREGATE_SIDES | AGGREGATE_TENSORS))
		r = aggregate_remember(a, ev->id, (uint32_t)id);
	if (a->early.n)
		aggregate_call_ended(a, ev->id, (uint32_t)id);
	if (a->keys & AGGREGATE_FLOPS)
		count_flops(t, a->rows[id], ev);
	struct pending call = {.row = (uint32_t)id, .start_ns = ev->start_ns, .ns = ns};
	r = r ? r : aggregate_memory_inside(t, ev, &call.net);
	return r ? r : nest(a, t, ev->depth, call);
}

static void count_sum(struct aggregate *a, struct aggregate_row *row, const struct op_sum *s)
{
	/* Of calls within others of the same row, the outer ones have the time. */
	bool is_inner = a->keys & AGGREGATE_OP ? s->again : s->nested;
	double flops;
	if (a->keys & AGGREGATE_FLOPS && flops_of(&s->of, &flops) == FLOPS_UNKNOWN)
		row->flops_unknown += s->calls;
	row->calls += s->calls;
	row->thrown += s->thrown;
	row->total_ns += is_inner ? 0 : s->total_ns;
	row->sum_ns += s->total_ns;
	row->self_ns += s->total_ns - s->child_ns;
	row->min_ns = s->min_ns < row->min_ns ? s->min_ns : row->min_ns;
	row->max_ns = s->max_ns > row->max_ns ? s->max_ns : row->max_ns;
}

/* In the row of a node, as its forward op is not known; other ops of the backward are in none. */
static int add_backward_sum(struct aggregate *a, const struct op_sum *s)
{
	if (s->of.op->kind != OP_BACKWARD && s->of.phase != PHASE_RECOMPUTE)
		return 0;
	int64_t id = aggregate_row_of(a, &s->of, false, LAUNCH_IN_OP);
	if (id < 0)
		return -ENOMEM;
	if (s->of.phase == PHASE_RECOMPUTE)
		return 0;
	a->rows[id]->backward_calls += s->calls;
	a->rows[id]->backward_ns += s->total_ns;
	return 0;
}

int aggregate_add_sum(struct aggregate *a, const struct op_sum *sum)
{
	struct op_sum s = *sum;
	struct aggregate_thread *t = aggregate_thread_of(a, &s.of);
	if (!t)
		return -ENOMEM;
	s.child_ns = s.child_ns < s.total_ns ? s.child_ns : s.total_ns;
	uint64_t self = s.total_ns - s.child_ns;
	observe(a, t, &s.of);
	find_worker(a, t, &s.of);
	if (aggregate_is_mark(a, s.of.op))
		return 0;
	a->totals.events += s.calls;
	a->totals.summed += s.calls;
	a->totals.thrown += s.thrown;
	a->totals.self_ns += s.of.phase == PHASE_COMPILE ? 0 : self;
	t->self_ns += s.of.phase == PHASE_COMPILE ? 0 : self;
	t->backward_ns += phase_is_backward(s.of.phase) ? self : 0;
	if (a->keys & AGGREGATE_SIDES && phase_is_backward(s.of.phase))
		return add_backward_sum(a, &s);
	int64_t id = aggregate_row_of(a, &s.of, t->worker, LAUNCH_IN_OP);
	if (id < 0)
		return -ENOMEM;
	count_sum(a, a->rows[id], &s);
	return count_rank(a->rows[id], t, self);
}

void aggregate_pass(struct aggregate *a)
{
	a->totals.passed++;
}

void aggregate_lost(struct aggregate *a, uint64_t count)
{
	a->totals.lost += count;
}

static uint64_t span_of(const struct aggregate_thread *t)
{
	const uint64_t ns = t->last_ns - t->first_ns;
	return ns > t->compile_ns ? ns - t->compile_ns : 0;
}

/* While other threads run the backward, those that call ops wait for them: they are not in no op.
 */
static void totals_of_callers(const struct aggregate *a, struct aggregate_totals *out)
{
	uint64_t every = 0;
	out->observed_ns = out->self_ns = out->workers = 0;
	for (uint32_t i = 0; i < a->thread_ids.used; i++) {
		const struct aggregate_thread *t = &a->threads[i];
		out->workers += t->worker;
		out->workers_ns += t->worker ? span_of(t) : 0;
		if (t->worker)
			continue;
		every += span_of(t);
		out->self_ns += t->self_ns;
		out->observed_ns += t->self_ns > t->backward_ns ? span_of(t) : 0;
	}
	/* Several ran the backward at once. */
	if (out->self_ns > out->observed_ns)
		out->observed_ns = every;
}

enum aggregate_process aggregate_process(const struct aggregate *a, int32_t pid, uint32_t rank1)
{
	enum aggregate_process is = AGGREGATE_NO_OPS;
	for (uint32_t i = 0; i < a->thread_ids.used && is != AGGREGATE_OPS; i++)
		if (a->threads[i].pid == pid && (!rank1 || a->threads[i].rank1 == rank1))
			is = a->threads[i].worker ? AGGREGATE_LOADS : AGGREGATE_OPS;
	return is;
}

void aggregate_totals(const struct aggregate *a, struct aggregate_totals *out)
{
	size_t n;
	uint64_t off;
	*out = a->totals;
	out->observed_ns -= out->compile_ns < out->observed_ns ? out->compile_ns : out->observed_ns;
	out->all_ns = out->observed_ns;
	struct device *devices = devices_list(a->devices, &n);
	for (size_t i = 0; i < n; i++)
		out->busy_ns += busy_between(&devices[i].busy, 0, UINT64_MAX, &off);
	if (a->keys & AGGREGATE_SAMPLES)
		out->observed_ns = out->self_ns;
	else if (a->keys & AGGREGATE_WORKERS)
		totals_of_callers(a, out);
}

uint64_t aggregate_quantile(const struct aggregate_row *row, double q)
{
	uint64_t ns = histogram_quantile(&row->times, q);
	if (!row->calls || !aggregate_has_quantiles(row))
		return 0;
	return ns < row->min_ns ? row->min_ns : ns > row->max_ns ? row->max_ns : ns;
}

int gaps_see(struct gaps *g, const struct op_event *ev, struct op_event *gap)
{
	static const struct op_desc none = {.name = "(in no op)", .schema = ""};
	int32_t key[2] = {ev->pid, ev->tid};
	bool is_new;
	if (ev->depth)
		return 0;
	int64_t id = intern(&g->threads, key, sizeof(key), &is_new);
	if (id < 0 || array_grow(&g->ends, &g->room, (size_t)id + 1, sizeof(*g->ends)))
		return -ENOMEM;
	uint64_t before = is_new ? UINT64_MAX : g->ends[id];
	/* A mark is no op, but divides the time in none; as if the ops that it calls came first. */
	g->ends[id] = op_mark(ev->op) ? ev->start_ns + ev->child_ns
		      : ev->end_ns    ? ev->end_ns
				      : UINT64_MAX;
	if (before >= ev->start_ns)
		return 0;
	*gap = (struct op_event){.id = ev->id,
				 .start_ns = before,
				 .end_ns = ev->start_ns,
				 .op = &none,
				 .stack = ev->stack,
				 .where_stack = ev->stack,
				 .pid = ev->pid,
				 .tid = ev->tid,
				 .phase = ev->phase};
	return 1;
}

void gaps_free(struct gaps *g)
{
	intern_free(&g->threads);
	free(g->ends);
}
