/* Internal to perf/metrics: what is taken (metrics.c), steps (steps.c), and the text
 * (exposition.c). */
#ifndef PERF_METRICS_INTERNAL_H
#define PERF_METRICS_INTERNAL_H

#include "base/map.h"
#include "perf/metrics/metrics.h"
#include "perf/report/aggregate.h"
#include "perf/report/report.h"

enum { STEP_BUCKETS = 16, COLLECTIVE_KINDS = 24 };

/* A whole step that may turn out to have lacked ops. */
struct held_step {
	uint64_t start_ns, end_ns, parts[BREAKDOWN_PARTS];
};

struct metrics_steps {
	struct held_step *held; /* in the order of their ends, from `first` on */
	size_t first, n, room;
	uint64_t unsure_ns; /* until then ops may be missing */
	/* Of those that count: */
	uint64_t steps, wall_ns, last_ns, parts[BREAKDOWN_PARTS];
	uint64_t buckets[STEP_BUCKETS + 1]; /* not cumulative */
	uint64_t unsure;		    /* left out */
};

struct metrics_collective {
	const char *name; /* static */
	uint64_t calls, bytes, unsized;
};

/* What is told of: a process, or all processes that load data for a rank. */
struct metrics_series {
	struct process_rank rank;
	int32_t pid; /* 0: of workers */
	bool hidden; /* may be of a worker */
	bool end_not_known;
	char *torch, *python, *engine; /* NULL: not known */
	uint64_t ended_ns;	       /* 0: it runs, or of workers */
	struct aggregate *ops;	       /* NULL: there were no ops yet */
	struct breakdown *breakdown;   /* NULL: the same, and of workers */
	struct metrics_steps steps;
	struct metrics_collective collectives[COLLECTIVE_KINDS];
};

/* A process that is traced. */
struct metrics_process {
	int32_t pid;
	uint32_t rank1;	   /* 0: not known */
	bool decided;	   /* whether it loads data for another is known */
	uint64_t ended_ns; /* 0: it runs */
	struct metrics_series *series;
};

struct metrics {
	bool keep, chosen; /* chosen: ops were left out, so that steps are not known */
	struct metrics_process *processes;
	size_t nprocesses, processes_room;
	struct metrics_series **series;
	size_t nseries, series_room;
	size_t last; /* the process of the last call */
	uint64_t lost, activities_lost;
	struct trace_stats stats; /* probe_ns 0: not known */
	struct intern named;	  /* ops that have series */
};

/* steps.c */

/* A breakdown_step_fn of a struct metrics_series. */
int metrics_hold_step(void *arg, const struct breakdown_step *s);

/* Ops of that time are missing, or are known only in sum. */
void metrics_steps_unsure(struct metrics_steps *s, uint64_t from_ns, uint64_t to_ns);

/* Count those that ended long enough before. */
void metrics_count_steps(struct metrics_steps *s, uint64_t now_ns);

/* Which ops have series of their own. */

/* Choose those that have series: those that take most time, and those that had. 0 or -ENOMEM. */
int metrics_name_ops(struct metrics *m);
bool metrics_op_is_named(const struct metrics *m, const char *op);

/* exposition.c: parts of the text. */

struct exposition {
	struct metrics *m;
	FILE *f;
	int64_t realtime_ns;
	metrics_usage_fn *usage;
};

/* A metric family; `unit` may be NULL, and ends its name if not. */
void expose_family(const struct exposition *x, const char *name, const char *type, const char *unit,
		   const char *help);

/* The first series that is told of from *i on, where *i is then; NULL: there are no more. The same,
 * of a process. */
const struct metrics_series *expose_series(const struct exposition *x, size_t *i);
const struct metrics_series *expose_process(const struct exposition *x, size_t *i);

/* The name of a sample and the labels of its process; more labels may follow, and then the value: a
 * number, a time, or a moment as the time of the day. An empty label (NULL, "", below 0) is left
 * out. */
void expose_sample(const struct exposition *x, const char *name, const struct metrics_series *s);
void expose_label(const struct exposition *x, const char *name, const char *value);
void expose_count(const struct exposition *x, uint64_t n);
void expose_seconds(const struct exposition *x, uint64_t ns);
void expose_moment(const struct exposition *x, uint64_t monotonic_ns);

/* What is in its aggregate. */
const struct aggregate_row *const *expose_rows(const struct metrics_series *s, size_t *n);
struct aggregate_totals expose_totals(const struct metrics_series *s);

/* steps.c: the text of steps. */
void expose_steps(const struct exposition *x);
void expose_waits(const struct exposition *x); /* and collectives */

#endif
