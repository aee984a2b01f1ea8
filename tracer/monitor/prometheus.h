/* Metrics served over HTTP, for Prometheus: of a session as an observer of it, or of a trace. */
#ifndef TRACER_MONITOR_PROMETHEUS_H
#define TRACER_MONITOR_PROMETHEUS_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "tracer/observe/observer.h"

/* The server. It does its work when it is called, in the caller's thread, and never waits. */

struct metrics_server;

/* Write all that is known now. 0 or -errno. */
typedef int metrics_server_fn(void *arg, FILE *f);

/* Whether `where` is [HOST:]PORT, a HOST of IPv6 in brackets. 0, or -EINVAL with *e. */
int metrics_server_check(const char *where, struct err *e);

/* Listen there, on 127.0.0.1 without HOST; port 0: any that is free. 0 or -errno with *e. */
int metrics_server_open(const char *where, metrics_server_fn *text, void *arg,
			struct metrics_server **out, struct err *e);

/* "http://127.0.0.1:9101/metrics" */
const char *metrics_server_url(const struct metrics_server *s);

/* Answer who has asked, with what was known at most a tenth of a second before. */
void metrics_server_turn(struct metrics_server *s);

void metrics_server_close(struct metrics_server *s); /* NULL allowed */

/* An observer that serves the metrics of its session, and says on stderr where, listening from now
 * on. `chosen`: the options that leave ops out, "": none. NULL with *e. */
struct observer *observer_of_metrics(const char *where, const char *chosen, struct err *e);

/* Serve the metrics of the trace at `path`, file or folder, also while it is being written, until
 * `stop` is set, or for_ns have passed (0: no limit). 0 or -errno with *e. */
int metrics_serve_trace(const char *path, const char *where, uint64_t for_ns,
			const volatile sig_atomic_t *stop, struct err *e);

#endif
