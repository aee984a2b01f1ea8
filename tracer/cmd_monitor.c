#define _GNU_SOURCE
#include "base/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/files.h"
#include "base/options.h"
#include "base/system.h"
#include "base/text.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/target/process.h"
#include "tracer/monitor/monitor.h"
#include "tracer/proc/thread_facts.h"
#include "tracer/trace_loop.h"

static const uint64_t USUAL_NS = 1000000000;

struct monitor {
	pid_t pid;
	uint64_t interval, count, for_ns; /* 0: no end */
	FILE *csv;			  /* NULL: none */
	bool device;			  /* there is a tool that reports device memory */
	uint64_t rows;			  /* shown */
	bool count_ops;
	uint64_t printed; /* rows since the header */
	uint64_t last_ops, ops_ns;
	struct op_rate *ops; /* NULL: not counted, or not yet */
};

/* A row: the interval between two reads. */
struct monitor_row {
	const struct usage *was, *now;
	double seconds;
	bool has_device, has_ops, has_op_rate;
	uint64_t device;
	uint64_t ops; /* since counting began */
	uint64_t op_rate;
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	stop = sig;
}

static double cpu_percent(const struct monitor_row *r)
{
	return (double)(r->now->cpu_ns - r->was->cpu_ns) / r->seconds / 1e7;
}

static uint64_t rate(const struct monitor_row *r, uint64_t was, uint64_t now)
{
	return now > was ? (uint64_t)((double)(now - was) / r->seconds) : 0;
}

enum { TIME, CPU, RSS, THREADS, FDS, READ, WRITTEN, SWITCHES, OPS, DEVICE, NCOLUMNS };

/* Those of the highest order are left out first where the terminal is narrow. */
static const struct {
	const char *header;
	int width, order;
} columns[NCOLUMNS] = {{"Time", 8, 0},	     {"CPU %", 7, 0},	    {"RSS", 10, 0},
		       {"Threads", 8, 2},    {"FDs", 6, 3},	    {"Read/s", 10, 0},
		       {"Written/s", 10, 0}, {"Switches/s", 10, 4}, {"Ops/s", 10, 0},
		       {"Device", 10, 0}};

/* Which columns to print. */
static void choose_columns(const struct monitor *m, int terminal, bool shown[NCOLUMNS])
{
	int width = -1;
	for (int i = 0; i < NCOLUMNS; i++) {
		shown[i] = i == OPS ? m->ops != NULL : i != DEVICE || m->device;
		width += shown[i] ? columns[i].width + 1 : 0;
	}
	for (int order = NCOLUMNS; terminal && width > terminal && order; order--)
		for (int i = 0; i < NCOLUMNS; i++)
			if (shown[i] && columns[i].order == order) {
				shown[i] = false;
				width -= columns[i].width + 1;
			}
}

/* Their texts of a row. */
static void row_texts(const struct monitor_row *r, char texts[NCOLUMNS][32])
{
	enum { SIZE = 32 };
	const struct usage *u = r->now;
	time_t now = time(NULL);
	struct tm tm;
	bool has_io = u->has_io && r->was->has_io;
	uint64_t switches = rate(r, r->was->switches, u->switches);
	strftime(texts[TIME], SIZE, "%H:%M:%S", localtime_r(&now, &tm));
	snprintf(texts[CPU], SIZE, "%.1f", cpu_percent(r));
	text_bytes(texts[RSS], SIZE, u->rss);
	text_count(texts[THREADS], SIZE, u->threads);
	if (u->has_fds)
		text_count(texts[FDS], SIZE, u->fds);
	if (has_io)
		text_bytes(texts[READ], SIZE, rate(r, r->was->read, u->read));
	if (has_io)
		text_bytes(texts[WRITTEN], SIZE, rate(r, r->was->written, u->written));
	/* Switches of threads that have exited are missing. */
	if (u->switches >= r->was->switches)
		text_count(texts[SWITCHES], SIZE, switches);
	if (r->has_op_rate)
		text_count(texts[OPS], SIZE, r->op_rate);
	if (r->has_device)
		text_bytes(texts[DEVICE], SIZE, r->device);
}

static void print_row(struct monitor *m, const struct monitor_row *r)
{
	enum { ROWS = 20 };
	char texts[NCOLUMNS][32] = {""};
	bool shown[NCOLUMNS];
	choose_columns(m, terminal_of(stdout).width, shown);
	row_texts(r, texts);
	for (int head = m->printed++ % ROWS == 0; head >= 0; head--) {
		for (int i = 0; i < NCOLUMNS; i++)
			if (shown[i])
				printf("%s%*s", i ? " " : "", columns[i].width,
				       head	     ? columns[i].header
				       : texts[i][0] ? texts[i]
						     : "?");
		putchar('\n');
	}
	fflush(stdout);
}

static void csv_number(FILE *f, uint64_t n, bool known)
{
	if (known)
		fprintf(f, ",%" PRIu64, n);
	else
		putc(',', f);
}

/* Unknown values are left empty. */
static int csv_row(const struct monitor *m, const struct monitor_row *r)
{
	const struct usage *u = r->now;
	struct timespec at;
	clock_gettime(CLOCK_REALTIME, &at);
	fprintf(m->csv, "%lld.%03ld,%d,%.6f,%.1f", (long long)at.tv_sec, at.tv_nsec / 1000000,
		m->pid, r->seconds, cpu_percent(r));
	csv_number(m->csv, u->cpu_ns, true);
	csv_number(m->csv, u->rss, true);
	csv_number(m->csv, u->peak, true);
	csv_number(m->csv, u->threads, true);
	csv_number(m->csv, u->fds, u->has_fds);
	csv_number(m->csv, u->read, u->has_io);
	csv_number(m->csv, u->written, u->has_io);
	csv_number(m->csv, u->switches, true);
	csv_number(m->csv, r->device, r->has_device);
	csv_number(m->csv, r->ops, r->has_ops);
	putc('\n', m->csv);
	return fflush(m->csv) ? -errno : 0;
}

static int csv_head(FILE *f)
{
	fputs("time,pid,seconds,cpu_percent,cpu_ns,rss_bytes,peak_rss_bytes,threads,fds,read_bytes,"
	      "written_bytes,context_switches,device_bytes,ops\n",
	      f);
	return fflush(f) ? -errno : 0;
}

static void wait_until(uint64_t at_ns)
{
	const struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000),
				    .tv_nsec = (long)(at_ns % 1000000000)};
	while (!stop && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

/* Retried for each row, since PyTorch may be loaded later; the header is then printed again. */
static void begin_ops(struct monitor *m)
{
	struct err why = {0};
	int r = m->ops || !m->count_ops ? 0 : op_rate_open(m->pid, &m->ops, &why);
	if (m->ops)
		return;
	m->count_ops = m->count_ops && (r == -ENODATA || r == -ESRCH);
	if (r && !m->count_ops)
		fprintf(stderr, "ditrace: no rate of operators: %s\n", why.what);
}

static void read_ops(struct monitor *m, struct monitor_row *r)
{
	uint64_t before = m->last_ops, at = clock_ns(CLOCK_MONOTONIC);
	bool had = m->ops;
	begin_ops(m);
	if (m->ops && op_rate_read(m->ops, &r->ops)) {
		op_rate_close(m->ops);
		m->ops = NULL;
	}
	r->has_ops = m->ops;
	r->has_op_rate = m->ops && had && at > m->ops_ns;
	if (r->has_op_rate)
		r->op_rate = (uint64_t)((double)(r->ops - before) * 1e9 / (double)(at - m->ops_ns));
	m->last_ops = r->ops;
	m->ops_ns = at;
	if (had != !!m->ops)
		m->printed = 0;
}

static int show(struct monitor *m, struct monitor_row *r)
{
	read_ops(m, r);
	r->seconds = (double)(r->now->at_ns - r->was->at_ns) / 1e9;
	r->has_device = m->device && !device_usage_read(m->pid, &r->device);
	print_row(m, r);
	m->rows++;
	return m->csv ? csv_row(m, r) : 0;
}

/* Print rows until the last. Also 0 when the process exits; -errno with *e. */
static int watch(struct monitor *m, struct err *e)
{
	struct usage u[2];
	unsigned turn = 0;
	uint64_t due;
	int r = usage_read(m->pid, &u[0], e);
	uint64_t end = m->for_ns ? u[0].at_ns + m->for_ns : UINT64_MAX;
	for (due = u[0].at_ns; !r && !stop && (!m->count || m->rows < m->count); turn ^= 1) {
		struct monitor_row row = {.was = &u[turn], .now = &u[turn ^ 1]};
		/* A slow vendor tool may take longer than an interval. */
		due =
		    clock_ns(CLOCK_MONOTONIC) > due + m->interval ? clock_ns(CLOCK_MONOTONIC) : due;
		if (m->rows && due > end - m->interval) /* the first may be late */
			break;
		due += m->interval;
		wait_until(due);
		if (stop)
			break;
		r = usage_read(m->pid, &u[turn ^ 1], e);
		if (!r && row.now->start_ticks != row.was->start_ticks)
			r = err_set(e, -ESRCH, "process %d has ended", m->pid);
		if (!r)
			r = show(m, &row);
		else if (r == -ESRCH)
			return fprintf(stderr, "ditrace: process %d has ended\n", m->pid), 0;
		if (r && !e->code)
			err_set(e, r, "cannot write: %s", strerror(-r));
	}
	return r;
}

static int open_csv(struct monitor *m, const char *path, struct err *e)
{
	m->csv = file_replace_stream(path, e);
	if (!m->csv)
		return e->code;
	int r = csv_head(m->csv);
	if (!r)
		return 0;
	err_set(e, r, "cannot write %s: %s", path, strerror(-r));
	return err_hint(e, "name another file with -o");
}

static void catch_signals(void)
{
	const struct sigaction act = {.sa_handler = on_signal};
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
}

static int run(struct monitor *m, const char *path)
{
	struct err e = {0};
	struct usage first;
	catch_signals();
	/* Do this first, so that no file is created for a process that does not exist. */
	int r = usage_read(m->pid, &first, &e);
	if (!r && path)
		r = open_csv(m, path, &e);
	if (!r) {
		begin_ops(m);
		m->ops_ns = clock_ns(CLOCK_MONOTONIC);
		r = watch(m, &e);
	}
	op_rate_close(m->ops);
	if (m->csv && fclose(m->csv) && !r)
		r = err_set(&e, -errno, "cannot write %s: %s", path, strerror(errno));
	if (r)
		err_print(&e);
	return r ? EXIT_FAILED : EXIT_GOOD;
}

struct monitor_options {
	const char *prometheus, *path;
	bool tree, no_ops;
};

static int check_rows(const struct monitor *m, const struct monitor_options *o, int processes,
		      struct err *e)
{
	enum { SHORTEST_NS = 10000000 };
	if (o->tree || processes > 1) {
		err_set(e, -EINVAL, "rows are of one process");
		return err_hint(e, "several are served together: --prometheus 9101");
	}
	if (m->interval < SHORTEST_NS) {
		err_set(e, -EINVAL, "--interval is shorter than the clock of /proc ticks");
		return err_hint(e, "10ms or more");
	}
	if (!m->for_ns || m->for_ns >= m->interval)
		return 0;
	err_set(e, -EINVAL, "--for is shorter than an interval: there would be no row");
	return err_hint(e, "give shorter ones: --interval 100ms");
}

static int check_served(const struct monitor *m, const struct monitor_options *o, struct err *e)
{
	const char *option = o->path		       ? "--output"
			     : m->count		       ? "--count"
			     : o->no_ops	       ? "--no-ops"
			     : m->interval != USUAL_NS ? "--interval"
						       : NULL;
	if (!option)
		return metrics_server_check(o->prometheus, e);
	err_set(e, -EINVAL, "%s is of rows, and --prometheus shows none", option);
	return err_hint(e, "leave out one of them");
}

/* --prometheus: what is served comes of tracing, as that of attach --prometheus does, or from a
 * trace that another ditrace writes. */

static int serve_trace(const char *path, const char *where, uint64_t for_ns)
{
	const struct sigaction act = {.sa_handler = on_signal};
	struct err e = {0};
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	int r = metrics_serve_trace(path, where, for_ns, &stop, &e);
	if (r)
		err_print(&e);
	return r ? EXIT_FAILED : EXIT_GOOD;
}

/* Serve metrics at `where`, [HOST:]PORT, of the processes `words`, which are
 * traced, or of the trace that is named there, until for_ns have passed (0: no limit), all have
 * ended or there is a signal. Returns the exit status of the command. */
static int serve_metrics(const char *where, char **words, int n, bool tree, uint64_t for_ns)
{
	struct session_opts o = {
	    .depth = SESSION_ALL_LEVELS, .prometheus = where, .for_ns = for_ns, .quiet = true};
	struct process_list pids = {0};
	struct err e = {0};
	if (n == 1 && !text_number(words[0], &(uint64_t){0}) && trace_query_can_read(words[0]))
		return serve_trace(words[0], where, for_ns);
	int r = attach_pids(words, n, tree, &pids, &e);
	if (r)
		err_print(&e);
	int status = r ? EXIT_USAGE : attach_run(&pids, &o, NULL, false);
	process_list_free(&pids);
	return status;
}

int cmd_monitor(int argc, char **argv)
{
	struct monitor m = {.interval = USUAL_NS};
	struct monitor_options o = {0};
	int status;
	const struct option_def options[] = {
	    PID_OPTION,
	    {0, "interval", OPTION_DURATION, &m.interval, "TIME", "between rows, 1s if not given",
	     NULL},
	    {0, "for", OPTION_DURATION, &m.for_ns, "TIME", "end after TIME (10s, 500ms)", NULL},
	    {0, "count", OPTION_POSITIVE, &m.count, "N", "end after N rows", NULL},
	    {'o', "output", OPTION_STRING, &o.path, "FILE", "write the rows as CSV, too", NULL},
	    {0, "no-ops", OPTION_FLAG, &o.no_ops, NULL,
	     "do not count operators: nothing is done to the process", NULL},
	    {0, "prometheus", OPTION_STRING, &o.prometheus, "[HOST:]PORT",
	     "trace, and serve metrics of ops, steps and waits there, in place of rows", NULL},
	    {0, "tree", OPTION_FLAG, &o.tree, NULL,
	     "with --prometheus: and what it has started: all ranks of torchrun", NULL},
	    {0},
	};
	const struct command command = {
	    .name = "monitor",
	    .operands = "PID... | DIR",
	    .about = "Show what a running process uses of the machine, a row for each interval.",
	    .options = options,
	    .notes = "Ends with the process, or with Ctrl-C. Several PIDs, or the trace that "
		     "another ditrace writes, are of --prometheus.",
	    .min_operands = 1,
	    .max_operands = -1,
	};
	int first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	struct err e = {0};
	char **words = argv + first;
	int n = argc - first;
	int r = o.prometheus ? check_served(&m, &o, &e) : process_parse_pid(words[0], &m.pid, &e);
	r = r || o.prometheus ? r : check_rows(&m, &o, n, &e);
	if (r) {
		err_print(&e);
		return EXIT_USAGE;
	}
	if (o.prometheus)
		return serve_metrics(o.prometheus, words, n, o.tree, m.for_ns);
	m.device = device_usage_there();
	m.count_ops = !o.no_ops;
	return run(&m, o.path);
}
