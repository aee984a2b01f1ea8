/* Which file of a trace a record goes to. */
#define _GNU_SOURCE
#include "perf/trace/trace_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/trace/internal.h"

int trace_write_event(struct trace_writer *w, const struct op_event *ev)
{
	int r;
	struct trace_file *f = trace_writer_file_of(w, ev->pid, &r);
	if (f)
		keep_first_error(&r, trace_file_event(f, ev));
	return r;
}

int trace_write_sum(struct trace_writer *w, const struct op_sum *sum)
{
	int r;
	struct trace_file *f = trace_writer_file_of(w, sum->of.pid, &r);
	if (f)
		keep_first_error(&r, trace_file_sum(f, sum));
	return r;
}

int trace_write_done(struct trace_writer *w, const struct work_done *d)
{
	int r;
	struct trace_file *f = trace_writer_file_of(w, d->pid, &r);
	if (f)
		keep_first_error(&r, trace_file_done(f, d));
	return r;
}

int trace_write_usage(struct trace_writer *w, const struct trace_usage *u)
{
	int r;
	struct trace_file *f = trace_writer_file_of(w, u->pid, &r);
	if (f)
		keep_first_error(&r, trace_file_usage(f, u));
	return r;
}

int trace_write_activity(struct trace_writer *w, const struct activity *a)
{
	int r;
	struct trace_file *f = trace_writer_file_of(w, a->of.pid, &r);
	if (f)
		keep_first_error(&r, trace_file_activity(f, a));
	return r;
}

int trace_write_memory(struct trace_writer *w, const struct memory_event *m)
{
	int r;
	struct trace_file *f = trace_writer_file_of(w, m->of.pid, &r);
	if (f)
		keep_first_error(&r, trace_file_memory(f, m));
	return r;
}

int trace_write_memory_lost(struct trace_writer *w, int32_t pid, uint64_t time_ns, uint64_t count)
{
	int r;
	struct trace_file *f = trace_writer_file_of(w, pid, &r);
	if (f)
		keep_first_error(&r, trace_file_memory_lost(f, time_ns, count));
	return r;
}

int trace_write_activities_lost(struct trace_writer *w, int32_t pid, uint64_t time_ns,
				uint64_t count)
{
	int r;
	struct trace_file *f = trace_writer_file_of(w, pid, &r);
	if (f)
		keep_first_error(&r, trace_file_activities_lost(f, time_ns, count));
	return r;
}

int trace_write_sample(struct trace_writer *w, const struct sample *s)
{
	int r;
	struct trace_file *f = trace_writer_file_of(w, s->pid, &r);
	if (f)
		keep_first_error(&r, trace_file_sample(f, s));
	return r;
}

int trace_write_thread(struct trace_writer *w, int32_t pid, int32_t tid, const char *name)
{
	int r;
	struct trace_file *f = trace_writer_file_of(w, pid, &r);
	if (f)
		keep_first_error(&r, trace_file_thread(f, pid, tid, name));
	return r;
}

/* Of which process they were is not known: they are in one of the files. */
int trace_write_lost(struct trace_writer *w, uint64_t time_ns, uint64_t count)
{
	if (w->n)
		return trace_file_lost(w->files[0], time_ns, count);
	w->lost += count;
	w->lost_ns = time_ns;
	return 0;
}

int trace_write_samples_lost(struct trace_writer *w, uint64_t time_ns, uint64_t count)
{
	if (w->n)
		return trace_file_samples_lost(w->files[0], time_ns, count);
	w->samples_lost += count;
	w->lost_ns = time_ns;
	return 0;
}

int trace_write_sampling(struct trace_writer *w, const struct sampling *s)
{
	int r = 0;
	w->sampling = *s;
	w->is_sampling = true;
	for (size_t i = 0; i < w->n; i++)
		keep_first_error(&r, trace_file_sampling(w->files[i], s));
	return r;
}

static int keep_build(struct trace_writer *w, const char *file, const void *id, size_t len)
{
	struct trace_written_build b = {.len = len < sizeof(b.id) ? len : sizeof(b.id)};
	if (array_grow(&w->builds, &w->builds_room, w->nbuilds + 1, sizeof(*w->builds)))
		return -ENOMEM;
	b.file = strdup(file);
	if (!b.file)
		return -ENOMEM;
	memcpy(b.id, id, b.len);
	w->builds[w->nbuilds++] = b;
	return 0;
}

int trace_write_build(struct trace_writer *w, const char *file, const void *id, size_t len)
{
	int r = w->one_file ? 0 : keep_build(w, file, id, len);
	for (size_t i = 0; i < w->n; i++)
		keep_first_error(&r, trace_file_build(w->files[i], file, id, len));
	return r;
}

int trace_write_chosen(struct trace_writer *w, const char *options)
{
	int r = 0;
	free(w->chosen);
	w->chosen = strdup(options);
	for (size_t i = 0; i < w->n; i++)
		keep_first_error(&r, trace_file_chosen(w->files[i], options));
	return w->chosen ? r : -ENOMEM;
}

int trace_write_target(struct trace_writer *w, const struct trace_target *t)
{
	struct trace_written *p = w->one_file ? NULL : trace_writer_process(w, t->pid);
	if (!p && !w->one_file)
		return -ENOMEM;
	int r = p ? trace_target_copy(&p->target, t) : 0;
	struct trace_file *f = !w->is_folder  ? w->files[0]
			       : p->file >= 0 ? w->files[p->file]
					      : NULL;
	if (f)
		keep_first_error(&r, trace_file_target(f, t));
	return r;
}

int trace_write_process(struct trace_writer *w, const struct trace_process *p)
{
	if (w->one_file)
		return trace_file_process(w->files[0], p);
	struct trace_written *known = trace_writer_process(w, p->pid);
	if (!known)
		return -ENOMEM;
	if (known->file >= 0) /* else it may be told anew */
		trace_target_free(&known->target);
	known->process = *p;
	known->file = w->is_folder ? TRACE_NOT_OPEN : 0;
	if (w->is_folder)
		return 0;
	if (p->rank.world_size <= 1)
		return trace_file_process(w->files[0], p);
	known->file = TRACE_NOT_OPEN;
	int r = trace_writer_become_folder(w);
	if (!r)
		return 0;
	w->one_file = true; /* it cannot be: go on with the file */
	return trace_file_process(w->files[0], p);
}

bool trace_writer_has_file(struct trace_writer *w, int32_t pid)
{
	const struct trace_written *p = w->is_folder ? trace_writer_process(w, pid) : NULL;
	return !w->is_folder || (p && p->file >= 0);
}

void trace_writer_one_file(struct trace_writer *w)
{
	w->one_file = !w->is_folder;
}

/* What is of all processes together: a file gets its part by its events. */
int trace_write_stats(struct trace_writer *w, const struct trace_stats *s)
{
	uint64_t all = 0;
	int r = 0;
	for (size_t i = 0; i < w->n; i++)
		all += trace_file_events(w->files[i]);
	for (size_t i = 0; i < w->n; i++) {
		struct trace_stats part = *s;
		double share = all ? (double)trace_file_events(w->files[i]) / (double)all : 1;
		part.probe_ns = (uint64_t)((double)s->probe_ns * share);
		part.cpu_ns = (uint64_t)((double)s->cpu_ns * share);
		part.lean = (uint64_t)((double)s->lean * share);
		keep_first_error(&r, trace_file_stats(w->files[i], &part));
	}
	return r;
}

void trace_writer_forget(struct trace_writer *w)
{
	for (size_t i = 0; i < w->n; i++)
		trace_file_forget(w->files[i]);
}

int trace_writer_flush(struct trace_writer *w)
{
	int r = w->n || !w->nprocesses ? 0 : trace_writer_open_file(w, &w->processes[0]);
	for (size_t i = 0; i < w->n; i++)
		keep_first_error(&r, trace_file_flush(w->files[i]));
	return r;
}

int trace_writer_tick(struct trace_writer *w, uint64_t now_ns)
{
	int r = 0;
	for (size_t i = 0; i < w->n; i++)
		keep_first_error(&r, trace_file_tick(w->files[i], now_ns));
	return r;
}

uint64_t trace_writer_bytes(const struct trace_writer *w)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < w->n; i++)
		bytes += trace_file_bytes(w->files[i]);
	return bytes;
}

size_t trace_writer_files(const struct trace_writer *w)
{
	return w->is_folder ? w->n : 0;
}

bool trace_writer_kept_old(const struct trace_writer *w)
{
	return w->kept_old || (!w->is_folder && trace_file_kept_old(w->files[0]));
}

int trace_writer_close(struct trace_writer *w, bool clean)
{
	int r = 0;
	if (!w)
		return 0;
	for (size_t i = 0; i < w->n; i++)
		keep_first_error(&r, trace_file_close(w->files[i], clean));
	trace_writer_free(w);
	return r;
}
