/* The metrics of a trace, which another ditrace may be writing. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"
#include "perf/metrics/metrics.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/target/process.h"
#include "tracer/monitor/monitor.h"

struct trace_metrics {
	struct metrics *metrics;
	struct trace_query *query;
	uint64_t newest_ns, arrived_ns; /* of the newest item: its time, and when it was read */
	uint64_t looked_ns;
	bool over;
};

static int write_text(void *arg, FILE *f)
{
	const struct trace_metrics *t = arg;
	uint64_t begun = trace_query_begun(t->query), origin = trace_query_origin(t->query);
	return metrics_print(t->metrics, f, (int64_t)(begun - origin), NULL);
}

static enum metrics_end find_end(int32_t pid, const char *host)
{
	char own[HOST_NAME_MAX + 1] = "";
	if (!host[0] || gethostname(own, sizeof(own) - 1) || strcmp(host, own) != 0)
		return METRICS_NOT_KNOWN;
	return process_alive(pid) ? METRICS_RUNS : METRICS_HAS_ENDED;
}

/* Nobody traces them any more: they may run on, and others may have their PIDs. */
static enum metrics_end is_over(int32_t pid, const char *host)
{
	(void)pid, (void)host;
	return METRICS_NOT_KNOWN;
}

static void see_time(struct trace_metrics *t, const struct trace_item *item)
{
	uint64_t at = item->type == TRACE_EVENT ? item->event.start_ns
		      : item->type == TRACE_SUM ? item->sum.of.end_ns
						: 0;
	t->newest_ns = at > t->newest_ns ? at : t->newest_ns;
}

/* The time until which all has been read, as a file is written with a delay. */
static uint64_t time_of(const struct trace_metrics *t)
{
	enum { DELAY_NS = 2000000000 };
	uint64_t now = t->newest_ns + clock_ns(CLOCK_MONOTONIC) - t->arrived_ns;
	return t->over ? UINT64_MAX : now > DELAY_NS ? now - DELAY_NS : 0;
}

/* Take what there is now, but not all at once, as others ask meanwhile. Whether there may be more:
 * 1, 0; or -errno with *e. */
static int read_some(struct trace_metrics *t, struct err *e)
{
	enum { AT_ONCE = 65536 };
	struct trace_item item;
	int n = 1, r = 0;
	uint64_t newest = t->newest_ns;
	for (int i = 0; i < AT_ONCE && !r && n > 0; i++) {
		n = trace_query_next(t->query, &item, e);
		if (n > 0) {
			see_time(t, &item);
			r = metrics_item(t->metrics, &item);
		}
	}
	t->arrived_ns = t->newest_ns > newest ? clock_ns(CLOCK_MONOTONIC) : t->arrived_ns;
	if (r)
		return err_set(e, r, "cannot sum up the trace: %s", strerror(-r));
	t->over = n == 0 || n == -ENODATA;
	metrics_tick(t->metrics, time_of(t));
	return t->over || n == -EAGAIN ? 0 : n;
}

static void look(struct trace_metrics *t)
{
	enum { LOOK_NS = 1000000000 };
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (!t->over && now - t->looked_ns < LOOK_NS)
		return;
	t->looked_ns = now;
	metrics_look_for_ends(t->metrics, t->newest_ns, t->over ? is_over : find_end);
}

static int serve(struct trace_metrics *t, struct metrics_server *s, uint64_t for_ns,
		 const volatile sig_atomic_t *stop, struct err *e)
{
	const struct timespec nap = {.tv_nsec = 10000000};
	const uint64_t begun = clock_ns(CLOCK_MONOTONIC);
	int r = 0;
	while (!*stop && r >= 0 && (!for_ns || clock_ns(CLOCK_MONOTONIC) - begun < for_ns)) {
		r = t->over ? 0 : read_some(t, e);
		look(t);
		metrics_server_turn(s);
		if (r == 0)
			nanosleep(&nap, NULL);
	}
	return r < 0 ? r : 0;
}

int metrics_serve_trace(const char *path, const char *where, uint64_t for_ns,
			const volatile sig_atomic_t *stop, struct err *e)
{
	const struct trace_query_opts opts = {.kinds = TRACE_OPS, .follow = true};
	struct metrics_server *s = NULL;
	struct trace_metrics t = {.metrics = metrics_new(true)};
	int r =
	    t.metrics ? trace_query(path, &opts, &t.query, e) : err_set(e, -ENOMEM, "no memory");
	r = r ? r : metrics_server_open(where, write_text, &t, &s, e);
	if (!r) {
		fprintf(stderr, "ditrace: serving %s\n", metrics_server_url(s));
		fflush(stderr);
		r = serve(&t, s, for_ns, stop, e);
	}
	metrics_server_close(s);
	if (t.query)
		trace_query_close(t.query);
	metrics_free(t.metrics);
	return r;
}
