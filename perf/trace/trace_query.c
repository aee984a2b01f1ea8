/* What of a trace is asked for: the options of a choice, a first pass for those that need one, and
 * then item by item. */
#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/options.h"
#include "base/text.h"
#include "perf/trace/internal.h"

struct trace_query {
	const char *path;
	struct trace_query_opts opts;
	struct trace_set *set;
	struct filter ops, not_ops;
	struct map of_ops; /* 1 for an op that both choose, else 0; by its address */
	struct when *when;
	struct when_counts counts;
	struct trace_span span;
	struct ranges ranks; /* by rank + 1; of --rank */
	bool any_rank;	     /* something of them was seen */
	bool no_ops;	     /* the first pass saw samples but no events */
	uint64_t samples, lost, summed, sums_left_out, activities, activities_lost;
};

struct first_pass {
	struct trace_query *q;
	const struct op_desc **ops;
	size_t nops, ops_room;
	struct map seen; /* which ops these are, by address */
	bool events, samples;
	int error; /* from processing an item; its text is in *e */
	struct err *e;
};

static int no_memory(const struct trace_query *q, struct err *e)
{
	return err_set(e, -ENOMEM, "no memory to read %s", q->path);
}

/* Whether the first pass finds steps; otherwise trace_query_next does. */
static bool finds_steps(const struct trace_query *q)
{
	return q->span.step && !q->opts.follow;
}

/* Whether the first pass must read to the end of the file. */
static bool needs_all(const struct trace_query *q)
{
	return q->when || q->ops.n || q->opts.first || finds_steps(q);
}

static int first_pass_op(struct first_pass *f, const struct op_desc *op)
{
	if (map_get(&f->seen, (uintptr_t)op) >= 0)
		return 0;
	if (array_grow(&f->ops, &f->ops_room, f->nops + 1, sizeof(*f->ops)) ||
	    map_put(&f->seen, (uintptr_t)op, (uint32_t)f->nops))
		return no_memory(f->q, f->e);
	f->ops[f->nops++] = op;
	return 0;
}

static int first_pass_item(void *arg, const struct trace_item *item)
{
	struct first_pass *f = arg;
	const struct trace_query_opts *o = &f->q->opts;
	const struct op_desc *op = item->type == TRACE_EVENT	? item->event.op
				   : item->type == TRACE_SUM	? item->sum.of.op
				   : item->type == TRACE_SAMPLE ? item->sample.op
								: NULL;
	f->events |= item->type == TRACE_EVENT || item->type == TRACE_SUM;
	f->samples |= item->type == TRACE_SAMPLE;
	if (op && (f->q->when || f->q->ops.n))
		f->error = first_pass_op(f, op);
	if (!f->error && o->first)
		f->error = o->first(o->first_arg, item, f->e);
	return f->error;
}

/* Counts steps in the order in which events started; everything else takes items as recorded.
 * Returns like trace_read_next. */
static int first_pass_next(struct first_pass *f, struct trace_set *set)
{
	struct trace_item item;
	int n = trace_set_next(set, &item, NULL);
	if (n <= 0)
		return n;
	if (!finds_steps(f->q))
		first_pass_item(f, &item);
	else if (item.type == TRACE_EVENT && trace_span_see(&f->q->span, &item.event))
		f->error = no_memory(f->q, f->e);
	return n;
}

static int first_pass_check(struct first_pass *f, bool more)
{
	struct trace_query *q = f->q;
	int r = q->when ? when_check(q->when, f->ops, f->nops, more, f->e) : 0;
	if (!r && q->ops.n && !more)
		r = filter_check(&q->ops, f->ops, f->nops, f->e);
	return r || !finds_steps(q) ? r : trace_span_check(&q->span, q->path, f->e);
}

static int first_pass_read(struct first_pass *f, struct trace_set *set)
{
	bool all = needs_all(f->q);
	int n = 1;
	if (!f->q->opts.first)
		trace_set_no_values(set);
	while (!f->error && n > 0 && (all || !f->events))
		n = first_pass_next(f, set);
	f->q->no_ops = f->samples && !f->events;
	return f->error ? f->error : first_pass_check(f, n == -EAGAIN);
}

static int first_pass(struct trace_query *q, struct err *e)
{
	struct first_pass f = {.q = q, .e = e};
	struct trace_set *set;
	bool steps = finds_steps(q);
	const struct trace_set_opts opts = {
	    .by_start = steps, .tap = steps ? first_pass_item : NULL, .tap_arg = &f};
	int r = trace_set_open(q->path, &opts, &set, e);
	if (r)
		return r;
	r = first_pass_read(&f, set);
	free(f.ops);
	map_free(&f.seen);
	trace_set_close(set);
	return r;
}

void trace_query_close(struct trace_query *q)
{
	trace_set_close(q->set);
	trace_span_close(&q->span);
	ranges_free(&q->ranks);
	filter_free(&q->ops);
	filter_free(&q->not_ops);
	map_free(&q->of_ops);
	when_free(q->when);
	free(q);
}

/* Ranks count from 0, and ranges from 1. */
static int parse_ranks(const struct trace_choice *c, struct ranges *out, struct err *e)
{
	return c->rank ? ranges_parse_from("--rank", c->rank, 0, out, e) : 0;
}

/* Compile --ops and --not-ops; the caller frees both even after an error. */
static int compile_ops(const struct trace_choice *c, struct filter *ops, struct filter *not_ops,
		       struct err *e)
{
	int r = c->ops ? filter_compile("--ops", c->ops, ops, e) : 0;
	return r || !c->not_ops ? r : filter_compile("--not-ops", c->not_ops, not_ops, e);
}

bool trace_choice_of_calls(const struct trace_choice *c)
{
	return c->ops || c->not_ops || c->when;
}

/* The options that leave calls out, for the text of the counts. */
static const char *left_out_by(const struct trace_choice *c)
{
	const char *ops = c->ops && c->not_ops ? "--ops and --not-ops"
			  : c->ops	       ? "--ops"
					       : "--not-ops";
	if (!c->ops && !c->not_ops)
		return "--when";
	return !c->when		      ? ops
	       : c->ops && c->not_ops ? "--ops, --not-ops and --when"
	       : c->ops		      ? "--ops and --when"
				      : "--not-ops and --when";
}

static int query_open(struct trace_query *q, struct err *e)
{
	const struct trace_choice *c = &q->opts.choice;
	const struct trace_set_opts opts = {.by_start = q->opts.by_start, .follow = q->opts.follow};
	int r = trace_set_open(q->path, &opts, &q->set, e);
	if (!r && c->when)
		r = when_compile("--when", c->when, &q->when, e);
	r = r ? r : compile_ops(c, &q->ops, &q->not_ops, e);
	q->counts.option = left_out_by(c);
	r = r ? r : parse_ranks(c, &q->ranks, e);
	r = r ? r : trace_span_parse(&q->span, c, trace_set_origin(q->set), e);
	if (!r && (needs_all(q) || q->opts.kinds == TRACE_OPS_OR_SAMPLES))
		r = first_pass(q, e);
	return r;
}

int trace_choice_check(const struct trace_choice *c, struct err *e)
{
	struct trace_span span = {0};
	struct ranges ranks = {0};
	struct filter ops = {0}, not_ops = {0};
	struct when *when = NULL;
	int r = c->when ? when_compile("--when", c->when, &when, e) : 0;
	when_free(when);
	r = r ? r : compile_ops(c, &ops, &not_ops, e);
	filter_free(&ops);
	filter_free(&not_ops);
	r = r ? r : trace_span_parse(&span, c, 0, e);
	r = r ? r : parse_ranks(c, &ranks, e);
	ranges_free(&ranks);
	trace_span_close(&span);
	return r;
}

int trace_query(const char *path, const struct trace_query_opts *opts, struct trace_query **out,
		struct err *e)
{
	struct trace_query *q = calloc(1, sizeof(*q));
	if (!q)
		return err_set(e, -ENOMEM, "no memory to read %s", path);
	q->path = path;
	q->opts = *opts;
	int r = query_open(q, e);
	if (r)
		trace_query_close(q);
	else
		*out = q;
	return r;
}

static bool is_of_ops(struct trace_query *q, const struct op_desc *op)
{
	if (!q->ops.n && !q->not_ops.n)
		return true;
	int64_t known = map_get(&q->of_ops, (uintptr_t)op);
	if (known >= 0)
		return known;
	bool is = (!q->ops.n || filter_match(&q->ops, op)) && !filter_match(&q->not_ops, op);
	map_put(&q->of_ops, (uintptr_t)op, is); /* without memory it is asked again */
	return is;
}

bool trace_query_chooses(struct trace_query *q, const struct op_event *ev)
{
	if (!is_of_ops(q, ev->op)) {
		q->counts.left_out++;
		return false;
	}
	return when_decide(q->when, ev, WHEN_AT_EXIT, &q->counts) == WHEN_YES;
}

bool trace_query_of_samples(const struct trace_query *q)
{
	return q->opts.kinds == TRACE_SAMPLES ||
	       (q->opts.kinds == TRACE_OPS_OR_SAMPLES && q->no_ops);
}

/* Whether it is of one of the ranks of --rank. */
static bool is_of_ranks(struct trace_query *q, uint32_t rank1)
{
	if (!q->opts.choice.rank)
		return true;
	bool is = rank1 && ranges_have(&q->ranks, rank1 - 1);
	q->any_rank |= is;
	return is;
}

static int no_rank(const struct trace_query *q, struct err *e)
{
	err_set(e, -ENOENT, "--rank %s: %s has nothing of such a rank", q->opts.choice.rank,
		q->path);
	return err_hint(e, "see which ranks it has: ditrace report --group rank %s", q->path);
}

/* Of calls that were summed up it is not known which of them a condition or a step chooses. */
static bool is_sum_asked_for(struct trace_query *q, const struct op_sum *s)
{
	const struct trace_span *span = &q->span;
	bool known = !q->when && !span->step &&
		     (s->of.end_ns < span->from_ns || s->of.start_ns >= span->to_ns ||
		      (s->of.start_ns >= span->from_ns && s->of.end_ns < span->to_ns));
	bool is = known && !trace_query_of_samples(q) && trace_span_has(span, &s->of) &&
		  is_of_ops(q, s->of.op);
	q->summed += is ? s->calls : 0;
	q->sums_left_out += known || !is_of_ops(q, s->of.op) ? 0 : s->calls;
	return is;
}

/* By the op, and the moment, of its launch. The condition is on arguments, which are not known
 * here.
 */
static bool is_activity_asked_for(struct trace_query *q, const struct activity *a)
{
	struct op_event launch = a->of;
	launch.start_ns = a->launched_ns ? a->launched_ns : a->of.start_ns;
	launch.end_ns = launch.start_ns;
	return !trace_query_of_samples(q) && !q->when && is_of_ranks(q, a->of.rank1) &&
	       trace_span_has(&q->span, &launch) && (a->of.op ? is_of_ops(q, a->of.op) : !q->ops.n);
}

static bool is_memory_asked_for(struct trace_query *q, const struct memory_event *m)
{
	return !trace_query_of_samples(q) && !q->when && is_of_ranks(q, m->of.rank1) &&
	       trace_span_has(&q->span, &m->of) && (m->of.op ? is_of_ops(q, m->of.op) : !q->ops.n);
}

static bool is_hidden_mark(const struct trace_query *q, const struct op_desc *op)
{
	return q->opts.no_marks && !q->ops.n && op && op_mark(op);
}

/* Whether it is a mark, which is left out. */
static bool hide_marks(const struct trace_query *q, struct trace_item *item)
{
	if (item->type == TRACE_EVENT)
		return !q->opts.mark_events && is_hidden_mark(q, item->event.op);
	if (item->type == TRACE_SUM)
		return is_hidden_mark(q, item->sum.of.op);
	if (item->type == TRACE_ACTIVITY && is_hidden_mark(q, item->activity.of.op)) {
		item->activity.of.op = NULL;
		item->activity.launch = LAUNCH_IN_NO_OP;
	}
	if (item->type == TRACE_MEMORY && is_hidden_mark(q, item->memory.of.op)) {
		item->memory.of.op = NULL;
		item->memory.launch = LAUNCH_IN_NO_OP;
	}
	return false;
}

static bool is_asked_for(struct trace_query *q, const struct trace_item *item)
{
	struct op_event ev;
	bool samples = trace_query_of_samples(q);
	if (item->type == TRACE_SUM)
		return is_of_ranks(q, item->sum.of.rank1) && is_sum_asked_for(q, &item->sum);
	if (item->type == TRACE_PROCESS)
		return is_of_ranks(q, (uint32_t)(item->process.rank.rank + 1));
	if (item->type == TRACE_TARGET)
		return is_of_ranks(q, item->rank1);
	if (item->type == TRACE_EVENT && q->opts.mark_ends && op_mark(item->event.op) == MARK_EXIT)
		return !samples && is_of_ranks(q, item->event.rank1);
	if (item->type == TRACE_EVENT)
		return !samples && is_of_ranks(q, item->event.rank1) &&
		       trace_span_has(&q->span, &item->event) &&
		       (q->opts.unchosen || trace_query_chooses(q, &item->event));
	if (item->type == TRACE_ACTIVITY)
		return is_activity_asked_for(q, &item->activity);
	if (item->type == TRACE_MEMORY)
		return is_memory_asked_for(q, &item->memory);
	if (item->type != TRACE_SAMPLE)
		return true;
	sample_as_event(&item->sample, &ev);
	return is_of_ranks(q, item->sample.rank1) &&
	       (samples || q->opts.samples_too || q->opts.kinds == TRACE_OPS_AND_SAMPLES) &&
	       trace_span_has(&q->span, &ev) && trace_query_chooses(q, &ev);
}

int trace_query_next(struct trace_query *q, struct trace_item *item, struct err *e)
{
	bool steps = q->span.step && !finds_steps(q);
	for (;;) {
		int n = trace_set_next(q->set, item, e);
		if (n == 0 && q->opts.choice.rank && !q->any_rank)
			return no_rank(q, e);
		if (n == 0 && steps)
			return trace_span_check(&q->span, q->path, e);
		if (n <= 0)
			return n;
		if (item->type == TRACE_LOST)
			q->lost += item->lost.count;
		if (item->type == TRACE_SAMPLE)
			q->samples++;
		if (item->type == TRACE_ACTIVITIES_LOST)
			q->activities_lost += item->lost.count;
		if (steps && item->type == TRACE_EVENT && trace_span_see(&q->span, &item->event))
			return no_memory(q, e);
		if (hide_marks(q, item) || !is_asked_for(q, item))
			continue;
		q->activities += item->type == TRACE_ACTIVITY;
		return n;
	}
}

void trace_query_no_values(struct trace_query *q)
{
	trace_set_no_values(q->set);
}

void trace_query_values_of(struct trace_query *q, bool (*fn)(const struct op_desc *op))
{
	trace_set_values_of(q->set, fn);
}

uint64_t trace_query_origin(const struct trace_query *q)
{
	return trace_set_origin(q->set);
}

double trace_query_share(const struct trace_query *q)
{
	return trace_set_share(q->set);
}

uint64_t trace_query_begun(const struct trace_query *q)
{
	return trace_set_begun(q->set);
}

uint64_t trace_query_steps(const struct trace_query *q)
{
	return trace_span_steps(&q->span);
}

uint64_t trace_query_samples(const struct trace_query *q)
{
	return q->samples;
}

uint64_t trace_query_activities(const struct trace_query *q)
{
	return q->activities;
}

uint64_t trace_query_activities_lost(const struct trace_query *q)
{
	return q->activities_lost;
}

uint64_t trace_query_lost(const struct trace_query *q)
{
	return q->lost;
}

uint64_t trace_query_summed(const struct trace_query *q)
{
	return q->summed;
}

uint64_t trace_query_sums_left_out(const struct trace_query *q)
{
	return q->sums_left_out;
}

bool trace_query_has_sums(const struct trace_query *q)
{
	return q->summed || q->sums_left_out;
}

const struct when_counts *trace_query_counts(const struct trace_query *q)
{
	return trace_choice_of_calls(&q->opts.choice) ? &q->counts : NULL;
}

const char *trace_query_path(const struct trace_query *q)
{
	return q->path;
}

const struct trace_clock *trace_query_clock(const struct trace_query *q, size_t i)
{
	return trace_set_clock(q->set, i);
}
