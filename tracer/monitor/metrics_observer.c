/* The metrics of a session, served while it lasts. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/system.h"
#include "perf/metrics/metrics.h"
#include "symbolizer/target/process.h"
#include "tracer/monitor/monitor.h"
#include "tracer/proc/thread_facts.h"

struct metrics_observer {
	struct observer observer;
	struct metrics *metrics;
	struct metrics_server *server;
	int64_t realtime_ns; /* the time of the day, less CLOCK_MONOTONIC */
	uint64_t looked_ns;
	struct err error;
};

static bool read_usage(int32_t pid, struct metrics_usage *out)
{
	struct usage u;
	if (!usage_read_stat(pid, &u))
		return false;
	*out = (struct metrics_usage){.cpu_ns = u.cpu_ns, .rss = u.rss};
	return true;
}

static enum metrics_end find_end(int32_t pid, const char *host)
{
	(void)host;
	return process_alive(pid) ? METRICS_RUNS : METRICS_HAS_ENDED;
}

static int write_text(void *arg, FILE *f)
{
	struct metrics_observer *m = arg;
	return metrics_print(m->metrics, f, m->realtime_ns, read_usage);
}

/* Figures that lack something are not served. */
static void check(struct metrics_observer *m, int r)
{
	if (!r || m->error.code)
		return;
	metrics_server_close(m->server);
	m->server = NULL;
	err_set(&m->error, r, "--prometheus: %s; tracing goes on without it", strerror(-r));
}

static struct metrics_observer *of(struct observer *o)
{
	return (struct metrics_observer *)o;
}

static int begin(struct observer *o, struct engine *g, struct err *e)
{
	(void)g, (void)e;
	fprintf(stderr, "ditrace: serving %s\n", metrics_server_url(of(o)->server));
	fflush(stderr);
	return 0;
}

static void on_process(struct observer *o, const struct trace_process *p)
{
	check(of(o), metrics_process(of(o)->metrics, p));
}

static void on_target(struct observer *o, const struct trace_target *t)
{
	check(of(o), metrics_target(of(o)->metrics, t));
}

static void on_event(struct observer *o, struct target *t, const struct op_event *ev)
{
	(void)t;
	if (of(o)->server)
		check(of(o), metrics_event(of(o)->metrics, ev));
}

static void on_sum(struct observer *o, const struct op_sum *s)
{
	if (of(o)->server)
		check(of(o), metrics_sum(of(o)->metrics, s));
}

static void on_activity(struct observer *o, const struct activity *a)
{
	if (of(o)->server)
		check(of(o), metrics_activity(of(o)->metrics, a));
}

static void on_activities_lost(struct observer *o, int32_t pid, uint64_t now_ns, uint64_t n)
{
	(void)pid, (void)now_ns;
	metrics_activities_lost(of(o)->metrics, n);
}

static void on_lost(struct observer *o, uint64_t now_ns, uint64_t n)
{
	metrics_lost(of(o)->metrics, now_ns, n);
}

static void on_stats(struct observer *o, const struct trace_stats *s)
{
	metrics_stats(of(o)->metrics, s);
}

static void forget_addresses(struct observer *o)
{
	metrics_forget(of(o)->metrics);
}

static void tick(struct observer *o, uint64_t now_ns)
{
	enum { LOOK_NS = 1000000000 };
	struct metrics_observer *m = of(o);
	if (!m->server)
		return;
	if (now_ns - m->looked_ns >= LOOK_NS) {
		metrics_look_for_ends(m->metrics, now_ns, find_end);
		m->looked_ns = now_ns;
	}
	metrics_tick(m->metrics, now_ns);
	metrics_server_turn(m->server);
}

static const struct err *trouble(const struct observer *o)
{
	return &((const struct metrics_observer *)o)->error;
}

static void close_observer(struct observer *o)
{
	metrics_server_close(of(o)->server);
	metrics_free(of(o)->metrics);
	free(o);
}

struct observer *observer_of_metrics(const char *where, const char *chosen, struct err *e)
{
	struct metrics_observer *m = malloc(sizeof(*m));
	struct metrics *metrics = metrics_new(false);
	if (!m || !metrics) {
		free(m);
		metrics_free(metrics);
		err_set(e, -ENOMEM, "no memory");
		return NULL;
	}
	*m = (struct metrics_observer){
	    .observer =
		{
		    .begin = begin,
		    .on_process = on_process,
		    .on_target = on_target,
		    .on_event = on_event,
		    .on_sum = on_sum,
		    .on_activity = on_activity,
		    .on_activities_lost = on_activities_lost,
		    .on_lost = on_lost,
		    .on_stats = on_stats,
		    .tick = tick,
		    .trouble = trouble,
		    .forget_addresses = forget_addresses,
		    .close = close_observer,
		},
	    .metrics = metrics,
	    .realtime_ns = (int64_t)(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC)),
	};
	if (chosen[0])
		metrics_chosen(metrics);
	if (!metrics_server_open(where, write_text, m, &m->server, e))
		return &m->observer;
	close_observer(&m->observer);
	return NULL;
}
