/* A trace file being written: what is told of all of it, of its processes and of what was lost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/trace/internal.h"

int trace_file_record(void *file, enum trace_type type, const void *payload, size_t len)
{
	struct trace_file *w = file;
	int r = trace_blocks_room(&w->blocks);
	if (r)
		return r;
	struct out o = trace_blocks_record(&w->blocks);
	out_bytes(&o, payload, len);
	if (o.full)
		return -EMSGSIZE;
	trace_blocks_seal(&w->blocks, type, o.p);
	return 0;
}

int trace_file_checked(struct trace_file *w, int r)
{
	return r && !w->blocks.failed ? trace_blocks_fail(&w->blocks, r) : r;
}

int trace_file_write_lost(struct trace_file *w, enum trace_type type, uint64_t time_ns,
			  uint64_t count, uint64_t summed)
{
	uint8_t buf[32];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	if (w->blocks.failed)
		return 0;
	out_u(&o, time_ns);
	out_u(&o, count);
	if (summed)
		out_u(&o, summed);
	return trace_file_checked(w, trace_file_record(w, type, buf, (size_t)(o.p - buf)));
}

int trace_file_lost(struct trace_file *w, uint64_t time_ns, uint64_t count)
{
	w->nlost += w->blocks.failed ? 0 : count;
	return trace_file_write_lost(w, TRACE_LOST, time_ns, count, 0);
}

int trace_file_memory_lost(struct trace_file *w, uint64_t time_ns, uint64_t count)
{
	return trace_file_write_lost(w, TRACE_MEMORY_LOST, time_ns, count, 0);
}

int trace_file_activities_lost(struct trace_file *w, uint64_t time_ns, uint64_t count)
{
	return trace_file_write_lost(w, TRACE_ACTIVITIES_LOST, time_ns, count, 0);
}

int trace_file_samples_lost(struct trace_file *w, uint64_t time_ns, uint64_t count)
{
	return trace_file_write_lost(w, TRACE_SAMPLES_LOST, time_ns, count, 0);
}

int trace_file_sampling(struct trace_file *w, const struct sampling *s)
{
	uint8_t buf[128];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	if (w->blocks.failed)
		return 0;
	out_u(&o, s->frequency);
	out_str(&o, s->event, strnlen(s->event, 64));
	out_b(&o, s->kernel);
	return trace_file_checked(w,
				  trace_file_record(w, TRACE_SAMPLING, buf, (size_t)(o.p - buf)));
}

int trace_file_chosen(struct trace_file *w, const char *options)
{
	uint8_t buf[1024];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	if (w->blocks.failed)
		return 0;
	out_str(&o, options, strnlen(options, sizeof(buf) - 16));
	return trace_file_checked(w, trace_file_record(w, TRACE_CHOSEN, buf, (size_t)(o.p - buf)));
}

int trace_file_build(struct trace_file *w, const char *file, const void *id, size_t len)
{
	uint8_t buf[128];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	if (w->blocks.failed)
		return 0;
	int64_t name = trace_ids_string(&w->ids, file);
	if (name < 0)
		return trace_file_checked(w, (int)name);
	out_u(&o, (uint64_t)name);
	out_str(&o, id, len < 64 ? len : 64);
	return trace_file_checked(w, trace_file_record(w, TRACE_BUILD, buf, (size_t)(o.p - buf)));
}

int trace_file_target(struct trace_file *w, const struct trace_target *t)
{
	const char *strings[] = {t->comm,	    t->argv,   t->torch_version,
				 t->python_version, t->engine, t->torch_dir};
	enum { EACH_MAX = 8192 };
	if (w->blocks.failed)
		return 0;
	struct out o = {.p = w->scratch, .end = w->scratch + TRACE_RECORD_MAX};
	out_s(&o, t->pid);
	out_s(&o, t->start_ns);
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		out_str(&o, strings[i] ? strings[i] : "",
			strings[i] ? strnlen(strings[i], EACH_MAX) : 0);
	return trace_file_checked(
	    w, trace_file_record(w, TRACE_TARGET, w->scratch, (size_t)(o.p - w->scratch)));
}

int trace_file_process(struct trace_file *w, const struct trace_process *p)
{
	uint8_t buf[256];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	const struct process_rank *r = &p->rank;
	if (w->blocks.failed)
		return 0;
	out_s(&o, p->pid);
	out_b(&o, (uint8_t)((p->worker ? PROCESS_WORKER : 0) | (p->whole ? PROCESS_WHOLE : 0)));
	out_u(&o, (uint64_t)r->rank + 1);
	out_u(&o, (uint64_t)r->world_size + 1);
	out_u(&o, (uint64_t)r->local_rank + 1);
	out_u(&o, (uint64_t)r->node + 1);
	out_u(&o, (uint64_t)r->restarts + 1);
	out_str(&o, r->host, strnlen(r->host, sizeof(r->host) - 1));
	return trace_file_checked(w, trace_file_record(w, TRACE_PROCESS, buf, (size_t)(o.p - buf)));
}

int trace_file_thread(struct trace_file *w, int32_t pid, int32_t tid, const char *name)
{
	if (w->blocks.failed)
		return 0;
	int64_t id = trace_ids_thread(&w->ids, pid, tid, name);
	return id < 0 ? trace_file_checked(w, (int)id) : 0;
}

int trace_file_stats(struct trace_file *w, const struct trace_stats *s)
{
	uint8_t buf[128];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	if (w->blocks.failed)
		return 0;
	out_u(&o, s->probe_ns);
	out_u(&o, s->seen_permille);
	out_u(&o, s->wall_ns);
	out_u(&o, s->cpu_ns);
	out_u(&o, s->lean);
	out_u(&o, s->turns);
	out_s(&o, s->slowdown);
	out_u(&o, s->slowdown_error);
	out_u(&o, s->turns_ops);
	out_b(&o, s->probe_is_least);
	out_u(&o, s->no_blocks);
	return trace_file_checked(w, trace_file_record(w, TRACE_STATS, buf, (size_t)(o.p - buf)));
}

void trace_file_forget(struct trace_file *w)
{
	trace_ids_forget(&w->ids);
}

int trace_file_flush(struct trace_file *w)
{
	return w->blocks.failed ? 0 : trace_blocks_flush(&w->blocks);
}

int trace_file_tick(struct trace_file *w, uint64_t now_ns)
{
	return w->blocks.failed ? 0 : trace_blocks_tick(&w->blocks, now_ns);
}

uint64_t trace_file_bytes(const struct trace_file *w)
{
	return w->blocks.offset;
}

uint64_t trace_file_events(const struct trace_file *w)
{
	return w->nevents;
}

bool trace_file_kept_old(const struct trace_file *w)
{
	return w->blocks.kept_old;
}

static int write_end(struct trace_file *w)
{
	uint8_t buf[32];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	out_u(&o, w->nevents);
	out_u(&o, w->nlost);
	return trace_file_record(w, TRACE_END, buf, (size_t)(o.p - buf));
}

int trace_file_close(struct trace_file *w, bool clean)
{
	int r = 0;
	if (!w)
		return 0;
	if (!w->blocks.failed && clean)
		r = write_end(w);
	if (!w->blocks.failed && !r)
		r = trace_blocks_flush(&w->blocks);
	trace_blocks_close(&w->blocks);
	trace_ids_free(&w->ids);
	free(w->scratch);
	free(w);
	return r;
}

int trace_file_open(const char *path, struct trace_file **out, struct err *e)
{
	struct trace_file *w = calloc(1, sizeof(*w));
	uint8_t *scratch = malloc(TRACE_RECORD_MAX);
	int r = w && scratch ? trace_blocks_open(&w->blocks, path, e)
			     : err_set(e, -ENOMEM, "no memory to write %s", path);
	if (r) {
		free(w);
		free(scratch);
		return r;
	}
	w->scratch = scratch;
	w->ids = (struct trace_ids){.record = trace_file_record,
				    .arg = w,
				    .scratch = scratch,
				    .scratch_size = TRACE_RECORD_MAX};
	*out = w;
	return 0;
}
