#include "base/commands.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/options.h"
#include "perf/events/json_event.h"
#include "perf/events/print_event.h"
#include "perf/trace/trace_read.h"
#include "perf/trace/trace_span.h"

enum { POLL_MS = 100 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
	(void)sig;
	interrupted = 1;
}

struct script {
	const char *path;
	bool follow;
	int format; /* 0: text, 1: JSON lines */
	bool stats; /* JSON lines: those of statistics, too */
	struct trace_when when;
	struct event_printer *printer;
	uint64_t lost, origin_ns;
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
	struct op_event ev;
	sample_as_event(x, &ev);
	if (!trace_when_chooses(&s->when, &ev))
		return;
	if (s->format == 0)
		sample_print(stdout, x, s->origin_ns);
	else
		sample_json(stdout, x);
	putc('\n', stdout);
}

static int print_item(struct script *s, const struct trace_item *item, struct err *e)
{
	int r = 0;
	errno = 0;
	if (item->type == TRACE_LOST)
		s->lost += item->lost.count;
	if (item->type == TRACE_SAMPLE)
		print_sample(s, &item->sample);
	else if (item->type != TRACE_EVENT || !trace_when_chooses(&s->when, &item->event))
		return 0;
	else if (s->format == 0)
		r = event_print(s->printer, &item->event);
	else
		print_json(s, &item->event);
	if (ferror(stdout))
		r = errno ? -errno : -EIO;
	return r ? err_set(e, r, "cannot write the events: %s", strerror(-r)) : 0;
}

/* As trace_read_next at the end of the file; 0 when interrupted. */
static int print_all(struct script *s, struct trace_order *order, struct err *e)
{
	struct trace_item item;
	while (!interrupted) {
		int n = trace_order_next(order, &item, e);
		if (n == -EAGAIN && s->follow)
			wait_for_more();
		else if (n <= 0)
			return n;
		else if ((n = print_item(s, &item, e)))
			return n;
	}
	return 0;
}

static int script(struct script *s)
{
	struct err e = {0};
	struct trace_reader *reader;
	int r = trace_reader_open(s->path, &reader, &e);
	if (!r) {
		r = trace_when_open(&s->when, s->path, &e);
		if (r)
			trace_reader_close(reader);
	}
	if (r) {
		err_print(&e);
		trace_when_close(&s->when);
		return EXIT_FAILED;
	}
	struct trace_order *order = trace_order_new(reader, s->follow);
	s->origin_ns = trace_reader_origin(reader);
	s->printer = event_printer_new(stdout);
	if (order && s->printer)
		r = print_all(s, order, &e);
	else
		r = err_set(&e, -ENOMEM, "no memory to read %s", s->path);
	if (fflush(stdout) && !r)
		r = err_set(&e, -errno, "cannot write the events: %s", strerror(errno));
	event_printer_free(s->printer);
	trace_order_free(order);
	trace_reader_close(reader);
	trace_when_print(&s->when);
	trace_when_close(&s->when);
	return trace_end_print(s->path, r, &e, s->lost);
}

int cmd_script(int argc, char **argv)
{
	static const char *const formats[] = {"text", "jsonl", NULL};
	struct script s = {.path = "ditrace.data"};
	const struct option_def options[] = {
	    {0, "format", OPTION_CHOICE, &s.format, "FORMAT",
	     "text (default) or jsonl: an object a line", formats},
	    {0, "stats", OPTION_FLAG, &s.stats, NULL,
	     "jsonl: behind an event its statistics, an object of their own", NULL},
	    {0, "when", OPTION_STRING, &s.when.text, "EXPR",
	     "only calls for which EXPR holds: 'self.dim() == 2'", NULL},
	    {'f', "follow", OPTION_FLAG, &s.follow, NULL,
	     "go on with what ditrace is still writing", NULL},
	    {0},
	};
	const struct command command = {
	    .name = "script",
	    .operands = "[FILE]",
	    .about = "Print the events of a trace file (default: ditrace.data) in the order in "
		     "which they started.",
	    .options = options,
	    .notes = "The keys of the JSON objects: id, parent, depth, pid, tid, phase, op, "
		     "start_ns, end_ns,\n"
		     "thrown, forward_id, args, results, stack; see ditrace-script(1).",
	    .max_operands = 1,
	};
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	if (first < argc)
		s.path = argv[first];
	struct sigaction act = {.sa_handler = on_interrupt};
	if (s.follow)
		sigaction(SIGINT, &act, NULL);
	return script(&s);
}
