/* monitor --prometheus: what it serves comes of tracing, as that of attach --prometheus does, or
 * from a trace that another ditrace writes. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>

#include "base/options.h"
#include "base/text.h"
#include "perf/trace/trace_read.h"
#include "tracer/monitor/monitor.h"
#include "tracer/trace_loop.h"

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	stop = sig;
}

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

int serve_metrics(const char *where, char **words, int n, bool tree, uint64_t for_ns)
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
