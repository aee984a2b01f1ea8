#include "base/commands.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "base/text.h"
#include "perf/annotate/annotate.h"
#include "perf/report/report.h"
#include "perf/trace/trace_read.h"

enum { TARGETS_MAX = 256 };
enum { FORMAT_TABLE, FORMAT_JSON, FORMAT_CSV };

struct annotate {
	const char *path, *percent_limit;
	int format;
	struct annotate_opts opts;
	struct trace_choice choice;
	struct trace_query *query;
	struct aggregate *ops, *gap_sum;
	struct aggregate *whole; /* of all ops, for the observed time */
	struct gaps between;
	struct trace_target targets[TARGETS_MAX];
	struct trace_stats stats;
	struct report_opts summary;
};

static int add_event(struct annotate *x, const struct op_event *ev)
{
	struct op_event gap;
	int gaps = gaps_see(&x->between, ev, &gap);
	int r = x->whole && gaps >= 0 ? aggregate_add(x->whole, ev) : gaps < 0 ? gaps : 0;
	if (r || !trace_query_chooses(x->query, ev))
		return r;
	if (gaps)
		r = aggregate_add(x->gap_sum, &gap);
	return r ? r : aggregate_add(x->ops, ev);
}

static int add_sum(struct annotate *x, const struct op_sum *s)
{
	int r = x->whole ? aggregate_add_sum(x->whole, s) : 0;
	return r ? r : aggregate_add_sum(x->ops, s);
}

static int add_item(struct annotate *x, const struct trace_item *item)
{
	switch (item->type) {
	case TRACE_EVENT:
		return add_event(x, &item->event);
	case TRACE_SUM:
		return add_sum(x, &item->sum);
	case TRACE_LOST:
		aggregate_lost(x->ops, item->lost.count);
		break;
	case TRACE_CHOSEN:
		x->summary.chosen = item->chosen;
		break;
	case TRACE_TARGET:
		if (x->summary.ntargets < TARGETS_MAX)
			x->targets[x->summary.ntargets++] = item->target;
		break;
	case TRACE_STATS:
		x->stats = item->stats;
		x->summary.stats = &x->stats;
		break;
	default:
		break;
	}
	return 0;
}

/* Returns like trace_query_next at the end of the file. */
static int read_all(struct annotate *x, struct err *e)
{
	struct read_progress progress = {0};
	struct trace_item item;
	int n, r = 0;
	while (!r && (n = trace_query_next(x->query, &item, e)) > 0) {
		r = add_item(x, &item);
		if (progress_is_due(&progress))
			progress_show(&progress, x->path, trace_query_share(x->query));
	}
	progress_hide(&progress);
	return r ? err_set(e, r, "no memory to sum up %s", x->path) : n;
}

/* When calls that were summed up ran is not known, so neither is when no op ran. */
static int drop_gaps(struct annotate *x)
{
	x->summary.left_out = trace_query_sums_left_out(x->query);
	if (!trace_query_has_sums(x->query))
		return 0;
	aggregate_free(x->gap_sum);
	x->gap_sum = aggregate_new(ANNOTATE_GAPS);
	return x->gap_sum ? 0 : -ENOMEM;
}

static void hint_files(const struct annotation *a, const char *asked, struct err *e)
{
	char names[256] = "";
	size_t used = 0, len = strlen(asked);
	if (access(asked, R_OK) == 0 && (len < 3 || strcmp(asked + len - 3, ".py") != 0)) {
		err_hint(e, "to read that trace: ditrace annotate -i %s", asked);
		return;
	}
	for (size_t i = 0; i < a->n && used < sizeof(names); i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
					 used ? ", " : "", text_base_name(a->files[i].path));
	err_hint(e, "these ran ops: %s", names);
}

/* Whether there is anything to show. 0 or -ENOENT. */
static int check_chosen(const struct annotate *x, const struct annotation *a, struct err *e)
{
	size_t i = 0;
	if (!a->n) {
		err_set(e, -ENOENT, "%s has no op with a Python line", x->path);
		return err_hint(e, "record ops with: ditrace run -- python3 train.py; of samples "
				   "alone there is: ditrace report");
	}
	while (x->opts.only && i < a->n && !annotate_is_asked(a->files[i].path, x->opts.only))
		i++;
	if (i < a->n)
		return 0;
	err_set(e, -ENOENT, "no line of %s ran an op in %s", x->opts.only, x->path);
	hint_files(a, x->opts.only, e);
	return -ENOENT;
}

static int print_table(struct annotate *x, const struct annotation *a)
{
	x->opts.terminal = terminal_of(stdout);
	x->summary.terminal = x->opts.terminal;
	x->summary.targets = x->targets;
	x->summary.no_table = true;
	x->summary.when = trace_query_counts(x->query);
	if (x->choice.time || x->choice.step || trace_choice_of_calls(&x->choice))
		x->stats.probe_ns = 0; /* no share: it is that of all the trace */
	pager_start();
	int r = report_print(stdout, x->ops, &x->summary);
	return r ? r : annotate_print(stdout, a, &x->opts);
}

static int print(struct annotate *x, const struct annotation *a)
{
	x->opts.begun_ns = trace_query_begun(x->query);
	return x->format == FORMAT_JSON	 ? annotate_print_json(stdout, a, &x->opts)
	       : x->format == FORMAT_CSV ? annotate_print_csv(stdout, a, &x->opts)
					 : print_table(x, a);
}

/* Returns like trace_query_next at the end of the file, or -errno if nothing was shown. */
static int show(struct annotate *x, struct err *e)
{
	struct err unread = {0};
	struct annotation a;
	struct aggregate_totals t;
	int end = read_all(x, &unread);
	aggregate_totals(x->whole ? x->whole : x->ops, &t);
	int r = drop_gaps(x);
	r = r ? r : annotation_make(x->ops, x->gap_sum, &t, &a);
	if (r)
		return err_set(e, r, "no memory to sum up %s", x->path);
	if (end < 0 && end != -EAGAIN && !a.n)
		r = end;
	else
		r = check_chosen(x, &a, e);
	if (r == end || !r)
		*e = unread;
	if (!r) {
		r = print(x, &a);
		if (!r && fflush(stdout))
			r = -errno;
		pager_wait();
		r = r ? err_set(e, r, "cannot write the lines: %s", strerror(-r)) : end;
	}
	annotation_free(&a);
	return r;
}

static int prepare(struct annotate *x, struct err *e)
{
	if (x->format == FORMAT_TABLE)
		x->opts.percent_limit = REPORT_PERCENT_LIMIT;
	int r = trace_choice_check(&x->choice, e);
	if (!r && x->percent_limit)
		r = report_parse_percent(x->percent_limit, &x->opts.percent_limit, e);
	if (r)
		return r;
	x->ops = aggregate_new(ANNOTATE_OPS | (x->choice.ops ? AGGREGATE_MARKS : 0));
	x->gap_sum = aggregate_new(ANNOTATE_GAPS);
	bool calls = trace_choice_of_calls(&x->choice);
	x->whole = calls ? aggregate_new(AGGREGATE_WORKERS | AGGREGATE_STEADY) : NULL;
	if (!x->ops || !x->gap_sum || (calls && !x->whole))
		return err_set(e, -ENOMEM, "no memory to sum up %s", x->path);
	return 0;
}

static int annotate(struct annotate *x)
{
	const struct trace_query_opts opts = {
	    .choice = x->choice, .kinds = TRACE_OPS, .unchosen = true};
	struct err e = {0};
	int wrong = prepare(x, &e);
	int r = wrong ? wrong : trace_query(x->path, &opts, &x->query, &e);
	r = r ? r : show(x, &e);
	aggregate_free(x->ops);
	aggregate_free(x->gap_sum);
	aggregate_free(x->whole);
	gaps_free(&x->between);
	int status = trace_query_end(x->query, 0, r, &e);
	return wrong == -EINVAL ? EXIT_USAGE : status;
}

int cmd_annotate(int argc, char **argv)
{
	static const char *const formats[] = {"table", "json", "csv", NULL};
	struct annotate x = {.path = "ditrace.data"};
	const struct option_def options[] = {
	    {'i', "input", OPTION_STRING, &x.path, "FILE", "the trace (default: ditrace.data)",
	     NULL},
	    {0, "format", OPTION_CHOICE, &x.format, "FORMAT", "table (default), json or csv",
	     formats},
	    QUERY_OPTIONS(x.choice),
	    {0, "percent-limit", OPTION_STRING, &x.percent_limit, "P",
	     "no files and lines with less than P % of the time", NULL},
	    COLOR_OPTION,
	    PAGER_OPTION,
	    {0},
	};
	const struct command command = {
	    .name = "annotate",
	    .operands = "[FILE.py]",
	    .about = "Show the source of a recorded program, all Python files that ran ops or one "
		     "of them, with what each line took before it.",
	    .options = options,
	    .notes =
		"Forward and Backward (Fwd, Bwd): self times of the ops of a line; Self %: both "
		"in percent of the time of the threads that call ops. In no op (Gap): time in no "
		"op up to an "
		"op of the line. Lines below 0.1 % are folded unless they are near others.",
	    .max_operands = 1,
	};
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	if (first < argc)
		x.opts.only = argv[first];
	return annotate(&x);
}
