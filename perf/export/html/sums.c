#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "perf/export/html/internal.h"
#include "perf/report/aggregate.h"
#include "perf/report/report.h"

enum { TARGETS_MAX = 256 };

struct page_sums {
	struct trace_query *query;
	struct page_steps *steps;
	struct aggregate *ops, *lines, *modules, *in_no_op;
	struct gaps gaps;
	struct breakdown *breakdown;
	struct breakdown_result means;
	struct trace_target targets[TARGETS_MAX];
	struct trace_stats stats;
	struct report_opts opts;
	bool in_ns; /* the weights of samples are processor time */
};

void page_sums_free(struct page_sums *s)
{
	if (!s)
		return;
	aggregate_free(s->ops);
	aggregate_free(s->lines);
	aggregate_free(s->modules);
	aggregate_free(s->in_no_op);
	gaps_free(&s->gaps);
	breakdown_free(s->breakdown);
	if (s->query)
		trace_query_end(s->query, 0, 0, NULL);
	free(s);
}

static int open_sums(struct page_sums *s, const struct export_in *in, struct err *e)
{
	const struct trace_query_opts opts = {
	    .choice = *in->choice, .kinds = TRACE_OPS_AND_SAMPLES, .unchosen = true};
	const unsigned flags = AGGREGATE_STEADY | AGGREGATE_WORKERS;
	s->ops = aggregate_new_by(AGGREGATE_DEFAULT | flags);
	s->lines = aggregate_new_by(AGGREGATE_LINE | AGGREGATE_PHASE | flags);
	s->modules = aggregate_new_by(AGGREGATE_MODULE | AGGREGATE_PHASE | flags);
	s->in_no_op = aggregate_new_by(AGGREGATE_LINE);
	s->breakdown = in->choice->when ? NULL : breakdown_new();
	if (!s->ops || !s->lines || !s->modules || !s->in_no_op ||
	    (!in->choice->when && !s->breakdown))
		return err_set(e, -ENOMEM, "no memory to sum up %s", in->path);
	int r = trace_query(in->path, &opts, &s->query, e);
	if (!r && !in->choice->when)
		trace_query_no_values(s->query);
	return r;
}

static int add_gap(struct page_sums *s, const struct op_event *ev, bool is_chosen)
{
	struct op_event gap;
	int r = gaps_see(&s->gaps, ev, &gap);
	return r > 0 && is_chosen ? aggregate_add(s->in_no_op, &gap) : r < 0 ? r : 0;
}

static int add_event(struct page_sums *s, const struct op_event *ev)
{
	bool is_chosen = trace_query_chooses(s->query, ev);
	int r = add_gap(s, ev, is_chosen);
	if (r || !is_chosen)
		return r;
	page_steps_count(s->steps, ev);
	r = aggregate_add(s->ops, ev);
	r = r ? r : aggregate_add(s->lines, ev);
	r = r ? r : aggregate_add(s->modules, ev);
	return r || !s->breakdown ? r : breakdown_add(s->breakdown, ev);
}

static int add_sum(struct page_sums *s, const struct op_sum *sum)
{
	int r = aggregate_add_sum(s->ops, sum);
	r = r ? r : aggregate_add_sum(s->lines, sum);
	return r ? r : aggregate_add_sum(s->modules, sum);
}

static int add_item(struct page_sums *s, const struct trace_item *item)
{
	if (item->type == TRACE_EVENT)
		return add_event(s, &item->event);
	if (item->type == TRACE_SUM)
		return add_sum(s, &item->sum);
	if (item->type == TRACE_SAMPLE && s->breakdown && s->in_ns)
		return breakdown_add_sample(s->breakdown, &item->sample);
	if (item->type == TRACE_SAMPLING) {
		s->in_ns = item->sampling.event && !strcmp(item->sampling.event, "cpu-clock");
	} else if (item->type == TRACE_LOST) {
		aggregate_lost(s->ops, item->lost.count);
	} else if (item->type == TRACE_CHOSEN) {
		s->opts.chosen = item->chosen;
	} else if (item->type == TRACE_STATS) {
		s->stats = item->stats;
		s->opts.stats = &s->stats;
	} else if (item->type == TRACE_TARGET && s->opts.ntargets < TARGETS_MAX) {
		s->targets[s->opts.ntargets++] = item->target;
	}
	return 0;
}

struct page_sums *page_sums_read(struct export_in *in, struct page_steps *steps, struct err *e)
{
	struct page_sums *s = calloc(1, sizeof(*s));
	struct trace_item item;
	int r = s ? open_sums(s, in, e) : err_set(e, -ENOMEM, "no memory to sum up %s", in->path);
	if (r) {
		page_sums_free(s);
		return NULL;
	}
	s->steps = steps;
	s->opts.targets = s->targets;
	while (!r && trace_query_next(s->query, &item, NULL) > 0) {
		r = add_item(s, &item);
		r = r ? r : export_look(in, s->query);
	}
	if (!r)
		return s;
	err_set(e, r, "cannot sum up %s: %s", in->path, strerror(-r));
	page_sums_free(s);
	return NULL;
}

static int put_table(struct json_out *j, const char *key, const struct aggregate *a,
		     const struct report_opts *opts)
{
	json_line(j);
	json_format(j, key, "%s", "");
	return report_print_json(j->f, a, opts);
}

int page_sums_json(struct page_sums *s, struct json_out *j, const struct page_limits *limits)
{
	struct report_opts opts = s->opts;
	opts.percent_limit = limits->percent_limit;
	opts.when = trace_query_counts(s->query);
	if (s->breakdown && !opts.chosen && !trace_query_has_sums(s->query)) {
		breakdown_get(s->breakdown, &s->means);
		opts.steps = &s->means;
	}
	int r = put_table(j, "report", s->ops, &opts);
	opts.whole = s->ops;
	r = r ? r : put_table(j, "lines", s->lines, &opts);
	r = r ? r : put_table(j, "in_no_op", s->in_no_op, &opts);
	json_line(j);
	return r ? r : module_tree_json(j, "modules", s->modules);
}
