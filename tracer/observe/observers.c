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
#include "tracer/observe/internal.h"
#include "tracer/observe/observer.h"

struct file_observer {
	struct observer observer;
	const char *path, *chosen;
	bool one_file, quiet;
	struct trace_writer *writer; /* NULL: not open */
	struct rank_usage usage;
	struct err error;
};

/* A failing output is given up; the target must not notice. */
static void check_written(struct file_observer *f, int r)
{
	if (r >= 0 || f->error.code)
		return;
	err_set(&f->error, r, "cannot write %s: %s; tracing goes on without it", f->path,
		strerror(-r));
	err_hint(&f->error, "free some space, or record somewhere else with -o FILE");
}

static int file_begin(struct observer *o, struct engine *g, struct err *e)
{
	struct file_observer *f = (struct file_observer *)o;
	(void)g;
	int r = trace_writer_open(f->path, &f->writer, e);
	if (!r && f->one_file)
		trace_writer_one_file(f->writer);
	if (!r && f->chosen[0])
		check_written(f, trace_write_chosen(f->writer, f->chosen));
	return r;
}

static void file_on_process(struct observer *o, const struct trace_process *p)
{
	struct file_observer *f = (struct file_observer *)o;
	check_written(f, trace_write_process(f->writer, p));
	rank_usage_add(&f->usage, p);
}

static void file_on_target(struct observer *o, const struct trace_target *t)
{
	trace_write_target(((struct file_observer *)o)->writer, t);
}

static void file_on_thread(struct observer *o, int32_t pid, int32_t tid, const char *name)
{
	trace_write_thread(((struct file_observer *)o)->writer, pid, tid, name);
}

static void file_on_event(struct observer *o, struct target *t, const struct op_event *ev)
{
	struct file_observer *f = (struct file_observer *)o;
	(void)t;
	check_written(f, trace_write_event(f->writer, ev));
}

static void file_on_sum(struct observer *o, const struct op_sum *s)
{
	struct file_observer *f = (struct file_observer *)o;
	check_written(f, trace_write_sum(f->writer, s));
}

static void file_on_done(struct observer *o, const struct work_done *w)
{
	struct file_observer *f = (struct file_observer *)o;
	check_written(f, trace_write_done(f->writer, w));
}

static void file_on_activity(struct observer *o, const struct activity *a)
{
	struct file_observer *f = (struct file_observer *)o;
	check_written(f, trace_write_activity(f->writer, a));
}

static void file_on_memory(struct observer *o, const struct memory_event *m)
{
	struct file_observer *f = (struct file_observer *)o;
	check_written(f, trace_write_memory(f->writer, m));
}

static void file_on_memory_lost(struct observer *o, int32_t pid, uint64_t now_ns, uint64_t count)
{
	trace_write_memory_lost(((struct file_observer *)o)->writer, pid, now_ns, count);
}

static void file_on_activities_lost(struct observer *o, int32_t pid, uint64_t now_ns,
				    uint64_t count)
{
	trace_write_activities_lost(((struct file_observer *)o)->writer, pid, now_ns, count);
}

static void file_on_lost(struct observer *o, uint64_t now_ns, uint64_t count)
{
	trace_write_lost(((struct file_observer *)o)->writer, now_ns, count);
}

static void file_on_stats(struct observer *o, const struct trace_stats *stats)
{
	trace_write_stats(((struct file_observer *)o)->writer, stats);
}

static void file_tick(struct observer *o, uint64_t now_ns)
{
	struct file_observer *f = (struct file_observer *)o;
	check_written(f, rank_usage_write(&f->usage, f->writer, now_ns));
	check_written(f, trace_writer_tick(f->writer, now_ns));
}

static const struct err *file_trouble(const struct observer *o)
{
	return &((const struct file_observer *)o)->error;
}

static void file_forget_addresses(struct observer *o)
{
	trace_writer_forget(((struct file_observer *)o)->writer);
}

static struct trace_writer *file_writer(struct observer *o)
{
	return ((struct file_observer *)o)->writer;
}

static void file_finish(struct observer *o)
{
	struct file_observer *f = (struct file_observer *)o;
	char size[32], files[32];
	int r = trace_writer_flush(f->writer);
	uint64_t bytes = trace_writer_bytes(f->writer);
	bool old = trace_writer_kept_old(f->writer);
	size_t n = trace_writer_files(f->writer);
	int closed = trace_writer_close(f->writer, true);
	f->writer = NULL;
	check_written(f, r ? r : closed);
	if (f->error.code || f->quiet)
		return;
	bool usual = !strcmp(f->path, "ditrace.data");
	fprintf(stderr, "trace written to %s%s (%s%s%s%s); see: ditrace report%s%s\n", f->path,
		n && f->path[strlen(f->path) - 1] != '/' ? "/" : "",
		n ? text_counted(files, sizeof(files), n, "file") : "", n ? ", " : "",
		text_bytes(size, sizeof(size), bytes), old ? "; the old one: .old" : "",
		usual ? "" : " ", usual ? "" : f->path);
}

static void file_close(struct observer *o)
{
	trace_writer_close(((struct file_observer *)o)->writer, false);
	rank_usage_free(&((struct file_observer *)o)->usage);
	free(o);
}

struct observer *observer_of_file(const char *path, const char *chosen, bool one_file, bool quiet)
{
	struct file_observer *f = malloc(sizeof(*f));
	if (!f)
		return NULL;
	*f = (struct file_observer){
	    .observer =
		{
		    .begin = file_begin,
		    .on_process = file_on_process,
		    .on_target = file_on_target,
		    .on_thread = file_on_thread,
		    .on_event = file_on_event,
		    .on_sum = file_on_sum,
		    .on_done = file_on_done,
		    .on_activity = file_on_activity,
		    .on_activities_lost = file_on_activities_lost,
		    .on_memory = file_on_memory,
		    .on_memory_lost = file_on_memory_lost,
		    .on_lost = file_on_lost,
		    .on_stats = file_on_stats,
		    .tick = file_tick,
		    .trouble = file_trouble,
		    .forget_addresses = file_forget_addresses,
		    .writer = file_writer,
		    .finish = file_finish,
		    .close = file_close,
		},
	    .path = path,
	    .chosen = chosen,
	    .one_file = one_file,
	    .quiet = quiet,
	};
	return &f->observer;
}

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
	struct aggregate *sum = aggregate_new_by(AGGREGATE_DEFAULT | AGGREGATE_STEADY |
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
