#include "base/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/text.h"
#include "perf/diff/trace_diff.h"
#include "perf/trace/trace_read.h"

enum { FORMAT_TABLE, FORMAT_JSON, FORMAT_CSV };
enum { EXIT_NOT_READ = 2 };

struct trace_diff_job {
	struct trace_choice choice;
	const char *threshold;
	int format;
	uint64_t limit;
	struct trace_diff_print print;
	struct aggregate *a, *b;
	struct trace_diff found;
};

bool cmd_trace_diff_is_meant(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (argv[i][0] != '-' && trace_query_can_read(argv[i]))
			return true;
	return false;
}

/* From which call on the name of a parameter is known differs between equal runs: rows that are
 * compared have none. */
static int add_event(struct aggregate *sum, struct op_event *ev)
{
	if (py_stack_parameter(ev->where_stack))
		ev->where_stack = NULL;
	return aggregate_add(sum, ev);
}

/* Of a trace without all ops it is not known what a step is. */
static int sum_up(const char *path, struct trace_query *query, struct aggregate *sum,
		  struct breakdown *steps, bool *has_steps, struct err *e)
{
	struct read_progress progress = {0};
	struct trace_item item;
	int n, r = 0;
	while (!r && (n = trace_query_next(query, &item, e)) > 0) {
		if (item.type == TRACE_LOST)
			aggregate_lost(sum, item.lost.count);
		else if (item.type == TRACE_CHOSEN)
			*has_steps = false;
		else if (item.type == TRACE_SUM)
			r = aggregate_add_sum(sum, &item.sum);
		else if (item.type == TRACE_EVENT && trace_query_chooses(query, &item.event)) {
			r = breakdown_add(steps, &item.event);
			r = r ? r : add_event(sum, &item.event);
		} else if (item.type == TRACE_EVENT)
			aggregate_pass(sum);
		if (progress_is_due(&progress))
			progress_show(&progress, path, trace_query_share(query));
	}
	progress_hide(&progress);
	return r ? err_set(e, r, "no memory to sum up %s", path) : n;
}

/* Returns 0; 1 for a truncated or damaged trace, which is compared up to that point; or -errno.
 * Messages are already printed. */
static int read_trace(const char *path, const struct trace_choice *choice, struct aggregate **out,
		      struct breakdown_result *of_steps)
{
	struct breakdown *steps = breakdown_new();
	bool has_steps = !trace_choice_of_calls(choice);
	const struct trace_query_opts opts = {
	    .choice = *choice, .kinds = TRACE_OPS, .unchosen = true};
	struct err e = {0};
	struct trace_query *query = NULL;
	int r = trace_query(path, &opts, &query, &e);
	if (r) {
		breakdown_free(steps);
		trace_query_end(query, 0, r, &e);
		return r;
	}
	*out = aggregate_new(TRACE_DIFF_KEYS | (choice->ops ? AGGREGATE_MARKS : 0));
	r = *out && steps ? sum_up(path, query, *out, steps, &has_steps, &e)
			  : err_set(&e, -ENOMEM, "no memory to sum up %s", path);
	if (steps && has_steps)
		breakdown_get(steps, of_steps);
	breakdown_free(steps);
	trace_query_end(query, TRACE_SAY_LEFT_OUT, r, &e);
	return r == -ENODATA || r == -EBADMSG ? 1 : r == -EAGAIN ? 0 : r;
}

static int parse_threshold(const char *text, double *out)
{
	struct err e = {0};
	char *end;
	double d = text ? strtod(text, &end) : 5;
	if (text && (end == text || (*end && strcmp(end, "%") != 0) || !(d >= 0 && d <= 1000))) {
		err_set(&e, -EINVAL, "--threshold %s: not a percentage", text);
		err_hint(&e, "a number from 0 to 1000: --threshold 10");
		err_print(&e);
		return -EINVAL;
	}
	*out = d / 100;
	return 0;
}

static int print(struct trace_diff_job *j)
{
	struct err e = {0};
	j->print.terminal = terminal_of(stdout);
	j->print.limit = j->limit;
	j->print.a = j->a;
	j->print.b = j->b;
	if (j->format == FORMAT_TABLE)
		pager_start();
	int r = j->format == FORMAT_JSON  ? trace_diff_print_json(stdout, &j->found, &j->print)
		: j->format == FORMAT_CSV ? trace_diff_print_csv(stdout, &j->found)
					  : trace_diff_print(stdout, &j->found, &j->print);
	if (!r && fflush(stdout))
		r = -errno;
	pager_wait();
	if (r) {
		err_set(&e, r, "cannot write the comparison: %s", strerror(-r));
		err_print(&e);
	}
	return r;
}

static int compare_traces(struct trace_diff_job *j, char **paths)
{
	double threshold;
	if (parse_threshold(j->threshold, &threshold))
		return EXIT_NOT_READ;
	int first = read_trace(paths[0], &j->choice, &j->a, &j->print.steps_a);
	int second = first < 0 ? first : read_trace(paths[1], &j->choice, &j->b, &j->print.steps_b);
	if (second < 0)
		return EXIT_NOT_READ;
	if (trace_diff(j->a, j->b, threshold, &j->found)) {
		fputs("ditrace: no memory for the comparison\n", stderr);
		return EXIT_NOT_READ;
	}
	int r = print(j);
	return r || first || second ? EXIT_NOT_READ : j->found.changed ? EXIT_FAILED : EXIT_GOOD;
}

int cmd_trace_diff(int argc, char **argv)
{
	static const char *const formats[] = {"table", "json", "csv", NULL};
	struct trace_diff_job j = {0};
	const struct option_def options[] = {
	    QUERY_OPTIONS(j.choice),
	    {0, "threshold", OPTION_STRING, &j.threshold, "P",
	     "durations that changed by less than P % are within noise (default 5)", NULL},
	    {0, "all", OPTION_FLAG, &j.print.all, NULL, "also the rows that have not changed",
	     NULL},
	    {'n', "limit", OPTION_COUNT, &j.limit, "N", "show N rows of the table", NULL},
	    {0, "format", OPTION_CHOICE, &j.format, "FORMAT", "table (default), json or csv",
	     formats},
	    COLOR_OPTION,
	    PAGER_OPTION,
	    {0},
	};
	const struct command command = {
	    .name = "diff",
	    .operands = "A B",
	    .about = "Compare two traces: which ops take longer in B than in A, beyond noise?",
	    .options = options,
	    .notes = "--when, --time and --step choose in A and in B alike: times since each was "
		     "begun, steps of each. "
		     "Exit status: 1 when something changed, 2 when something could not be "
		     "read.",
	    .min_operands = 2,
	    .max_operands = 2,
	};
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	status = compare_traces(&j, argv + first);
	trace_diff_free(&j.found);
	aggregate_free(j.a);
	aggregate_free(j.b);
	return status;
}
