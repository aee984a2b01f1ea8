#include "perf/cmd_report.h"

#include <errno.h>
#include <string.h>

#include "base/options.h"
#include "perf/overflow.h"
#include "perf/report.h"
#include "perf/trace_end.h"
#include "perf/trace_read.h"
#include "perf/trace_when.h"

enum { TARGETS_MAX = 16 };

struct report {
	const char *path;
	int format; /* 0: table, 1: JSON, 2: CSV */
	struct report_opts opts;
	struct trace_when when;
	struct aggregate *sum;
	struct overflow *overflow;
	struct trace_target targets[TARGETS_MAX];
	struct trace_stats stats;
	bool has_stats;
	uint64_t lost;
};

static int take_event(struct report *p, const struct op_event *ev)
{
	int r = aggregate_add(p->sum, ev);
	return r ? r : overflow_add(p->overflow, ev);
}

static int take_item(struct report *p, const struct trace_item *item)
{
	switch (item->type) {
	case TRACE_EVENT:
		return trace_when_chooses(&p->when, &item->event) ? take_event(p, &item->event) : 0;
	case TRACE_LOST:
		p->lost += item->lost.count;
		aggregate_lost(p->sum, item->lost.count);
		break;
	case TRACE_TARGET:
		if (p->opts.ntargets < TARGETS_MAX)
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

static int read_all(struct report *p, struct trace_reader *reader, struct err *e)
{
	struct trace_item item;
	int n;
	while ((n = trace_read_next(reader, &item, e)) > 0) {
		int r = take_item(p, &item);
		if (r)
			return err_set(e, r, "no memory to sum up %s", p->path);
	}
	return n;
}

static int print(struct report *p)
{
	p->opts.targets = p->targets;
	p->opts.stats = p->has_stats ? &p->stats : NULL;
	p->opts.when = p->when.when ? &p->when.counts : NULL;
	if (p->format == 1)
		return report_print_json(stdout, p->sum, &p->opts);
	if (p->format == 2)
		return report_print_csv(stdout, p->sum, &p->opts);
	p->opts.terminal = terminal_of(stdout);
	int r = report_print(stdout, p->sum, &p->opts);
	if (r || !overflow_measured(p->overflow))
		return r;
	putc('\n', stdout);
	return overflow_print(p->overflow, stdout, p->opts.limit, p->opts.terminal);
}

/* Whether there is nothing that a report could show. */
static bool nothing(const struct report *p)
{
	struct aggregate_totals t = {0};
	if (p->sum)
		aggregate_totals(p->sum, &t);
	return t.events + t.unfinished == 0;
}

static int report(struct report *p)
{
	struct err e = {0};
	struct trace_reader *reader;
	if (trace_reader_open(p->path, &reader, &e)) {
		err_print(&e);
		return EXIT_FAILED;
	}
	if (trace_when_open(&p->when, p->path, &e)) {
		err_print(&e);
		trace_when_close(&p->when);
		trace_reader_close(reader);
		return EXIT_FAILED;
	}
	p->sum = aggregate_new();
	p->overflow = overflow_new();
	int end = p->sum && p->overflow ? read_all(p, reader, &e)
					: err_set(&e, -ENOMEM, "no memory to sum up %s", p->path);
	int r = end < 0 && nothing(p) ? 0 : print(p);
	if (!r && fflush(stdout))
		r = -errno;
	if (r)
		end = err_set(&e, r, "cannot write the report: %s", strerror(-r));
	aggregate_free(p->sum);
	overflow_free(p->overflow);
	trace_when_close(&p->when);
	trace_reader_close(reader);
	/* The table says how many events were lost. */
	return trace_end_print(p->path, end, &e, 0);
}

int cmd_report(int argc, char **argv)
{
	static const char *const formats[] = {"table", "json", "csv", NULL};
	struct report p = {.path = "ditrace.data"};
	int sort = REPORT_BY_SELF;
	uint64_t limit = 0;
	const struct option_def options[] = {
	    {0, "format", OPTION_CHOICE, &p.format, "FORMAT", "table (default), json or csv",
	     formats},
	    {0, "when", OPTION_STRING, &p.when.text, "EXPR",
	     "only calls for which EXPR holds: 'self.dim() == 2'", NULL},
	    {'s', "sort", OPTION_CHOICE, &sort, "KEY",
	     "self (default), total, calls, mean, p99 or max", report_sort_names},
	    {'n', "limit", OPTION_COUNT, &limit, "N",
	     "show N rows of the forward and of the backward part", NULL},
	    {0},
	};
	const struct command command = {
	    .name = "report",
	    .operands = "[FILE]",
	    .about = "Show where the time of a trace file (default: ditrace.data) went, by op and "
		     "source line.",
	    .options = options,
	    .notes = "Percentages are of the time in which the threads were observed: from each "
		     "thread's first\n"
		     "op to its last. Self: in the op itself; Total: with the ops that it called.",
	    .max_operands = 1,
	};
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	if (first < argc)
		p.path = argv[first];
	p.opts.sort = (enum report_sort)sort;
	p.opts.limit = limit;
	return report(&p);
}
