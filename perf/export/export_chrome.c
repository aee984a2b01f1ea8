#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "perf/calls/call_tree.h"
#include "perf/events/print_event.h"
#include "perf/export/export.h"
#include "perf/export/internal.h"
#include "perf/report/blocks.h"
#include "symbolizer/event/names.h"

/* Tracks of what is of no thread alone: steps, the modules and blocks of each thread, and streams
 * of devices, each device being a process. Threads and processes of Linux have ids below 2^22. */
enum {
	STEPS_TRACK = 1 << 30,
	MODULES_TRACK = STEPS_TRACK + 1,
	BLOCKS_TRACK = MODULES_TRACK + (1 << 22),
	DEVICE_PROCESS = 1 << 29,
	STREAM_TRACK = 1 << 29,
};

struct chrome {
	struct json_out j;
	struct export_in *in;
	struct export_notes *notes;
	struct export_profile *profile; /* of the samples */
	struct slices *slices;
	struct module_spans *modules;
	struct block_pairs blocks;
	struct intern block_tracks; /* that have a name: a thread and a lane */
	struct export_activities activities;
	struct intern device_tracks; /* that have a name: a stream and its lane */
	uint32_t devices;	     /* that have a name */
	uint64_t first_ns, last_ns;  /* of all events */
};

/* Microseconds with three decimals: exact, unlike a double. */
static void put_us(struct json_out *j, const char *key, uint64_t ns, bool negative)
{
	json_format(j, key, "%s%" PRIu64 ".%03u", negative ? "-" : "", ns / 1000,
		    (unsigned)(ns % 1000));
}

static void put_ts(struct chrome *c, uint64_t ns)
{
	uint64_t origin = trace_query_origin(c->in->query);
	put_us(&c->j, "ts", ns < origin ? origin - ns : ns - origin, ns < origin);
}

static void begin(struct chrome *c, const char *phase, int32_t pid, int32_t tid)
{
	json_line(&c->j);
	json_open(&c->j, NULL, '{');
	json_text(&c->j, "ph", phase);
	json_i64(&c->j, "pid", pid);
	json_i64(&c->j, "tid", tid);
}

static void put_name(struct chrome *c, const char *what, int32_t pid, int32_t tid, const char *name)
{
	begin(c, "M", pid, tid);
	json_text(&c->j, "name", what);
	json_open(&c->j, "args", '{');
	json_text(&c->j, "name", name);
	json_close(&c->j, '}');
	json_close(&c->j, '}');
}

/* One end of a flow, "s" or "f"; viewers attach it to what is open at that time. */
static void put_flow(struct chrome *c, const char *phase, const char *name, int32_t pid,
		     int32_t tid, uint64_t ns, uint64_t id)
{
	begin(c, phase, pid, tid);
	put_ts(c, ns);
	json_text(&c->j, "cat", name);
	json_text(&c->j, "name", name);
	json_u64(&c->j, "id", id);
	if (phase[0] == 'f')
		json_text(&c->j, "bp", "e");
	json_close(&c->j, '}');
}

static void put_event(struct chrome *c, const struct op_event *ev)
{
	size_t first;
	begin(c, ev->end_ns ? "X" : "B", ev->pid, ev->tid);
	put_ts(c, ev->start_ns);
	if (ev->end_ns)
		put_us(&c->j, "dur", ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0,
		       false);
	json_text(&c->j, "cat", op_phase_names[ev->phase]);
	json_text(&c->j, "name", ev->op->name);
	chrome_op_args(&c->j, ev);
	json_close(&c->j, '}');
	if (export_flows_begin(&c->notes->nodes, ev->id, &first))
		put_flow(c, "s", "backward", ev->pid, ev->tid, ev->start_ns, ev->id);
	if (export_maker(ev))
		put_flow(c, "f", "backward", ev->pid, ev->tid, ev->start_ns, export_maker(ev));
	export_flows_begin(&c->notes->launches, ev->id, &first);
}

/* A slice of a track that is of no thread alone. */
static void put_span(struct chrome *c, int32_t pid, int32_t track, uint64_t start_ns,
		     uint64_t end_ns, const char *category, const char *name)
{
	begin(c, "X", pid, track);
	put_ts(c, start_ns);
	put_us(&c->j, "dur", end_ns > start_ns ? end_ns - start_ns : 0, false);
	json_text(&c->j, "cat", category);
	json_text(&c->j, "name", name);
	json_close(&c->j, '}');
}

/* As torch.profiler names them, those with any of the events. */
static void put_steps(struct chrome *c)
{
	const struct export_notes *n = c->notes;
	struct intern pids = {0};
	for (size_t i = 0; i < n->nsteps; i++) {
		const struct breakdown_step *s = &n->steps[i];
		char name[40];
		bool is_new;
		if (s->start_ns >= c->last_ns || s->end_ns <= c->first_ns)
			continue;
		if (intern(&pids, &s->pid, sizeof(s->pid), &is_new) >= 0 && is_new)
			put_name(c, "thread_name", s->pid, STEPS_TRACK, "steps");
		snprintf(name, sizeof(name), "ProfilerStep#%" PRIu64, s->number);
		put_span(c, s->pid, STEPS_TRACK, s->start_ns, s->end_ns, "user_annotation", name);
	}
	intern_free(&pids);
}

static int put_module(void *arg, const struct module_span *m)
{
	struct chrome *c = arg;
	char text[64];
	if (m->is_first) {
		snprintf(text, sizeof(text), "modules of thread %" PRId32, m->tid);
		put_name(c, "thread_name", m->pid, MODULES_TRACK + m->tid, text);
	}
	put_span(c, m->pid, MODULES_TRACK + m->tid, m->start_ns, m->end_ns, "module", m->name);
	return 0;
}

/* The track of the block's lane, named when it is first met; or -ENOMEM. */
static int32_t block_track(struct chrome *c, const struct code_block *b)
{
	const int32_t key[3] = {b->pid, b->tid, (int32_t)b->lane};
	char text[64], more[16] = "";
	bool is_new;
	int64_t id = intern(&c->block_tracks, key, sizeof(key), &is_new);
	if (id < 0)
		return -ENOMEM;
	if (b->lane)
		snprintf(more, sizeof(more), " (%" PRIu32 ")", b->lane + 1);
	snprintf(text, sizeof(text), "blocks of thread %" PRId32 "%s", b->tid, more);
	if (is_new)
		put_name(c, "thread_name", b->pid, BLOCKS_TRACK + (int32_t)id, text);
	return BLOCKS_TRACK + (int32_t)id;
}

/* On a track of their own, as blocks need not be nested in frames. One that has not ended is open.
 */
static int put_block(void *arg, const struct code_block *b)
{
	struct chrome *c = arg;
	const int32_t track = block_track(c, b);
	if (track >= 0 && b->end_ns)
		put_span(c, b->pid, track, b->start_ns, b->end_ns, "user_annotation", b->name);
	if (track < 0 || b->end_ns)
		return track < 0 ? track : 0;
	begin(c, "B", b->pid, track);
	put_ts(c, b->start_ns);
	json_text(&c->j, "cat", "user_annotation");
	json_text(&c->j, "name", b->name);
	json_close(&c->j, '}');
	return 0;
}

/* The track of a lane, named when it is first met. */
static int32_t device_track(struct chrome *c, const struct export_activity *a,
			    const struct export_stream *s, uint32_t lane)
{
	const uint32_t key[2] = {a->stream, lane};
	char name[80], more[32] = "";
	bool is_new = false;
	int64_t id = intern(&c->device_tracks, key, sizeof(key), &is_new);
	int32_t device = DEVICE_PROCESS + (int32_t)s->device;
	if (id < 0 || !is_new)
		return id < 0 ? -ENOMEM : STREAM_TRACK + (int32_t)id;
	/* They are met in the order of their numbers. */
	if (s->device == c->devices) {
		if (s->rank1)
			snprintf(more, sizeof(more), ", rank %" PRIu32, s->rank1 - 1);
		snprintf(name, sizeof(name), "%s of process %" PRId32 "%s", s->device_name, s->pid,
			 more);
		put_name(c, "process_name", device, device, name);
		c->devices++;
	}
	more[0] = '\0';
	if (lane)
		snprintf(more, sizeof(more), " (%" PRIu32 ")", lane + 1);
	snprintf(name, sizeof(name), "%s stream %" PRIu32 "%s", s->device_name, s->stream, more);
	put_name(c, "thread_name", device, STREAM_TRACK + (int32_t)id, name);
	return STREAM_TRACK + (int32_t)id;
}

static int put_activity(void *arg, const struct export_activity *a, const struct export_stream *s,
			uint32_t lane)
{
	struct chrome *c = arg;
	int32_t device = DEVICE_PROCESS + (int32_t)s->device, track = device_track(c, a, s, lane);
	if (track < 0)
		return track;
	begin(c, "X", device, track);
	put_ts(c, a->start_ns);
	put_us(&c->j, "dur", a->end_ns - a->start_ns, false);
	json_text(&c->j, "cat", export_activity_categories[a->kind]);
	json_text(&c->j, "name", a->name);
	chrome_activity_args(&c->j, a, s);
	json_close(&c->j, '}');
	int64_t flow = a->has_flow ? export_flows_end(&c->notes->launches, a->op_id) : -ENOENT;
	if (flow < 0)
		return 0;
	put_flow(c, "s", "ac2g", s->pid, a->tid, a->launched_ns, (uint64_t)flow + 1);
	put_flow(c, "f", "ac2g", device, track, a->start_ns, (uint64_t)flow + 1);
	return 0;
}

/* As torch.profiler has it. */
static void put_instant(struct chrome *c, const struct memory_event *m)
{
	const int64_t bytes = (int64_t)m->bytes;
	begin(c, "i", m->of.pid, m->of.tid);
	put_ts(c, m->of.start_ns);
	json_text(&c->j, "s", "t");
	json_text(&c->j, "cat", "cpu_instant_event");
	json_text(&c->j, "name", "[memory]");
	json_open(&c->j, "args", '{');
	json_i64(&c->j, "Device Type", m->device_type);
	json_i64(&c->j, "Device Id", m->device_index);
	json_u64(&c->j, "Addr", m->address);
	json_i64(&c->j, "Bytes", m->freed ? -bytes : bytes);
	json_u64(&c->j, "Total Allocated", m->total);
	json_u64(&c->j, "Total Reserved", m->reserved);
	if (m->of.op)
		json_text(&c->j, "op", m->of.op->name);
	if (m->of.id)
		json_u64(&c->j, "op_id", m->of.id);
	json_close(&c->j, '}');
	json_close(&c->j, '}');
}

/* What is allocated, as a counter of the process. */
static void put_counter(struct chrome *c, const struct memory_event *m)
{
	char name[64], device[32];
	begin(c, "C", m->of.pid, m->of.pid);
	put_ts(c, m->of.start_ns);
	snprintf(name, sizeof(name), "memory of %s",
		 names_device(device, sizeof(device), m->device_type, m->device_index));
	json_text(&c->j, "name", name);
	json_open(&c->j, "args", '{');
	json_u64(&c->j, "allocated", m->total);
	if (m->reserved)
		json_u64(&c->j, "reserved", m->reserved);
	json_close(&c->j, '}');
	json_close(&c->j, '}');
}

static void put_memory(struct chrome *c, const struct memory_event *m)
{
	if (!m->bytes)
		return;
	put_instant(c, m);
	put_counter(c, m);
}

static int add_event(struct chrome *c, const struct op_event *ev)
{
	if (ev->start_ns < c->first_ns)
		c->first_ns = ev->start_ns;
	if (ev->start_ns + 1 > c->last_ns)
		c->last_ns = ev->start_ns + 1;
	if (export_is_mark(c->in, ev))
		return block_pairs_add(&c->blocks, ev);
	int r = module_spans_add(c->modules, ev);
	return r ? r : slices_add(c->slices, ev);
}

/* A call that has ended is one event; what opens and closes are frames, and calls that have not. */
enum { ENDED, OPEN };

static int64_t open_slice(void *arg, const struct slice *slice)
{
	struct chrome *c = arg;
	const struct op_event *ev = slice->event;
	char name[CALL_FRAME_TEXT_MAX];
	if (!slice->frame) {
		put_event(c, ev);
		return ev->end_ns ? ENDED : OPEN;
	}
	call_frame_text(name, slice->frame);
	begin(c, "B", ev->pid, ev->tid);
	put_ts(c, slice->start_ns);
	json_text(&c->j, "cat", "python");
	json_text(&c->j, "name", name);
	json_close(&c->j, '}');
	return OPEN;
}

static int close_slice(void *arg, const struct slice_end *end)
{
	struct chrome *c = arg;
	if (end->number == ENDED)
		return 0;
	begin(c, "E", end->pid, end->tid);
	put_ts(c, end->end_ns);
	json_close(&c->j, '}');
	return 0;
}

static void put_lost(struct chrome *c, uint64_t time_ns, uint64_t count, const char *one,
		     const char *more)
{
	begin(c, "i", 0, 0);
	put_ts(c, time_ns);
	json_text(&c->j, "s", "g");
	json_format(&c->j, "name", "\"%" PRIu64 " %s lost\"", count, count == 1 ? one : more);
	json_close(&c->j, '}');
}

static int put_sample(struct chrome *c, const struct sample *s)
{
	int64_t ns = (int64_t)(s->time_ns - trace_query_origin(c->in->query));
	return export_profile_add(c->profile, &c->j, s, ns / 1000);
}

static int put_item(void *arg, const struct trace_item *item)
{
	struct chrome *c = arg;
	if (item->type == TRACE_EVENT && add_event(c, &item->event))
		return -ENOMEM;
	if (item->type == TRACE_ACTIVITY && export_activities_add(&c->activities, &item->activity))
		return -ENOMEM;
	if (item->type == TRACE_THREAD && item->thread.name[0])
		put_name(c, "thread_name", item->thread.pid, item->thread.tid, item->thread.name);
	else if (item->type == TRACE_TARGET)
		put_name(c, "process_name", item->target.pid, item->target.pid,
			 item->target.argv[0] ? item->target.argv : item->target.comm);
	else if (item->type == TRACE_MEMORY)
		put_memory(c, &item->memory);
	else if (item->type == TRACE_MEMORY_LOST)
		put_lost(c, item->lost.time_ns, item->lost.count, "allocation or free",
			 "allocations or frees");
	else if (item->type == TRACE_LOST)
		put_lost(c, item->lost.time_ns, item->lost.count, "event", "events");
	else if (item->type == TRACE_SAMPLES_LOST)
		put_lost(c, item->lost.time_ns, item->lost.count, "sample", "samples");
	else if (item->type == TRACE_ACTIVITIES_LOST)
		put_lost(c, item->lost.time_ns, item->lost.count, "activity of a device",
			 "activities of devices");
	else if (item->type == TRACE_SAMPLE && put_sample(c, &item->sample))
		return -ENOMEM;
	return ferror(c->j.f) ? -EIO : 0;
}

/* Close what is open, and write what is known at the end alone. */
static int finish(struct chrome *c)
{
	int r = slices_finish(c->slices);
	r = r ? r : module_spans_finish(c->modules);
	r = r ? r : block_pairs_finish(&c->blocks);
	put_steps(c);
	return r ? r : export_activities_each(&c->activities, put_activity, c);
}

static void put_origin(struct chrome *c)
{
	json_open(&c->j, "otherData", '{');
	json_format(&c->j, "origin_ns", "\"%" PRIu64 "\"", trace_query_origin(c->in->query));
	json_close(&c->j, '}');
}

int export_chrome(struct export_in *in, FILE *f, struct err *e)
{
	struct chrome c = {
	    .j.f = f, .in = in, .profile = export_profile_new(), .first_ns = UINT64_MAX};
	const struct slices_to to = {.open = open_slice, .close = close_slice, .arg = &c};
	int r = -ENOMEM;
	c.slices = slices_new(&to);
	c.modules = module_spans_new(put_module, &c);
	c.blocks = (struct block_pairs){.end = put_block, .arg = &c};
	c.notes = export_noted(in);
	if (c.profile && c.slices && c.modules && c.notes) {
		json_open(&c.j, NULL, '{');
		json_text(&c.j, "displayTimeUnit", "ns");
		json_open(&c.j, "traceEvents", '[');
		r = export_each(in, put_item, &c, e);
		if (finish(&c))
			r = err_set(e, -ENOMEM, "no memory to read %s", in->path);
		json_line(&c.j);
		json_close(&c.j, ']');
		put_origin(&c);
		json_close(&c.j, '}');
		putc('\n', f);
	} else {
		err_set(e, r, "no memory to read %s", in->path);
	}
	slices_free(c.slices);
	module_spans_free(c.modules);
	export_profile_free(c.profile);
	export_activities_free(&c.activities);
	intern_free(&c.device_tracks);
	intern_free(&c.block_tracks);
	block_pairs_free(&c.blocks);
	return r;
}
