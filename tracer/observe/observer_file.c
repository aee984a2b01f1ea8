/* The observer of the trace file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "perf/trace/trace_write.h"
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
