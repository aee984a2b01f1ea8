/* Perfetto's own format: packets of protocol buffers
 * (https://protobuf.dev/programming-guides/encoding), with the fields of
 * protos/perfetto/trace/perfetto_trace.proto. Names are written once and then named by number. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "perf/events/print_event.h"
#include "perf/export/export.h"
#include "perf/export/internal.h"
#include "perf/report/call_tree.h"
#include "symbolizer/event/names.h"

/* Numbers of fields. */
enum {
	TRACE_PACKET = 1,

	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60,

	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	THREAD_PID = 1,
	THREAD_TID = 2,
	THREAD_NAME = 5,
	COUNTER_UNIT = 3,

	EVENT_CATEGORY = 3,
	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_NAME = 10,
	EVENT_TRACK = 11,
	EVENT_COUNTER = 30,
	EVENT_FLOW = 47,
	EVENT_FLOW_END = 48,
	ANNOTATION_NAME = 1,
	ANNOTATION_UINT = 3,
	ANNOTATION_STRING = 17,

	INTERNED_CATEGORY = 1,
	INTERNED_NAME = 2,
	INTERNED_ANNOTATION = 3,
	INTERNED_STRING = 29,
	INTERNED_IID = 1,
	INTERNED_TEXT = 2,
};

enum { SLICE_BEGIN = 1, SLICE_END = 2, COUNTER = 4 };
enum { UNIT_BYTES = 3 };
enum { STATE_CLEARED = 1, STATE_NEEDED = 2 };
enum { SEQUENCE = 1 };

/* Ids of flows from ops to backward nodes, and to what devices did, begin there. */
static const uint64_t node_flows = 1, launch_flows = (uint64_t)1 << 62;

/* Bytes of a message being made. */
struct proto {
	uint8_t *bytes;
	size_t n, room;
	bool failed; /* no memory */
};

enum texts { CATEGORIES, NAMES, ANNOTATIONS, STRINGS, TEXTS };

static const uint8_t interned_fields[TEXTS] = {
    [CATEGORIES] = INTERNED_CATEGORY,
    [NAMES] = INTERNED_NAME,
    [ANNOTATIONS] = INTERNED_ANNOTATION,
    [STRINGS] = INTERNED_STRING,
};

struct perfetto {
	FILE *f;
	struct export_in *in;
	struct export_notes *notes;
	struct slices *slices;
	struct module_spans *modules;
	struct export_activities activities;
	struct intern texts[TEXTS];
	struct intern tracks; /* the keys of those that were described */
	struct proto interned, event, inner, packet;
	bool has_begun;
	uint64_t first_ns, last_ns; /* of all events */
};

static void put_varint(struct proto *p, uint64_t n)
{
	if (array_grow(&p->bytes, &p->room, p->n + 10, 1)) {
		p->failed = true;
		return;
	}
	for (; n >= 0x80; n >>= 7)
		p->bytes[p->n++] = (uint8_t)(n | 0x80);
	p->bytes[p->n++] = (uint8_t)n;
}

static void put_int(struct proto *p, unsigned field, uint64_t n)
{
	put_varint(p, field << 3);
	put_varint(p, n);
}

static void put_fixed(struct proto *p, unsigned field, uint64_t n)
{
	put_varint(p, field << 3 | 1);
	if (array_grow(&p->bytes, &p->room, p->n + 8, 1)) {
		p->failed = true;
		return;
	}
	for (int i = 0; i < 8; i++)
		p->bytes[p->n++] = (uint8_t)(n >> 8 * i);
}

static void put_bytes(struct proto *p, unsigned field, const void *bytes, size_t n)
{
	put_varint(p, field << 3 | 2);
	put_varint(p, n);
	if (array_grow(&p->bytes, &p->room, p->n + n + 1, 1)) {
		p->failed = true;
		return;
	}
	memcpy(p->bytes + p->n, bytes, n);
	p->n += n;
}

/* Strings have to be UTF-8: what is not becomes U+FFFD. */
static void put_text(struct proto *p, unsigned field, const char *s)
{
	char safe[2048];
	size_t n = 0;
	uint32_t cp;
	for (size_t left = strnlen(s, sizeof(safe) / 3), len; left; left -= len, s += len) {
		len = text_utf8(s, left, &cp);
		memcpy(safe + n, len ? s : "\xef\xbf\xbd", len ? len : 3);
		n += len ? len : 3;
		len = len ? len : 1;
	}
	put_bytes(p, field, safe, n);
}

/* Moves a message into another. */
static void put_message(struct proto *p, unsigned field, struct proto *message)
{
	put_bytes(p, field, message->bytes ? message->bytes : (const uint8_t *)"", message->n);
	p->failed |= message->failed;
	message->n = 0;
}

/* The number of a text, which the next packet introduces if it is new. */
static uint64_t number_of(struct perfetto *x, enum texts of, const char *text)
{
	bool is_new;
	int64_t id = intern(&x->texts[of], text, (uint32_t)strlen(text), &is_new);
	if (id < 0) {
		x->packet.failed = true;
		return 0;
	}
	if (is_new) {
		struct proto entry = {0};
		put_int(&entry, INTERNED_IID, (uint64_t)id + 1);
		put_text(&entry, INTERNED_TEXT, text);
		put_message(&x->interned, interned_fields[of], &entry);
		free(entry.bytes);
	}
	return (uint64_t)id + 1;
}

/* Write the packet with what was put into it. */
static void end_packet(struct perfetto *x)
{
	struct proto head = {0};
	put_int(&x->packet, PACKET_SEQUENCE, SEQUENCE);
	put_int(&x->packet, PACKET_FLAGS,
		x->has_begun ? STATE_NEEDED : STATE_CLEARED | STATE_NEEDED);
	if (x->interned.n)
		put_message(&x->packet, PACKET_INTERNED, &x->interned);
	x->has_begun = true;
	put_varint(&head, TRACE_PACKET << 3 | 2);
	put_varint(&head, x->packet.n);
	fwrite_unlocked(head.bytes, 1, head.n, x->f);
	fwrite_unlocked(x->packet.bytes, 1, x->packet.n, x->f);
	x->packet.failed |= head.failed;
	x->packet.n = 0;
	free(head.bytes);
}

/* Tracks by what they are of. */
enum track_kind {
	OF_PROCESS = 1,
	OF_THREAD,
	OF_STEPS,
	OF_MODULES,
	OF_DEVICE,
	OF_STREAM,
	OF_MEMORY
};

/* Small numbers take few bytes. */
static uint64_t track_uuid(struct perfetto *x, enum track_kind kind, int32_t pid, int32_t tid,
			   bool *is_new)
{
	const int32_t key[3] = {kind, pid, tid};
	int64_t id = intern(&x->tracks, key, sizeof(key), is_new);
	x->packet.failed |= id < 0;
	return (uint64_t)id + 1;
}

/* Describe a process or thread, again if `again`: it may get another name. */
static uint64_t describe(struct perfetto *x, enum track_kind kind, int32_t pid, int32_t tid,
			 const char *name, bool again)
{
	bool is_new = false;
	uint64_t uuid = track_uuid(x, kind, pid, tid, &is_new);
	if (!is_new && !again)
		return uuid;
	put_int(&x->event, TRACK_UUID, uuid);
	if (kind == OF_PROCESS) {
		put_int(&x->inner, PROCESS_PID, (uint64_t)pid);
		put_text(&x->inner, PROCESS_NAME, name);
		put_message(&x->event, TRACK_PROCESS, &x->inner);
	} else {
		put_int(&x->inner, THREAD_PID, (uint64_t)pid);
		put_int(&x->inner, THREAD_TID, (uint64_t)tid);
		if (name)
			put_text(&x->inner, THREAD_NAME, name);
		put_message(&x->event, TRACK_THREAD, &x->inner);
	}
	put_message(&x->packet, PACKET_TRACK, &x->event);
	end_packet(x);
	return uuid;
}

/* Describe a track below another one, by two numbers of its own. */
static uint64_t describe_below(struct perfetto *x, uint64_t parent, enum track_kind kind, int32_t a,
			       int32_t b, const char *name)
{
	bool is_new = false;
	uint64_t uuid = track_uuid(x, kind, a, b, &is_new);
	if (!is_new)
		return uuid;
	put_int(&x->event, TRACK_UUID, uuid);
	put_text(&x->event, TRACK_NAME, name);
	put_int(&x->event, TRACK_PARENT, parent);
	if (kind == OF_MEMORY) {
		put_int(&x->inner, COUNTER_UNIT, UNIT_BYTES);
		put_message(&x->event, TRACK_COUNTER, &x->inner);
	}
	put_message(&x->packet, PACKET_TRACK, &x->event);
	end_packet(x);
	return uuid;
}

static uint64_t track_of_process(struct perfetto *x, int32_t pid)
{
	bool is_new;
	return track_uuid(x, OF_PROCESS, pid, 0, &is_new);
}

static void end_event(struct perfetto *x, uint64_t ns)
{
	uint64_t origin = trace_query_origin(x->in->query);
	put_int(&x->packet, PACKET_TIMESTAMP, ns > origin ? ns - origin : 0);
	put_message(&x->packet, PACKET_EVENT, &x->event);
	end_packet(x);
}

static void begin_slice(struct perfetto *x, uint64_t track, const char *category, const char *name)
{
	put_int(&x->event, EVENT_TYPE, SLICE_BEGIN);
	put_int(&x->event, EVENT_TRACK, track);
	put_int(&x->event, EVENT_CATEGORY, number_of(x, CATEGORIES, category));
	put_int(&x->event, EVENT_NAME, number_of(x, NAMES, name));
}

static void end_slice(struct perfetto *x, uint64_t track, uint64_t ns)
{
	put_int(&x->event, EVENT_TYPE, SLICE_END);
	put_int(&x->event, EVENT_TRACK, track);
	end_event(x, ns);
}

static void annotate(struct perfetto *x, const char *name, const char *text, uint64_t n)
{
	if (text && !text[0])
		return;
	put_int(&x->inner, ANNOTATION_NAME, number_of(x, ANNOTATIONS, name));
	if (text)
		put_int(&x->inner, ANNOTATION_STRING, number_of(x, STRINGS, text));
	else
		put_int(&x->inner, ANNOTATION_UINT, n);
	put_message(&x->event, EVENT_ANNOTATION, &x->inner);
}

/* Both may be NULL. */
static void annotate_place(struct perfetto *x, const struct py_frame *where, const char *module)
{
	if (where) {
		annotate(x, "file", where->file, 0);
		annotate(x, "line", NULL, (uint64_t)where->line);
		annotate(x, "function", where->function ? where->function : "", 0);
		annotate(x, "text", where->text ? where->text : "", 0);
	}
	if (module)
		annotate(x, "module", module, 0);
}

static void annotate_op(struct perfetto *x, const struct op_event *ev)
{
	const struct py_frame *where = py_stack_where(ev->where_stack);
	char text[EVENT_TENSORS_MAX];
	annotate(x, "id", NULL, ev->id);
	if (ev->forward_id)
		annotate(x, "forward_id", NULL, ev->forward_id);
	if (ev->thrown)
		annotate(x, "thrown", "yes", 0);
	annotate(x, "shapes", event_shapes(text, sizeof(text), ev), 0);
	annotate(x, "dtypes", event_dtypes(text, sizeof(text), ev), 0);
	annotate(x, "devices", event_devices(text, sizeof(text), ev), 0);
	annotate_place(x, where, ev->where_stack ? ev->where_stack->module : NULL);
}

/* A flow has a single end: what ends it closes it. */
static void begin_flows(struct perfetto *x, struct export_flows *f, uint64_t base, uint64_t id)
{
	size_t first, n = export_flows_begin(f, id, &first);
	for (size_t i = 0; i < n; i++)
		put_fixed(&x->event, EVENT_FLOW, base + first + i);
}

static void end_flow(struct perfetto *x, struct export_flows *f, uint64_t base, uint64_t id)
{
	int64_t flow = export_flows_end(f, id);
	if (flow >= 0)
		put_fixed(&x->event, EVENT_FLOW_END, base + (uint64_t)flow);
}

static int64_t open_slice(void *arg, const struct slice *slice)
{
	struct perfetto *x = arg;
	const struct op_event *ev = slice->event;
	uint64_t track = describe(x, OF_THREAD, ev->pid, ev->tid, NULL, false);
	char name[CALL_FRAME_TEXT_MAX];
	if (slice->frame) {
		call_frame_text(name, slice->frame);
		begin_slice(x, track, "python", name);
	} else {
		begin_slice(x, track, op_phase_names[ev->phase], ev->op->name);
		annotate_op(x, ev);
		begin_flows(x, &x->notes->nodes, node_flows, ev->id);
		begin_flows(x, &x->notes->launches, launch_flows, ev->id);
		end_flow(x, &x->notes->nodes, node_flows, export_maker(ev));
	}
	end_event(x, slice->start_ns);
	return 0;
}

static int close_slice(void *arg, const struct slice_end *end)
{
	bool is_new;
	end_slice(arg, track_uuid(arg, OF_THREAD, end->pid, end->tid, &is_new), end->end_ns);
	return 0;
}

static void put_span(struct perfetto *x, uint64_t track, uint64_t start_ns, uint64_t end_ns,
		     const char *category, const char *name)
{
	begin_slice(x, track, category, name);
	end_event(x, start_ns);
	end_slice(x, track, end_ns);
}

static int put_module(void *arg, const struct module_span *m)
{
	struct perfetto *x = arg;
	char name[64];
	snprintf(name, sizeof(name), "modules of thread %" PRId32, m->tid);
	put_span(x,
		 describe_below(x, track_of_process(x, m->pid), OF_MODULES, m->pid, m->tid, name),
		 m->start_ns, m->end_ns, "module", m->name);
	return 0;
}

static void put_steps(struct perfetto *x)
{
	const struct export_notes *n = x->notes;
	for (size_t i = 0; i < n->nsteps; i++) {
		const struct breakdown_step *s = &n->steps[i];
		char name[40];
		if (s->start_ns >= x->last_ns || s->end_ns <= x->first_ns)
			continue;
		snprintf(name, sizeof(name), "ProfilerStep#%" PRIu64, s->number);
		put_span(
		    x, describe_below(x, track_of_process(x, s->pid), OF_STEPS, s->pid, 0, "steps"),
		    s->start_ns, s->end_ns, "user_annotation", name);
	}
}

static void annotate_activity(struct perfetto *x, const struct export_activity *a,
			      const struct export_stream *s)
{
	annotate(x, "device", s->device_name, 0);
	annotate(x, "stream", NULL, s->stream);
	if (a->kind != ACTIVITY_KERNEL)
		annotate(x, "bytes", NULL, a->bytes);
	if (a->in_graph)
		annotate(x, "in_graph", "yes", 0);
	annotate(x, "op", a->op->name, 0);
	if (a->has_op)
		annotate(x, "phase", op_phase_names[a->phase], 0);
	if (a->op_id)
		annotate(x, "op_id", NULL, a->op_id);
	if (a->launched_ns && a->launched_ns <= a->start_ns)
		annotate(x, "launch_delay_ns", NULL, a->start_ns - a->launched_ns);
	annotate_place(x, a->where, a->module);
}

/* Lanes of a stream have one name: viewers draw them as one track. */
static int put_activity(void *arg, const struct export_activity *a, const struct export_stream *s,
			uint32_t lane)
{
	struct perfetto *x = arg;
	char name[64];
	snprintf(name, sizeof(name), "%s stream %" PRIu32, s->device_name, s->stream);
	uint64_t device = describe_below(x, track_of_process(x, s->pid), OF_DEVICE,
					 (int32_t)s->device, 0, s->device_name);
	uint64_t track =
	    describe_below(x, device, OF_STREAM, (int32_t)a->stream, (int32_t)lane, name);
	begin_slice(x, track, export_activity_categories[a->kind], a->name);
	annotate_activity(x, a, s);
	if (a->has_flow)
		end_flow(x, &x->notes->launches, launch_flows, a->op_id);
	end_event(x, a->start_ns);
	end_slice(x, track, a->end_ns);
	return x->packet.failed ? -ENOMEM : 0;
}

static void put_bytes_of(struct perfetto *x, const struct memory_event *m, const char *what,
			 uint64_t bytes)
{
	char name[64], device[32];
	const int32_t which =
	    (uint8_t)m->device_type << 16 | (uint8_t)m->device_index << 8 | what[0];
	snprintf(name, sizeof(name), "memory of %s, %s",
		 names_device(device, sizeof(device), m->device_type, m->device_index), what);
	uint64_t track =
	    describe_below(x, track_of_process(x, m->of.pid), OF_MEMORY, m->of.pid, which, name);
	put_int(&x->event, EVENT_TYPE, COUNTER);
	put_int(&x->event, EVENT_TRACK, track);
	put_int(&x->event, EVENT_COUNTER, bytes);
	end_event(x, m->of.start_ns);
}

static void put_memory(struct perfetto *x, const struct memory_event *m)
{
	put_bytes_of(x, m, "allocated", m->total);
	if (m->reserved)
		put_bytes_of(x, m, "reserved", m->reserved);
}

static int add_event(struct perfetto *x, const struct op_event *ev)
{
	if (ev->start_ns < x->first_ns)
		x->first_ns = ev->start_ns;
	if (ev->start_ns + 1 > x->last_ns)
		x->last_ns = ev->start_ns + 1;
	int r = module_spans_add(x->modules, ev);
	return r ? r : slices_add(x->slices, ev);
}

static int put_item(void *arg, const struct trace_item *item)
{
	struct perfetto *x = arg;
	const struct trace_target *t = &item->target;
	if (item->type == TRACE_EVENT && add_event(x, &item->event))
		return -ENOMEM;
	if (item->type == TRACE_ACTIVITY && export_activities_add(&x->activities, &item->activity))
		return -ENOMEM;
	if (item->type == TRACE_MEMORY)
		put_memory(x, &item->memory);
	else if (item->type == TRACE_THREAD && item->thread.name[0])
		describe(x, OF_THREAD, item->thread.pid, item->thread.tid, item->thread.name, true);
	else if (item->type == TRACE_TARGET)
		describe(x, OF_PROCESS, t->pid, 0, t->argv[0] ? t->argv : t->comm, true);
	return x->packet.failed ? -ENOMEM : ferror(x->f) ? -EIO : 0;
}

static void perfetto_free(struct perfetto *x)
{
	slices_free(x->slices);
	module_spans_free(x->modules);
	for (int i = 0; i < TEXTS; i++)
		intern_free(&x->texts[i]);
	intern_free(&x->tracks);
	export_activities_free(&x->activities);
	free(x->interned.bytes);
	free(x->event.bytes);
	free(x->inner.bytes);
	free(x->packet.bytes);
}

int export_perfetto(struct export_in *in, FILE *f, struct err *e)
{
	struct perfetto x = {.f = f, .in = in, .first_ns = UINT64_MAX};
	const struct slices_to to = {.open = open_slice, .close = close_slice, .arg = &x};
	int r = -ENOMEM;
	x.slices = slices_new(&to);
	x.modules = module_spans_new(put_module, &x);
	x.notes = export_noted(in);
	if (x.slices && x.modules && x.notes) {
		r = export_each(in, put_item, &x, e);
		int w = slices_finish(x.slices);
		w = w ? w : module_spans_finish(x.modules);
		put_steps(&x);
		w = w ? w : export_activities_each(&x.activities, put_activity, &x);
		if (w || x.packet.failed)
			r = err_set(e, -ENOMEM, "no memory to read %s", in->path);
	} else {
		err_set(e, r, "no memory to read %s", in->path);
	}
	perfetto_free(&x);
	return r;
}
