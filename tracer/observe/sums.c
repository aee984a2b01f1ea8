/* Sums for the summary: all events, and which of them overflowed. */
#include <stdlib.h>

#include "perf/report/aggregate.h"
#include "perf/report/overflow.h"
#include "tracer/observe/observer.h"

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

static void sums_on_sum(struct observer *o, const struct op_sum *sum)
{
	aggregate_add_sum(((struct sums_observer *)o)->sum, sum);
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
	opts.ranks = aggregate_ranks(s->sum, &opts.nranks);
	if (s->steps) {
		breakdown_get(s->steps, &steps);
		opts.steps = &steps;
	}
	report_print(f, s->sum, &opts);
}

static void sums_close(struct observer *o)
{
	aggregate_free(((struct sums_observer *)o)->sum);
	breakdown_free(((struct sums_observer *)o)->steps);
	free(o);
}

struct observer *observer_of_sums(bool whole)
{
	struct sums_observer *s = malloc(sizeof(*s));
	struct aggregate *sum =
	    aggregate_new_by(AGGREGATE_DEFAULT | AGGREGATE_STEADY | AGGREGATE_WORKERS);
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
		    .on_event = sums_on_event,
		    .on_sum = sums_on_sum,
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
