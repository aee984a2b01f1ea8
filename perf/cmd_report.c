#include "base/arena.h"
#include "base/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/text.h"
#include "perf/report/aggregate.h"
#include "perf/report/call_tree.h"
#include "perf/report/kernels.h"
#include "perf/report/report.h"
#include "perf/report_collectives.h"
#include "perf/trace/trace_read.h"

enum { AHEAD = 4 };
enum { FORMAT_TABLE, FORMAT_JSON, FORMAT_CSV };
enum { GRAPH_NONE, GRAPH_CALLERS, GRAPH_CALLEES };

struct report {
	const char *path, *group, *sort, *columns, *percent_limit;
	int format, graph, frames;
	bool sides, gaps, per_step;
	bool collectives, skew;
	bool samples; /* report samples, not ops */
	struct report_opts opts;
	struct report_columns chosen;
	struct trace_choice choice;
	struct trace_query *query;
	struct aggregate *sum, *gap_sum; /* gap_sum: for --gaps */
	struct gaps between;
	struct kernels *kernels; /* for --group kernel */
	struct call_tree *tree;	 /* for --call-graph */
	struct overflow *overflow;
	struct breakdown *steps; /* NULL: ops are left out */
	struct breakdown_result shown_steps;
	struct trace_target *targets;
	size_t targets_room;
	struct report_thread *threads;
	size_t threads_room;
	const struct trace_clock **clocks;
	size_t clocks_room;
	struct report_samples sampled;
	struct trace_stats stats;
	bool has_stats;
};

static int take_gap(struct report *p, const struct op_event *ev)
{
	struct op_event gap;
	int r = gaps_see(&p->between, ev, &gap);
	if (r <= 0 || !trace_query_chooses(p->query, ev))
		return r < 0 ? r : 0;
	return aggregate_add(p->gap_sum, &gap);
}

static int take_event(struct report *p, const struct op_event *ev)
{
	int r = p->gaps ? take_gap(p, ev) : 0;
	r = r ? r : aggregate_add(p->sum, ev);
	if (!r && p->tree)
		r = call_tree_add(p->tree, ev, (enum call_frames)p->frames);
	if (!r && p->steps)
		r = breakdown_add(p->steps, ev);
	return r ? r : overflow_add(p->overflow, ev);
}

static int take_sum(struct report *p, const struct op_sum *s)
{
	int r = aggregate_add_sum(p->sum, s);
	return !r && p->tree ? call_tree_add_sum(p->tree, s, (enum call_frames)p->frames) : r;
}

static int take_activity(struct report *p, const struct activity *a)
{
	if (p->samples)
		return 0;
	int r = p->kernels ? kernels_add(p->kernels, a) : 0;
	return r ? r : aggregate_add_activity(p->sum, a);
}

static int take_sample(struct report *p, const struct sample *s)
{
	struct op_event ev;
	if (!p->samples) {
		const char *event = p->sampled.how.event;
		bool is_time = event && !strcmp(event, "cpu-clock");
		return p->steps && is_time ? breakdown_add_sample(p->steps, s) : 0;
	}
	sample_as_event(s, &ev);
	p->sampled.mismatched += s->mismatched;
	p->sampled.own_weight += sample_is_own(s) ? s->weight : 0;
	int r = aggregate_add(p->sum, &ev);
	return !r && p->tree ? call_tree_add_sample(p->tree, s, (enum call_frames)p->frames) : r;
}

static int take_thread(struct report *p, const struct report_thread *t)
{
	if (array_grow(&p->threads, &p->threads_room, p->opts.nthreads + 1, sizeof(*p->threads)))
		return -ENOMEM;
	p->threads[p->opts.nthreads++] = *t;
	return 0;
}

static int take_clock(struct report *p, const struct trace_clock *c)
{
	if (array_grow(&p->clocks, &p->clocks_room, p->opts.nclocks + 1,
		       sizeof(struct trace_clock *)))
		return -ENOMEM;
	p->clocks[p->opts.nclocks++] = c;
	return 0;
}

static int take_memory(struct report *p, const struct memory_event *m)
{
	int r = aggregate_add_memory(p->sum, m);
	return !r && p->tree ? call_tree_add_memory(p->tree, m, (enum call_frames)p->frames) : r;
}

static int take_item(struct report *p, const struct trace_item *item)
{
	switch (item->type) {
	case TRACE_EVENT:
		return take_event(p, &item->event);
	case TRACE_SUM:
		return take_sum(p, &item->sum);
	case TRACE_SAMPLE:
		return take_sample(p, &item->sample);
	case TRACE_ACTIVITY:
		return take_activity(p, &item->activity);
	case TRACE_ACTIVITIES_LOST:
		aggregate_activities_lost(p->sum, item->lost.count);
		break;
	case TRACE_MEMORY:
		return p->samples ? 0 : take_memory(p, &item->memory);
	case TRACE_PROCESS:
		if (!item->process.whole)
			aggregate_begun_late(p->sum);
		break;
	case TRACE_MEMORY_LOST:
		aggregate_memory_lost(p->sum, item->lost.count);
		break;
	case TRACE_SAMPLING:
		p->sampled.how = item->sampling;
		break;
	case TRACE_SAMPLES_LOST:
		p->sampled.lost += item->lost.count;
		break;
	case TRACE_LOST:
		aggregate_lost(p->sum, item->lost.count);
		break;
	case TRACE_THREAD:
		return take_thread(p, &(struct report_thread){.pid = item->thread.pid,
							      .tid = item->thread.tid,
							      .name = item->thread.name});
	case TRACE_CLOCK:
		return take_clock(p, item->clock);
	case TRACE_CHOSEN:
		p->opts.chosen = item->chosen;
		break;
	case TRACE_TARGET:
		if (array_grow(&p->targets, &p->targets_room, p->opts.ntargets + 1,
			       sizeof(*p->targets)))
			return -ENOMEM;
		p->targets[p->opts.ntargets++] = item->target;
		break;
	case TRACE_STATS:
		p->stats = item->stats;
		p->has_stats = true;
		break;
	default:
		break;
	}
	return 0;
}

/* Prefetch the rows of the last of the `n` items read so far: they reach the CPU cache while
 * earlier events are added. */
static void prefetch(const struct report *p, const struct trace_item *items, uint64_t n)
{
	for (int after = 3; after > 0 && n; after--) {
		const struct trace_item *item = &items[--n % AHEAD];
		if (item->type == TRACE_EVENT)
			aggregate_prefetch(p->sum, &item->event, after);
	}
}

static bool needs_values(const struct report *p)
{
	const unsigned of_tensors =
	    AGGREGATE_SHAPE | AGGREGATE_DTYPE | AGGREGATE_DEVICE | AGGREGATE_FLOPS;
	return p->choice.when || aggregate_keys(p->sum) & of_tensors;
}

/* For events without values: values are valid only until the next event is read. */
static int read_ahead(struct report *p, struct err *e)
{
	struct trace_item items[AHEAD];
	uint64_t n = 0, done = 0;
	int r = 0, end = 1;
	while (!r && end > 0) {
		struct trace_item *item = &items[n % AHEAD];
		end = trace_query_next(p->query, item, e);
		n += end > 0;
		prefetch(p, items, n);
		bool last = end <= 0 || (item->type == TRACE_EVENT && item->event.stats);
		while (!r && done < n && (last || n - done == AHEAD))
			r = take_item(p, &items[done++ % AHEAD]);
	}
	r = r ? r : aggregate_end(p->sum);
	return r ? err_set(e, r, "no memory to sum up %s", p->path) : end;
}

static int read_all(struct report *p, struct err *e)
{
	struct trace_item item;
	int n, r = 0;
	if (!needs_values(p))
		trace_query_no_values(p->query);
	if (!p->tree && !needs_values(p))
		return read_ahead(p, e);
	while (!r && (n = trace_query_next(p->query, &item, e)) > 0)
		r = take_item(p, &item);
	r = r ? r : aggregate_end(p->sum);
	return r ? err_set(e, r, "no memory to sum up %s", p->path) : n;
}

static int print_graph(struct report *p)
{
	struct aggregate_totals totals;
	bool callers = p->graph == GRAPH_CALLERS;
	struct call_tree *shown = callers ? call_tree_callers(p->tree) : p->tree;
	aggregate_totals(p->sum, &totals);
	const struct call_graph_opts opts = {.callers = callers,
					     .samples = p->samples,
					     .observed_ns = totals.observed_ns,
					     .percent_limit = p->opts.percent_limit,
					     .terminal = p->opts.terminal};
	int r = !shown			   ? -ENOMEM
		: p->format == FORMAT_JSON ? call_graph_print_json(stdout, shown, &opts)
		: p->format == FORMAT_CSV  ? call_graph_print_csv(stdout, shown, &opts)
					   : call_graph_print(stdout, shown, &opts);
	if (callers)
		call_tree_free(shown);
	return r;
}

/* The aggregate whose rows are shown. Percentages of gaps, too, are of the whole observed time. */
static const struct aggregate *rows_of(struct report *p)
{
	if (!p->gaps)
		return p->sum;
	p->opts.whole = p->sum;
	p->opts.about =
	    trace_query_has_sums(p->query)
		? "time in no op, or in ops of which there are sums only, up to the next op of the "
		  "thread that was recorded by itself, by that op's Python line"
		: "time in no op, up to the next op of the thread, by that op's Python line";
	return p->gap_sum;
}

static void print_more(const struct report *p)
{
	char n[40];
	printf("%s besides, see: ditrace report --samples\n",
	       text_counted(n, sizeof(n), trace_query_samples(p->query), "sample"));
}

static int print(struct report *p)
{
	p->opts.targets = p->targets;
	p->opts.threads = p->threads;
	p->opts.clocks = p->clocks;
	p->opts.ranks = aggregate_ranks(p->gaps ? p->gap_sum : p->sum, &p->opts.nranks);
	p->opts.of_ranks = p->choice.rank;
	p->opts.stats = p->has_stats ? &p->stats : NULL;
	bool part =
	    p->choice.time || p->choice.step || trace_choice_of_calls(&p->choice) || p->per_step;
	if (part && p->format == FORMAT_TABLE)
		p->stats.probe_ns = 0; /* no share: it is that of all the trace */
	p->opts.when = trace_query_counts(p->query);
	p->opts.left_out = p->samples ? 0 : trace_query_sums_left_out(p->query);
	p->opts.samples = p->samples ? &p->sampled : NULL;
	p->opts.per_step = p->per_step ? trace_query_steps(p->query) : 0;
	/* Between steps that are apart is what was not chosen. */
	bool apart = p->choice.step && strchr(p->choice.step, ',');
	p->opts.all_activities =
	    !apart && !trace_choice_of_calls(&p->choice) && !p->samples && !p->gaps;
	if (p->steps && p->opts.all_activities && !p->opts.chosen) {
		breakdown_get(p->steps, &p->shown_steps);
		p->opts.steps = &p->shown_steps;
		p->opts.breakdown = p->steps;
	}
	if (p->tree)
		return print_graph(p);
	const struct aggregate *rows = rows_of(p);
	if (!p->sort && aggregate_keys(rows) & AGGREGATE_ACTIVITIES)
		p->opts.sort = REPORT_BY_DEVICE_TIME;
	if (p->format == FORMAT_JSON)
		return report_print_json(stdout, rows, &p->opts);
	if (p->format == FORMAT_CSV)
		return report_print_csv(stdout, rows, &p->opts);
	int r = report_print(stdout, rows, &p->opts);
	if (!r && !p->samples && trace_query_samples(p->query))
		print_more(p);
	if (r || p->samples || p->gaps || !overflow_measured(p->overflow))
		return r;
	putc('\n', stdout);
	return overflow_print(p->overflow, stdout, p->opts.limit, p->opts.terminal);
}

/* Whether there is nothing to report. */
static bool nothing(const struct report *p)
{
	struct aggregate_totals t = {0};
	if (p->sum)
		aggregate_totals(p->sum, &t);
	return t.events + t.unfinished + t.activities == 0;
}

static int refuse(const char *option, const char *other, struct err *e)
{
	err_set(e, -EINVAL, "%s does not go with %s", option, other);
	return err_hint(e, "leave out one of them; see: ditrace report --help");
}

static int check_frames(const struct report *p, struct err *e)
{
	if (!p->graph && p->frames) {
		err_set(e, -EINVAL, "--frames is of call graphs");
		return err_hint(e, "ask for one: --call-graph callees");
	}
	if (p->frames != CALL_NATIVE || p->samples)
		return 0;
	err_set(e, -EINVAL, "--frames native: events of ops have no native frames");
	return err_hint(e, "samples have: --samples, of a file recorded with --sample");
}

static int check_per_step(const struct report *p, struct err *e)
{
	if (!p->per_step)
		return 0;
	if (p->graph || p->samples)
		return refuse("--per-step", p->graph ? "--call-graph" : "--samples", e);
	return p->format ? refuse("--per-step",
				  p->format == FORMAT_JSON ? "--format json" : "--format csv", e)
			 : 0;
}

static int check_together(const struct report *p, struct err *e)
{
	const char *form = p->graph ? "--call-graph" : p->sides ? "--side-by-side" : "--gaps";
	if (p->graph && (p->sides || p->gaps))
		return refuse(form, p->sides ? "--side-by-side" : "--gaps", e);
	if (p->samples && (p->sides || p->gaps))
		return refuse(p->sides ? "--side-by-side" : "--gaps", "samples", e);
	if (p->sides && p->gaps)
		return refuse(form, "--gaps", e);
	if ((p->graph || p->gaps) && (p->group || p->sort || p->columns))
		return refuse(form, p->group ? "--group" : p->sort ? "--sort" : "--columns", e);
	return 0;
}

/* What of the options is not of --collectives and --skew; NULL: nothing. */
static const char *not_of_collectives(const struct report *p)
{
	const struct {
		bool given;
		const char *name;
	} others[] = {{p->group, "--group"},
		      {p->sort, "--sort"},
		      {p->columns, "--columns"},
		      {p->sides, "--side-by-side"},
		      {p->gaps, "--gaps"},
		      {p->graph, "--call-graph"},
		      {p->samples, "--samples"},
		      {p->frames, "--frames"},
		      {p->percent_limit, "--percent-limit"},
		      {p->per_step, "--per-step"},
		      {p->skew && p->choice.ops, "--ops"},
		      {p->skew && p->choice.not_ops, "--not-ops"},
		      {p->skew && p->choice.when, "--when"},
		      {p->skew && p->choice.rank, "--rank"},
		      {p->skew && p->collectives, "--collectives"},
		      {p->skew && p->format == FORMAT_CSV, "--format csv"}};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (others[i].given)
			return others[i].name;
	return NULL;
}

static int of_collectives(const struct report *p)
{
	struct err e = {0};
	const char *other = not_of_collectives(p);
	if (other) {
		refuse(p->skew ? "--skew" : "--collectives", other, &e);
		err_print(&e);
		return EXIT_USAGE;
	}
	const struct collectives_report o = {.path = p->path,
					     .choice = p->choice,
					     .skew = p->skew,
					     .json = p->format == FORMAT_JSON,
					     .csv = p->format == FORMAT_CSV,
					     .limit = p->opts.limit};
	return report_collectives(&o);
}

/* --group kernel: 1 if it is given. */
static int prepare_kernels(struct report *p, struct err *e)
{
	unsigned keys;
	int r = kernels_parse(p->group, &keys, e);
	if (r <= 0)
		return r;
	const char *other = p->sides ? "--side-by-side" : p->samples ? "samples" : NULL;
	other = p->columns ? "--columns" : other;
	if (other)
		return refuse("--group kernel", other, e);
	p->opts.sort = REPORT_BY_DEVICE_TIME;
	r = p->sort ? kernels_parse_sort(p->sort, &p->opts.sort, e) : 0;
	if (r)
		return r;
	p->opts.kernels = p->kernels = kernels_new(keys);
	return p->kernels ? 1 : err_set(e, -ENOMEM, "no memory to sum up %s", p->path);
}

/* Check the options and allocate what they need. */
static int prepare(struct report *p, struct err *e)
{
	unsigned keys = AGGREGATE_DEFAULT;
	int r = check_together(p, e);
	r = r ? r : check_frames(p, e);
	r = r ? r : check_per_step(p, e);
	int kernels = r ? 0 : prepare_kernels(p, e);
	r = kernels < 0 ? kernels : r;
	r = r || kernels || !p->group ? r : group_parse(p->group, &keys, e);
	if (keys == AGGREGATE_MODULE && !p->sort && !p->columns && !p->sides && !p->samples &&
	    p->format == FORMAT_TABLE) {
		p->opts.modules = true;
		keys |= AGGREGATE_PHASE;
	}
	if (p->samples)
		keys |= AGGREGATE_SAMPLES;
	if (p->sides)
		keys = (keys & ~(unsigned)AGGREGATE_PHASE) | AGGREGATE_SIDES;
	if (p->sides && !p->sort)
		p->opts.sort = REPORT_BY_TOTAL;
	if (p->format == FORMAT_TABLE && !p->graph)
		p->opts.percent_limit = REPORT_PERCENT_LIMIT;
	r = r || !p->percent_limit
		? r
		: report_parse_percent(p->percent_limit, &p->opts.percent_limit, e);
	const unsigned flops = p->sides || p->samples || p->gaps || p->graph ? 0 : AGGREGATE_FLOPS;
	const unsigned devices = flops && !(keys & AGGREGATE_NO_ACTIVITIES)
				     ? AGGREGATE_ACTIVITIES | AGGREGATE_MEMORY |
					   AGGREGATE_NET_MEMORY | AGGREGATE_DEVICE_MEMORY
				     : 0;
	const unsigned can = keys | AGGREGATE_RANKS | devices | flops;
	r = r || kernels || !p->sort ? r : group_parse_sort(p->sort, can, &p->opts.sort, e);
	r = r || !p->columns ? r : report_columns_parse(p->columns, can, &p->chosen, e);
	if (r)
		return r;
	keys |= report_columns_keys(&p->chosen) & AGGREGATE_FLOPS;
	if (p->opts.sort == REPORT_BY_FLOPS || p->opts.sort == REPORT_BY_FLOP_RATE)
		keys |= AGGREGATE_FLOPS;
	keys |= trace_choice_of_calls(&p->choice) ? AGGREGATE_PART : 0;
	if (p->columns)
		p->opts.columns = &p->chosen;
	unsigned workers = p->graph || p->samples || p->gaps ? 0 : AGGREGATE_WORKERS;
	p->sum = aggregate_new_by(keys | AGGREGATE_STEADY | workers);
	p->gap_sum = p->gaps ? aggregate_new_by(AGGREGATE_LINE | workers) : NULL;
	p->tree = p->graph ? call_tree_new() : NULL;
	p->overflow = overflow_new();
	bool has_steps = !trace_choice_of_calls(&p->choice) && !p->graph;
	p->steps = has_steps ? breakdown_new() : NULL;
	if (!p->sum || !p->overflow || (has_steps && !p->steps) || (p->gaps && !p->gap_sum) ||
	    (p->graph && !p->tree))
		return err_set(e, -ENOMEM, "no memory to sum up %s", p->path);
	return 0;
}

static void close_all(struct report *p)
{
	aggregate_free(p->sum);
	aggregate_free(p->gap_sum);
	gaps_free(&p->between);
	kernels_free(p->kernels);
	call_tree_free(p->tree);
	overflow_free(p->overflow);
	breakdown_free(p->steps);
	free(p->targets);
	free(p->threads);
	free(p->clocks);
}

/* Returns like trace_read_next at the end of the file, or -errno if there is no report. */
static int show(struct report *p, struct err *e)
{
	int end = read_all(p, e);
	if (end < 0 && nothing(p))
		return end;
	p->opts.terminal = terminal_of(stdout);
	if (p->format == FORMAT_TABLE)
		pager_start();
	int r = print(p);
	if (!r && fflush(stdout))
		r = -errno;
	pager_wait();
	return r ? err_set(e, r, "cannot write the report: %s", strerror(-r)) : end;
}

static int report(struct report *p)
{
	/* The call tree needs events in the order of their starts, everything else in the order of
	 * their ends. */
	enum trace_kinds kinds = p->samples ? TRACE_SAMPLES : TRACE_OPS_OR_SAMPLES;
	p->choice.whole_steps = p->per_step;
	const struct trace_query_opts opts = {.choice = p->choice,
					      .kinds = kinds,
					      .by_start = p->graph,
					      .unchosen = p->gaps,
					      .samples_too = true};
	struct err e = {0}, unopened = {0};
	int wrong = trace_choice_check(&p->choice, &e);
	int open = wrong ? wrong : trace_query(p->path, &opts, &p->query, &unopened);
	p->samples = p->samples || (p->query && trace_query_of_samples(p->query));
	wrong = wrong ? wrong : prepare(p, &e);
	if (!wrong && open)
		e = unopened;
	int r = wrong ? wrong : open ? open : show(p, &e);
	close_all(p);
	/* The report itself says what was lost and left out. */
	int status = trace_query_end(p->query, 0, r, &e);
	return wrong == -EINVAL ? EXIT_USAGE : status;
}

int cmd_report(int argc, char **argv)
{
	static const char *const formats[] = {"table", "json", "csv", NULL};
	static const char *const graphs[] = {"none", "callers", "callees", NULL};
	static const char *const frames[] = {"mixed", "python", "native", "ops", NULL};
	static const char *const groups[] = {"op",     "line",	"file",	  "function", "thread",
					     "module", "shape", "dtype",  "device",   "phase",
					     "symbol", "rank",	"kernel", "stream",   NULL};
	struct report p = {.path = "ditrace.data"};
	uint64_t limit = 0;
	const struct option_def options[] = {
	    {0, "format", OPTION_CHOICE, &p.format, "FORMAT", "table (default), json or csv",
	     formats},
	    QUERY_OPTIONS(p.choice),
	    {'g', "group", OPTION_STRING, &p.group, "KEYS",
	     "a row for each of op, line, file, function, thread, module, shape, dtype, device, "
	     "phase, symbol, rank (default op,line,phase); module alone is a tree; or of kernel, "
	     "stream",
	     groups},
	    {'s', "sort", OPTION_STRING, &p.sort, "KEY",
	     "device_time (default where devices were recorded), self (default), total, calls, "
	     "mean, p50, p99, max, flops, any column of numbers, or what rows are grouped by",
	     report_sort_names},
	    {0, "columns", OPTION_STRING, &p.columns, "LIST", "of the table: calls,mean,op",
	     report_column_names()},
	    {0, "side-by-side", OPTION_FLAG, &p.sides, NULL,
	     "the backward of an op beside its forward, in one row", NULL},
	    {0, "gaps", OPTION_FLAG, &p.gaps, NULL, "time in no op by Python line", NULL},
	    {0, "collectives", OPTION_FLAG, &p.collectives, NULL,
	     "calls of torch.distributed by kind, group, size and line, over all ranks", NULL},
	    {0, "skew", OPTION_FLAG, &p.skew, NULL,
	     "which rank the others wait for, and what it does meanwhile", NULL},
	    {0, "call-graph", OPTION_CHOICE, &p.graph, "WAY",
	     "the tree of callers or callees: Python frames and ops", graphs},
	    {0, "samples", OPTION_FLAG, &p.samples, NULL,
	     "of the samples (the default where there are no ops)", NULL},
	    {0, "frames", OPTION_CHOICE, &p.frames, "KIND",
	     "in the tree: mixed (default), python, ops, and of samples native", frames},
	    {'n', "limit", OPTION_COUNT, &limit, "N", "show N rows of each part", NULL},
	    {0, "percent-limit", OPTION_STRING, &p.percent_limit, "P",
	     "nothing with less than P % of the time", NULL},
	    {0, "per-step", OPTION_FLAG, &p.per_step, NULL,
	     "times and calls of one step: the mean of the whole ones", NULL},
	    COLOR_OPTION,
	    PAGER_OPTION,
	    {0},
	};
	const struct command command = {
	    .name = "report",
	    .operands = "[FILE]",
	    .about = "Show where the time of a trace file (default: ditrace.data) went, by op and "
		     "source line.",
	    .options = options,
	    .notes = "Percentages are of the time of the threads that call ops, from the first op "
		     "of each to its last; "
		     "with --gaps and --call-graph of that of all threads. Self: in the op itself; "
		     "Total: with the ops that it called. Rows below 0.1 % are counted.",
	    .max_operands = 1,
	};
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	if (first < argc)
		p.path = argv[first];
	p.opts.limit = limit;
	return p.collectives || p.skew ? of_collectives(&p) : report(&p);
}
