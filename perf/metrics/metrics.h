/* Figures of running processes for a fleet's monitoring: counters that only grow, in memory that
 * grows with the ops and threads of processes, not with their time, and their text in the format
 * OpenMetrics 1.0.0, which Prometheus reads. */
#ifndef PERF_METRICS_METRICS_H
#define PERF_METRICS_METRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "perf/trace/trace_read.h"

/* Ops are named in no more than so many of the series of each process, and in these not more in
 * all: at each time those that have taken most time until then. One that was named stays. */
enum { METRICS_OPS_TOP = 20, METRICS_OPS_MAX = 100 };

/* A step counts so long after its end, as only then all sums of ops of that time have come. */
#define METRICS_STEP_HELD_NS 2000000000u

/* For how long a process that has ended is told of; and kept, if nothing is told of it alone. */
#define METRICS_ENDED_KEPT_NS 300000000000u
#define METRICS_OTHERS_KEPT_NS 10000000000u

struct metrics;

/* `keep`: what has ended is told until the end. NULL if out of memory. */
struct metrics *metrics_new(bool keep);
void metrics_free(struct metrics *m); /* NULL allowed */

/* From now on a process is traced, of which metrics_target tells more later; what was told of
 * another that had its PID is forgotten. 0 or -ENOMEM. */
int metrics_process(struct metrics *m, const struct trace_process *p);
int metrics_target(struct metrics *m, const struct trace_target *t);

/* Calls of a thread must come in the order in which they ended. 0 or -ENOMEM. */
int metrics_event(struct metrics *m, const struct op_event *ev);
int metrics_sum(struct metrics *m, const struct op_sum *s);
int metrics_activity(struct metrics *m, const struct activity *a);

/* `count` more were lost, shortly before. */
void metrics_lost(struct metrics *m, uint64_t now_ns, uint64_t count);
void metrics_activities_lost(struct metrics *m, uint64_t count);

/* Ops are left out of what is recorded: nothing is told of steps. */
void metrics_chosen(struct metrics *m);

void metrics_stats(struct metrics *m, const struct trace_stats *s);

/* Any of the above, as a trace has it. 0 or -ENOMEM. */
int metrics_item(struct metrics *m, const struct trace_item *item);

/* Ops and stacks were freed, and their addresses may be reused. */
void metrics_forget(struct metrics *m);

/* Count the steps that are due by now (CLOCK_MONOTONIC), UINT64_MAX: all. */
void metrics_tick(struct metrics *m, uint64_t now_ns);

/* Whether a process of that host has ended. */
enum metrics_end { METRICS_RUNS, METRICS_HAS_ENDED, METRICS_NOT_KNOWN };
typedef enum metrics_end metrics_end_fn(int32_t pid, const char *host);

/* Ask of each process that has not ended, and forget those that have for long. */
void metrics_look_for_ends(struct metrics *m, uint64_t now_ns, metrics_end_fn *fn);

/* What a process uses of the machine; false: not known. */
struct metrics_usage {
	uint64_t cpu_ns, rss;
};
typedef bool metrics_usage_fn(int32_t pid, struct metrics_usage *out);

/* Write all that is known, to "# EOF". `realtime_ns`: CLOCK_REALTIME less CLOCK_MONOTONIC. `usage`
 * may be NULL. 0, -ENOMEM or -EIO. */
int metrics_print(struct metrics *m, FILE *f, int64_t realtime_ns, metrics_usage_fn *usage);

/* `text` as a label's value in quotes, with what has to be escaped there, and U+FFFD for what is
 * not UTF-8 (OpenMetrics 1.0.0, ABNF). */
void metrics_print_label(FILE *f, const char *text);

#endif
