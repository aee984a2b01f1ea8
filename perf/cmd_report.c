#include "base/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/text.h"
#include "perf/internal.h"

static int print_graph(struct report *p)
{
	struct aggregate_totals totals;
	bool callers = p->graph == GRAPH_CALLERS;
	struct call_tree *shown = callers ? call_tree_callers(p->tree) : p->tree;
	aggregate_totals(p->sum, &totals);
	const struct call_graph_opts opts = {.callers = callers,
					     .samples = p->samples,
					     .all = p->all,
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
	if (p->nblocks && !p->choice.ops && !p->blocks)
		printf("%s of record_function besides, see: ditrace report --group block\n",
		       text_counted(n, sizeof(n), p->nblocks, "block"));
	if (!trace_query_samples(p->query))
		return;
	printf("%s besides, see: ditrace report --samples\n",
	       text_counted(n, sizeof(n), trace_query_samples(p->query), "sample"));
}

static void set_what_was_read(struct report *p)
{
	const bool of_calls = trace_choice_of_calls(&p->choice);
	const bool is_part = p->choice.time || p->choice.step || of_calls || p->per_step;
	/* Between steps that are apart is what was not chosen. */
	const bool apart = p->choice.step && strchr(p->choice.step, ',');
	p->opts.targets = p->targets;
	p->opts.threads = p->threads;
	p->opts.clocks = p->clocks;
	p->opts.ranks = aggregate_ranks(p->gaps ? p->gap_sum : p->sum, &p->opts.nranks);
	p->opts.of_ranks = p->choice.rank;
	p->opts.stats = p->has_stats ? &p->stats : NULL;
	if (is_part && p->format == FORMAT_TABLE)
		p->stats.probe_ns = 0; /* no share: it is that of all the trace */
	p->opts.when = trace_query_counts(p->query);
	p->opts.left_out = p->samples ? 0 : trace_query_sums_left_out(p->query);
	p->opts.samples = p->samples ? &p->sampled : NULL;
	p->opts.per_step = p->per_step ? trace_query_steps(p->query) : 0;
	p->opts.all_activities = !apart && !of_calls && !p->samples && !p->gaps;
	if (p->steps && p->opts.all_activities && !p->opts.chosen) {
		breakdown_get(p->steps, &p->shown_steps);
		p->opts.steps = &p->shown_steps;
		p->opts.breakdown = p->steps;
	}
}

static int print_table(const struct report *p, const struct aggregate *rows)
{
	int r = report_print(stdout, rows, &p->opts);
	if (!r && !p->samples)
		print_more(p);
	if (r || p->samples || p->gaps || !overflow_measured(p->overflow))
		return r;
	putc('\n', stdout);
	return overflow_print(p->overflow, stdout, p->opts.limit, p->opts.terminal);
}

static int print(struct report *p)
{
	set_what_was_read(p);
	if (p->tree)
		return print_graph(p);
	const struct aggregate *rows = rows_of(p);
	if (!p->sort && aggregate_keys(rows) & AGGREGATE_ACTIVITIES)
		p->opts.sort = REPORT_BY_DEVICE_TIME;
	return p->format == FORMAT_JSON	 ? report_print_json(stdout, rows, &p->opts)
	       : p->format == FORMAT_CSV ? report_print_csv(stdout, rows, &p->opts)
					 : print_table(p, rows);
}

/* Whether there is nothing to report. */
static bool has_nothing(const struct report *p)
{
	struct aggregate_totals t = {0};
	if (p->sum)
		aggregate_totals(p->sum, &t);
	return t.events + t.unfinished + t.activities == 0;
}

static int of_collectives(const struct report *p)
{
	struct err e = {0};
	if (report_check_collectives(p, &e)) {
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

static void close_all(struct report *p)
{
	aggregate_free(p->sum);
	aggregate_free(p->gap_sum);
	gaps_free(&p->between);
	kernels_free(p->kernels);
	code_blocks_free(p->blocks);
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
	int end = report_read(p, e);
	if (end < 0 && has_nothing(p))
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
					      .no_marks = p->graph,
					      .mark_ends = p->group && !strcmp(p->group, "block"),
					      .samples_too = true};
	struct err e = {0}, unopened = {0};
	int wrong = trace_choice_check(&p->choice, &e);
	int open = wrong ? wrong : trace_query(p->path, &opts, &p->query, &unopened);
	p->samples = p->samples || (p->query && trace_query_of_samples(p->query));
	wrong = wrong ? wrong : report_prepare(p, &e);
	if (!wrong && open)
		e = unopened;
	int r = wrong ? wrong : open ? open : show(p, &e);
	close_all(p);
	/* The report itself says what was lost and left out. */
	int status = trace_query_end(p->query, 0, r, &e);
	return wrong == -EINVAL ? EXIT_USAGE : status;
}

static void add_what_to_read(struct option_list *to, struct report *p)
{
	static const char *const formats[] = {"table", "json", "csv", NULL};
	const struct option_def some[] = {
	    {0, "format", OPTION_CHOICE, &p->format, "FORMAT", "table (default), json or csv",
	     formats},
	    QUERY_OPTIONS(p->choice),
	};
	options_add(to, some, sizeof(some) / sizeof(some[0]));
}

static void add_rows(struct option_list *to, struct report *p)
{
	static const char *const groups[] = {
	    "op",     "line",  "file",	 "function", "thread", "module", "shape", "dtype",
	    "device", "phase", "symbol", "rank",     "kernel", "stream", "block", NULL};
	const struct option_def some[] = {
	    {'g', "group", OPTION_LIST, &p->group, "KEYS",
	     "a row for each of op, line, file, function, thread, module, shape, dtype, device, "
	     "phase, symbol, rank (default op,line,phase); module alone is a tree; or of kernel, "
	     "stream; or block: those of record_function",
	     groups},
	    {'s', "sort", OPTION_STRING, &p->sort, "KEY",
	     "device_time (default where devices were recorded), self (default), total, calls, "
	     "mean, p50, p99, max, flops, any column of numbers, or what rows are grouped by",
	     report_sort_names},
	    {0, "columns", OPTION_LIST, &p->columns, "LIST", "of the table: calls,mean,op",
	     report_column_names()},
	};
	options_add(to, some, sizeof(some) / sizeof(some[0]));
}

static void add_views(struct option_list *to, struct report *p)
{
	static const char *const graphs[] = {"none", "callers", "callees", NULL};
	static const char *const frames[] = {"mixed", "python", "native", "ops", NULL};
	const struct option_def some[] = {
	    {0, "side-by-side", OPTION_FLAG, &p->sides, NULL,
	     "the backward of an op beside its forward, in one row", NULL},
	    {0, "gaps", OPTION_FLAG, &p->gaps, NULL, "time in no op by Python line", NULL},
	    {0, "collectives", OPTION_FLAG, &p->collectives, NULL,
	     "calls of torch.distributed by kind, group, size and line, over all ranks", NULL},
	    {0, "skew", OPTION_FLAG, &p->skew, NULL,
	     "which rank the others wait for, and what it does meanwhile", NULL},
	    {0, "call-graph", OPTION_CHOICE, &p->graph, "WAY",
	     "the tree of callers or callees: Python frames and ops", graphs},
	    {0, "samples", OPTION_FLAG, &p->samples, NULL,
	     "of the samples (the default where there are no ops)", NULL},
	    {0, "frames", OPTION_CHOICE, &p->frames, "KIND",
	     "in the tree: mixed (default), python, ops, and of samples native", frames},
	    {0, "all", OPTION_FLAG, &p->all, NULL,
	     "in the tree: frames of torch, of imports and of the interpreter, too", NULL},
	};
	options_add(to, some, sizeof(some) / sizeof(some[0]));
}

static void add_how_much(struct option_list *to, struct report *p)
{
	const struct option_def some[] = {
	    {'n', "limit", OPTION_COUNT, &p->limit, "N", "show N rows of each part", NULL},
	    {0, "percent-limit", OPTION_STRING, &p->percent_limit, "P",
	     "nothing with less than P % of the time", NULL},
	    {0, "per-step", OPTION_FLAG, &p->per_step, NULL,
	     "times and calls of one step: the mean of the whole ones", NULL},
	    COLOR_OPTION,
	    PAGER_OPTION,
	};
	options_add(to, some, sizeof(some) / sizeof(some[0]));
}

int cmd_report(int argc, char **argv)
{
	struct report p = {.path = "ditrace.data"};
	struct option_list options = {.n = 0};
	add_what_to_read(&options, &p);
	add_rows(&options, &p);
	add_views(&options, &p);
	add_how_much(&options, &p);
	const struct command command = {
	    .name = "report",
	    .operands = "[FILE]",
	    .about = "Show where the time of a trace file (default: ditrace.data) went, by op and "
		     "source line.",
	    .options = options.of,
	    .notes = "Percentages are of the time of the threads that call ops, from the first op "
		     "of each to its last; "
		     "with --call-graph of that of all threads. Self: in the op itself; "
		     "Total: with the ops that it called. Rows below 0.1 % are counted.",
	    .max_operands = 1,
	};
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	if (first < argc)
		p.path = argv[first];
	p.opts.limit = p.limit;
	return p.collectives || p.skew ? of_collectives(&p) : report(&p);
}
