/* The observers of what a session puts out: the trace file, printed events, the sums of its
 * summary. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "perf/events/print_event.h"
#include "perf/report/aggregate.h"
#include "perf/report/report.h"
#include "tracer/observe/observer.h"

struct print_observer {
	struct observer observer;
	struct event_printer *printer;
	bool closed_pipe;
};

static void print_on_event(struct observer *o, struct target *t, const struct op_event *ev)
{
	struct print_observer *p = (struct print_observer *)o;
	(void)t;
	if (event_print(p->printer, ev) < 0)
		p->closed_pipe = true;
}

static void print_tick(struct observer *o, uint64_t now_ns)
{
	(void)now_ns;
	if (fflush(stdout))
		((struct print_observer *)o)->closed_pipe = true;
}

static bool print_is_over(const struct observer *o)
{
	return ((const struct print_observer *)o)->closed_pipe;
}

static void print_summary(struct observer *o, FILE *f, const struct report_opts *r)
{
	(void)o, (void)f, (void)r;
	fflush(stdout);
}

static void print_close(struct observer *o)
{
	event_printer_free(((struct print_observer *)o)->printer);
	free(o);
}

struct observer *observer_of_print(void)
{
	struct print_observer *p = malloc(sizeof(*p));
	struct event_printer *printer = event_printer_new(stdout);
	if (!p || !printer) {
		event_printer_free(printer);
		free(p);
		return NULL;
	}
	/* The program writes to stdout, too: write whole events at a time. */
	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	*p = (struct print_observer){
	    .observer =
		{
		    .on_event = print_on_event,
		    .tick = print_tick,
		    .is_over = print_is_over,
		    .summary = print_summary,
		    .close = print_close,
		},
	    .printer = printer,
	};
	return &p->observer;
}

/* Sums for the summary: all events, and which of them overflowed. */

struct sums_observer {
	struct observer observer;
	struct aggregate *sum;
	struct breakdown *steps; /* NULL: not all ops are recorded */
};

static void sums_on_event(struct observer *o, struct target *t, const struct op_event *ev)
{
	struct sums_observer *s = (struct sums_observer *)o;
	(void)t;
	aggregate_add(s->sum, ev);
	if (s->steps)
		breakdown_add(s->steps, ev);
}

static void sums_on_process(struct observer *o, const struct trace_process *p)
{
	if (!p->whole)
		aggregate_begun_late(((struct sums_observer *)o)->sum);
}

static void sums_on_sum(struct observer *o, const struct op_sum *sum)
{
	aggregate_add_sum(((struct sums_observer *)o)->sum, sum);
}

static void sums_on_activity(struct observer *o, const struct activity *a)
{
	aggregate_add_activity(((struct sums_observer *)o)->sum, a);
}

static void sums_on_memory(struct observer *o, const struct memory_event *m)
{
	aggregate_add_memory(((struct sums_observer *)o)->sum, m);
}

static void sums_on_memory_lost(struct observer *o, int32_t pid, uint64_t now_ns, uint64_t count)
{
	(void)pid;
	(void)now_ns;
	aggregate_memory_lost(((struct sums_observer *)o)->sum, count);
}

static void sums_on_activities_lost(struct observer *o, int32_t pid, uint64_t now_ns,
				    uint64_t count)
{
	(void)pid, (void)now_ns;
	aggregate_activities_lost(((struct sums_observer *)o)->sum, count);
}

static void sums_on_lost(struct observer *o, uint64_t now_ns, uint64_t count)
{
	(void)now_ns;
	aggregate_lost(((struct sums_observer *)o)->sum, count);
}

static void sums_forget_addresses(struct observer *o)
{
	struct sums_observer *s = (struct sums_observer *)o;
	aggregate_forget(s->sum);
	if (s->steps)
		breakdown_forget(s->steps);
}

static void sums_summary(struct observer *o, FILE *f, const struct report_opts *r)
{
	struct sums_observer *s = (struct sums_observer *)o;
	struct breakdown_result steps;
	if (!r)
		return;
	struct report_opts opts = *r;
	if (aggregate_end(s->sum))
		return;
	opts.ranks = aggregate_ranks(s->sum, &opts.nranks);
	opts.all_activities = !opts.when;
	if (s->steps) {
		breakdown_get(s->steps, &steps);
		opts.steps = &steps;
		opts.breakdown = s->steps;
	}
	if (aggregate_keys(s->sum) & AGGREGATE_ACTIVITIES)
		opts.sort = REPORT_BY_DEVICE_TIME;
	report_print(f, s->sum, &opts);
}

static void sums_close(struct observer *o)
{
	aggregate_free(((struct sums_observer *)o)->sum);
	breakdown_free(((struct sums_observer *)o)->steps);
	free(o);
}

struct observer *observer_of_sums(bool whole, bool marks)
{
	struct sums_observer *s = malloc(sizeof(*s));
	struct aggregate *sum = aggregate_new(AGGREGATE_DEFAULT | AGGREGATE_STEADY |
					      AGGREGATE_WORKERS | (marks ? AGGREGATE_MARKS : 0));
	struct breakdown *steps = whole ? breakdown_new() : NULL;
	if (!s || !sum || (whole && !steps)) {
		aggregate_free(sum);
		breakdown_free(steps);
		free(s);
		return NULL;
	}
	*s = (struct sums_observer){
	    .observer =
		{
		    .on_process = sums_on_process,
		    .on_event = sums_on_event,
		    .on_sum = sums_on_sum,
		    .on_activity = sums_on_activity,
		    .on_activities_lost = sums_on_activities_lost,
		    .on_memory = sums_on_memory,
		    .on_memory_lost = sums_on_memory_lost,
		    .on_lost = sums_on_lost,
		    .forget_addresses = sums_forget_addresses,
		    .summary = sums_summary,
		    .close = sums_close,
		},
	    .sum = sum,
	    .steps = steps,
	};
	return &s->observer;
}

struct overflow_observer {
	struct observer observer;
	struct overflow *overflow;
};

static void overflow_on_event(struct observer *o, struct target *t, const struct op_event *ev)
{
	(void)t;
	overflow_add(((struct overflow_observer *)o)->overflow, ev);
}

static void overflow_summary(struct observer *o, FILE *f, const struct report_opts *r)
{
	if (!r)
		return;
	putc('\n', f);
	overflow_print(((struct overflow_observer *)o)->overflow, f, r->limit, r->terminal);
}

static void overflow_close(struct observer *o)
{
	overflow_free(((struct overflow_observer *)o)->overflow);
	free(o);
}

struct observer *observer_of_overflow(void)
{
	struct overflow_observer *v = malloc(sizeof(*v));
	struct overflow *overflow = overflow_new();
	if (!v || !overflow) {
		overflow_free(overflow);
		free(v);
		return NULL;
	}
	*v = (struct overflow_observer){
	    .observer =
		{
		    .on_event = overflow_on_event,
		    .summary = overflow_summary,
		    .close = overflow_close,
		},
	    .overflow = overflow,
	};
	return &v->observer;
}
