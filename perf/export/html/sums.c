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
	const unsigned flags =
	    AGGREGATE_STEADY | AGGREGATE_WORKERS | (in->choice->ops ? AGGREGATE_MARKS : 0);
	s->ops = aggregate_new(AGGREGATE_DEFAULT | flags);
	s->lines = aggregate_new(AGGREGATE_LINE | AGGREGATE_PHASE | flags);
	s->modules = aggregate_new(AGGREGATE_MODULE | AGGREGATE_PHASE | flags);
	s->in_no_op = aggregate_new(AGGREGATE_LINE | AGGREGATE_WORKERS);
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
	if (!op_mark(ev->op))
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

static int add_memory(struct page_sums *s, const struct memory_event *m)
{
	int r = aggregate_add_memory(s->ops, m);
	return r ? r : aggregate_add_memory(s->lines, m);
}

static int add_item(struct page_sums *s, const struct trace_item *item)
{
	if (item->type == TRACE_EVENT)
		return add_event(s, &item->event);
	if (item->type == TRACE_MEMORY)
		return add_memory(s, &item->memory);
	if (item->type == TRACE_SUM)
		return add_sum(s, &item->sum);
	if (item->type == TRACE_SAMPLE && s->breakdown && s->in_ns)
		return breakdown_add_sample(s->breakdown, &item->sample);
	if (item->type == TRACE_SAMPLING) {
		s->in_ns = item->sampling.event && !strcmp(item->sampling.event, "cpu-clock");
	} else if (item->type == TRACE_MEMORY_LOST) {
		aggregate_memory_lost(s->ops, item->lost.count);
	} else if (item->type == TRACE_PROCESS && !item->process.whole) {
		aggregate_begun_late(s->ops);
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
	r = r ? r : aggregate_end(s->ops);
	r = r ? r : aggregate_end(s->lines);
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

struct folded {
	uint32_t kept;	 /* the node itself or the innermost of its callers that is kept */
	uint32_t number; /* among the kept ones */
	uint32_t nodes;	 /* folded into it */
	uint64_t ns;
};

static int descending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x < y) - (x > y);
}

/* What a node must have more than, so that at most `most` are kept. */
static int floor_of(const struct call_node *nodes, size_t n, size_t most, uint64_t *floor)
{
	*floor = 0;
	if (n <= most)
		return 0;
	uint64_t *times = malloc(n * sizeof(*times));
	if (!times)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		times[i] = nodes[i].total_ns;
	qsort(times, n, sizeof(*times), descending);
	*floor = times[most];
	free(times);
	return 0;
}

/* Nodes follow their callers. Returns the sum of what is folded into none: `outside`. */
static void fold(const struct call_node *nodes, size_t n, uint64_t floor, struct folded *out,
		 struct folded *outside)
{
	uint32_t number = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t parent = nodes[i].parent;
		uint32_t above = parent == CALL_TREE_ROOT ? CALL_TREE_ROOT : out[parent].kept;
		bool is_top = parent == CALL_TREE_ROOT || above == parent;
		out[i] = (struct folded){.kept = (uint32_t)i};
		if (nodes[i].total_ns > floor) {
			out[i].number = number++;
			continue;
		}
		struct folded *into = above == CALL_TREE_ROOT ? outside : &out[above];
		out[i].kept = above;
		into->nodes++;
		into->ns += is_top ? nodes[i].total_ns : 0;
	}
}

enum column { PARENT, NAME, KIND, SELF, CALLS, FOLDED, FOLDED_NS, COLUMNS };

/* Kinds: 0 a frame, 1 an op in the forward, 2 in the backward, 3 recomputed, 4 in a compilation. */
static int64_t cell(enum column c, const struct call_node *node, const struct folded *f,
		    const struct folded *all, struct page_names *names)
{
	switch (c) {
	case PARENT:
		return node->parent == CALL_TREE_ROOT ? -1 : (int64_t)all[node->parent].number;
	case NAME:
		return page_name(names, node->is_op ? op_text(node->name) : node->name);
	case KIND:
		return node->is_op ? 1 + node->phase : 0;
	case SELF:
		return (int64_t)node->self_ns;
	case CALLS:
		return (int64_t)node->calls;
	case FOLDED:
		return f->nodes;
	default:
		return (int64_t)f->ns;
	}
}

static int put_columns(const struct call_node *nodes, size_t n, const struct folded *folded,
		       struct json_out *j, struct page_names *names)
{
	static const char *const keys[COLUMNS] = {"parent", "name",   "kind",	  "self_ns",
						  "calls",  "folded", "folded_ns"};
	for (enum column c = 0; c < COLUMNS; c++) {
		json_line(j);
		json_open(j, keys[c], '[');
		for (size_t i = 0; i < n; i++) {
			if (folded[i].kept != i)
				continue;
			int64_t v = cell(c, &nodes[i], &folded[i], folded, names);
			if (c == NAME && v < 0)
				return -ENOMEM;
			json_i64(j, NULL, v);
		}
		json_close(j, ']');
	}
	return 0;
}

int page_tree_json(struct call_tree *tree, const char *key, struct json_out *j,
		   struct page_names *names, size_t most)
{
	size_t n;
	const struct call_node *nodes = call_tree_nodes(tree, &n);
	struct folded *folded = calloc(n + 1, sizeof(*folded)), outside = {0};
	uint64_t floor = 0;
	int r = folded ? floor_of(nodes, n, most, &floor) : -ENOMEM;
	if (!r) {
		fold(nodes, n, floor, folded, &outside);
		json_line(j);
		json_open(j, key, '{');
		json_u64(j, "floor_ns", floor);
		json_u64(j, "outside", outside.nodes);
		json_u64(j, "outside_ns", outside.ns);
		r = put_columns(nodes, n, folded, j, names);
		json_close(j, '}');
	}
	free(folded);
	return r;
}
