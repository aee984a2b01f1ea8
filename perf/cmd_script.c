#include "base/commands.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/options.h"
#include "perf/collectives/collectives.h"
#include "base/text.h"
#include "perf/events/print_event.h"
#include "perf/trace/trace_read.h"

enum { POLL_MS = 100 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
	(void)sig;
	interrupted = 1;
}

/* What is printed, if not all. */
enum { ONLY_OPS, ONLY_SAMPLES, ONLY_ACTIVITIES, ONLY_MEMORY, ALL = -1 };

struct script {
	const char *path;
	bool follow;
	int format; /* 0: text, 1: JSON lines */
	int only;
	bool stats;	/* JSON lines: also those of statistics */
	uint64_t limit; /* 0: none */
	struct trace_choice choice;
	bool only_collectives;		 /* which are ops */
	struct collectives *collectives; /* NULL without only_collectives */
	struct event_printer *printer;
	uint64_t origin_ns;
};

static void wait_for_more(void)
{
	struct timespec t = {.tv_nsec = POLL_MS * 1000000};
	fflush(stdout);
	nanosleep(&t, NULL);
}

static void print_json(const struct script *s, const struct op_event *ev)
{
	json_event(stdout, ev);
	putc('\n', stdout);
	if (!s->stats || !ev->stats)
		return;
	json_stats(stdout, ev);
	putc('\n', stdout);
}

static void print_sample(struct script *s, const struct sample *x)
{
	if (s->format == 0)
		sample_print(stdout, x, s->origin_ns);
	else
		sample_json(stdout, x);
	putc('\n', stdout);
}

static void print_activity(const struct script *s, const struct activity *a)
{
	if (s->format == 0)
		activity_print(stdout, a, s->origin_ns);
	else
		activity_json(stdout, a);
	putc('\n', stdout);
}

static void print_memory(const struct script *s, const struct memory_event *m)
{
	if (s->format == 0)
		memory_print(stdout, m, s->origin_ns);
	else
		memory_json(stdout, m);
	putc('\n', stdout);
}

static void print_collective(const struct script *s, const struct trace_item *item)
{
	if (item->type != TRACE_EVENT)
		return;
	if (s->format == 0)
		collective_print(s->collectives, stdout, &item->event);
	else
		collective_json(s->collectives, stdout, &item->event);
}

static int no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "no memory for the collectives");
}

/* The first pass: they are numbered before some are chosen. */
static int number_collective(void *arg, const struct trace_item *item, struct err *e)
{
	return collectives_see(arg, item) ? no_memory(e) : 0;
}

static bool is_shown(const struct script *s, const struct trace_item *item)
{
	return item->type == TRACE_EVENT      ? s->only == ALL || s->only == ONLY_OPS
	       : item->type == TRACE_SAMPLE   ? s->only == ALL || s->only == ONLY_SAMPLES
	       : item->type == TRACE_ACTIVITY ? s->only == ALL || s->only == ONLY_ACTIVITIES
	       : item->type == TRACE_MEMORY   ? s->only == ONLY_MEMORY
					      : false;
}

static int print_item(struct script *s, const struct trace_item *item, struct err *e)
{
	int r = 0;
	errno = 0;
	if (!is_shown(s, item))
		return 0;
	if (s->collectives)
		print_collective(s, item);
	else if (item->type == TRACE_SAMPLE)
		print_sample(s, &item->sample);
	else if (item->type == TRACE_ACTIVITY)
		print_activity(s, &item->activity);
	else if (item->type == TRACE_MEMORY)
		print_memory(s, &item->memory);
	else if (s->format == 0)
		r = event_print(s->printer, &item->event);
	else
		print_json(s, &item->event);
	if (ferror(stdout))
		r = errno ? -errno : -EIO;
	return r ? err_set(e, r, "cannot write the events: %s", strerror(-r)) : 0;
}

/* Returns like trace_query_next at the end of the file; 0 when interrupted. */
static int print_all(struct script *s, struct trace_query *query, struct err *e)
{
	struct trace_item item;
	for (uint64_t shown = 0; !interrupted && (!s->limit || shown < s->limit);) {
		int n = trace_query_next(query, &item, e);
		if (n == -EAGAIN && s->follow)
			wait_for_more();
		else if (n <= 0)
			return n;
		else if ((n = print_item(s, &item, e)))
			return n;
		else
			shown += is_shown(s, &item);
	}
	return 0;
}

static int print_chosen(struct script *s, struct trace_query *query, struct err *e)
{
	s->origin_ns = trace_query_origin(query);
	s->printer = event_printer_new(stdout);
	if (s->format == 0 && !s->follow)
		pager_start();
	int r = s->printer ? print_all(s, query, e)
			   : err_set(e, -ENOMEM, "no memory to read %s", s->path);
	if (fflush(stdout) && !r)
		r = err_set(e, -errno, "cannot write the events: %s", strerror(errno));
	event_printer_free(s->printer);
	pager_wait();
	return r;
}

static int script(struct script *s)
{
	unsigned say = 0;
	struct err e = {0};
	struct trace_query *query = NULL;
	s->collectives = s->only_collectives ? collectives_new() : NULL;
	const struct trace_query_opts opts = {.choice = s->choice,
					      .by_start = true,
					      .follow = s->follow,
					      .first = s->collectives ? number_collective : NULL,
					      .first_arg = s->collectives};
	int r = s->only_collectives && !s->collectives ? no_memory(&e)
						       : trace_query(s->path, &opts, &query, &e);
	if (!r && s->collectives && collectives_match(s->collectives))
		r = no_memory(&e);
	if (!r) {
		say = TRACE_SAY_LEFT_OUT | TRACE_SAY_LOST | TRACE_SAY_SUMMED | TRACE_SAY_CLOCKS;
		r = print_chosen(s, query, &e);
	}
	collectives_free(s->collectives);
	return trace_query_end(query, say, r, &e);
}

static int check_together(const struct script *s, struct err *e)
{
	if (s->stats && s->format == 0) {
		err_set(e, -EINVAL, "--stats does nothing without --format jsonl");
		return err_hint(
		    e, "text always has the statistics; add --format jsonl, or leave it out");
	}
	if (!s->only_collectives || !(s->follow || s->stats || s->only != ALL))
		return 0;
	err_set(e, -EINVAL, "--collectives does not go with %s",
		s->follow  ? "--follow"
		: s->stats ? "--stats"
			   : "--only");
	return err_hint(e, "leave out one of them; see: ditrace script --help");
}

int cmd_script(int argc, char **argv)
{
	static const char *const formats[] = {"text", "jsonl", NULL};
	static const char *const kinds[] = {"ops", "samples", "activities", "memory", NULL};
	struct script s = {.path = "ditrace.data", .only = ALL};
	const struct option_def options[] = {
	    {0, "format", OPTION_CHOICE, &s.format, "FORMAT",
	     "text (default) or jsonl: an object a line", formats},
	    {0, "stats", OPTION_FLAG, &s.stats, NULL,
	     "jsonl: behind an event its statistics, an object of their own", NULL},
	    QUERY_OPTIONS(s.choice),
	    {0, "only", OPTION_CHOICE, &s.only, "KIND",
	     "only the ops, samples, activities (what devices did) or memory, which is shown so "
	     "alone",
	     kinds},
	    {0, "collectives", OPTION_FLAG, &s.only_collectives, NULL,
	     "a line for each call of torch.distributed, numbered in its group", NULL},
	    {'n', "limit", OPTION_POSITIVE, &s.limit, "N", "show the first N events", NULL},
	    {'f', "follow", OPTION_FLAG, &s.follow, NULL,
	     "go on with what ditrace is still writing", NULL},
	    PAGER_OPTION,
	    {0},
	};
	const struct command command = {
	    .name = "script",
	    .operands = "[FILE]",
	    .about = "Print the events of a trace file (default: ditrace.data) in the order in "
		     "which they started.",
	    .options = options,
	    .notes = "The keys of the JSON objects: id, parent, depth, pid, tid, phase, op, "
		     "start_ns, end_ns, "
		     "thrown, forward_id, args, results, stack; see ditrace-script(1).",
	    .max_operands = 1,
	};
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	if (first < argc)
		s.path = argv[first];
	struct err e = {0};
	if (check_together(&s, &e) || trace_choice_check(&s.choice, &e)) {
		err_print(&e);
		return EXIT_USAGE;
	}
	if (s.only_collectives)
		s.only = ONLY_OPS;
	struct sigaction act = {.sa_handler = on_interrupt};
	if (s.follow)
		sigaction(SIGINT, &act, NULL);
	return script(&s);
}
