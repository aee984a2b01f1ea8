/* Perfetto's own format: what of a trace becomes which slice, flow and counter. */
#include <errno.h>
#include <inttypes.h>

#include "perf/calls/call_tree.h"
#include "perf/events/print_event.h"
#include "perf/export/export.h"
#include "perf/export/internal.h"
#include "perf/report/blocks.h"
#include "symbolizer/event/names.h"

/* Ids of flows from ops to backward nodes, and to what devices did, begin there. */
static const uint64_t node_flows = 1, launch_flows = (uint64_t)1 << 62;

struct perfetto_export {
	struct perfetto to;
	struct export_notes *notes;
	struct slices *slices;
	struct module_spans *modules;
	struct block_pairs blocks;
	const struct export_in *in;
	struct export_activities activities;
	uint64_t first_ns, last_ns; /* of all events */
};

/* Each may be NULL. */
static void annotate_place(struct perfetto *x, const struct py_frame *where, const char *parameter,
			   const char *module)
{
	if (where) {
		perfetto_annotate(x, "file", where->file, 0);
		perfetto_annotate(x, "line", NULL, (uint64_t)where->line);
		perfetto_annotate(x, "function", where->function ? where->function : "", 0);
		perfetto_annotate(x, "text", where->text ? where->text : "", 0);
	}
	if (parameter)
		perfetto_annotate(x, "parameter", parameter, 0);
	if (module)
		perfetto_annotate(x, "module", module, 0);
}

static void annotate_op(struct perfetto *x, const struct op_event *ev)
{
	const struct py_frame *where = py_stack_where(ev->where_stack);
	char text[EVENT_TENSORS_MAX];
	perfetto_annotate(x, "id", NULL, ev->id);
	if (ev->forward_id)
		perfetto_annotate(x, "forward_id", NULL, ev->forward_id);
	if (ev->thrown)
		perfetto_annotate(x, "thrown", "yes", 0);
	perfetto_annotate(x, "shapes", event_shapes(text, sizeof(text), ev), 0);
	perfetto_annotate(x, "dtypes", event_dtypes(text, sizeof(text), ev), 0);
	perfetto_annotate(x, "devices", event_devices(text, sizeof(text), ev), 0);
	annotate_place(x, where, py_stack_parameter(ev->where_stack),
		       py_stack_module(ev->where_stack));
}

/* A flow has a single end: what ends it closes it. */
static void begin_flows(struct perfetto *x, struct export_flows *f, uint64_t base, uint64_t id)
{
	size_t first, n = export_flows_begin(f, id, &first);
	for (size_t i = 0; i < n; i++)
		perfetto_flow(x, base + first + i, false);
}

static void end_flow(struct perfetto *x, struct export_flows *f, uint64_t base, uint64_t id)
{
	int64_t flow = export_flows_end(f, id);
	if (flow >= 0)
		perfetto_flow(x, base + (uint64_t)flow, true);
}

static int64_t open_slice(void *arg, const struct slice *slice)
{
	struct perfetto_export *x = arg;
	const struct op_event *ev = slice->event;
	uint64_t track =
	    perfetto_describe(&x->to, PERFETTO_OF_THREAD, ev->pid, ev->tid, NULL, false);
	char name[CALL_FRAME_TEXT_MAX];
	if (slice->frame) {
		call_frame_text(name, slice->frame);
		perfetto_begin_slice(&x->to, track, "python", name);
	} else {
		perfetto_begin_slice(&x->to, track, op_phase_names[ev->phase], ev->op->name);
		annotate_op(&x->to, ev);
		begin_flows(&x->to, &x->notes->nodes, node_flows, ev->id);
		begin_flows(&x->to, &x->notes->launches, launch_flows, ev->id);
		end_flow(&x->to, &x->notes->nodes, node_flows, export_maker(ev));
	}
	perfetto_end_event(&x->to, slice->start_ns);
	return 0;
}

static int close_slice(void *arg, const struct slice_end *end)
{
	struct perfetto_export *x = arg;
	bool is_new;
	perfetto_end_slice(&x->to,
			   perfetto_track(&x->to, PERFETTO_OF_THREAD, end->pid, end->tid, &is_new),
			   end->end_ns);
	return 0;
}

static void put_span(struct perfetto *x, uint64_t track, uint64_t start_ns, uint64_t end_ns,
		     const char *category, const char *name)
{
	perfetto_begin_slice(x, track, category, name);
	perfetto_end_event(x, start_ns);
	perfetto_end_slice(x, track, end_ns);
}

static int put_module(void *arg, const struct module_span *m)
{
	struct perfetto_export *x = arg;
	char name[64];
	snprintf(name, sizeof(name), "modules of thread %" PRId32, m->tid);
	put_span(&x->to,
		 perfetto_describe_below(&x->to, perfetto_track_of_process(&x->to, m->pid),
					 PERFETTO_OF_MODULES, m->pid, m->tid, name),
		 m->start_ns, m->end_ns, "module", m->name);
	return 0;
}

/* On a track of their own, as blocks need not be nested in frames. Each of its lanes is in order of
 * time, and they have one name: viewers draw them as one track. A block that has not ended lasts to
 * the last event. */
static int put_block(void *arg, const struct code_block *b)
{
	struct perfetto_export *x = arg;
	char name[64];
	snprintf(name, sizeof(name), "blocks of thread %" PRId32, b->tid);
	put_span(&x->to,
		 perfetto_describe_below(&x->to, perfetto_track_of_process(&x->to, b->pid),
					 PERFETTO_OF_BLOCKS, b->tid, (int32_t)b->slot, name),
		 b->start_ns, b->end_ns ? b->end_ns : x->last_ns, "user_annotation", b->name);
	return 0;
}

static void put_steps(struct perfetto_export *x)
{
	const struct export_notes *n = x->notes;
	for (size_t i = 0; i < n->nsteps; i++) {
		const struct breakdown_step *s = &n->steps[i];
		char name[40];
		if (s->start_ns >= x->last_ns || s->end_ns <= x->first_ns)
			continue;
		snprintf(name, sizeof(name), "ProfilerStep#%" PRIu64, s->number);
		put_span(&x->to,
			 perfetto_describe_below(&x->to, perfetto_track_of_process(&x->to, s->pid),
						 PERFETTO_OF_STEPS, s->pid, 0, "steps"),
			 s->start_ns, s->end_ns, "user_annotation", name);
	}
}

static void annotate_activity(struct perfetto *x, const struct export_activity *a,
			      const struct export_stream *s)
{
	perfetto_annotate(x, "device", s->device_name, 0);
	perfetto_annotate(x, "stream", NULL, s->stream);
	if (a->kind != ACTIVITY_KERNEL)
		perfetto_annotate(x, "bytes", NULL, a->bytes);
	if (a->in_graph)
		perfetto_annotate(x, "in_graph", "yes", 0);
	perfetto_annotate(x, "op", a->op->name, 0);
	if (a->has_op)
		perfetto_annotate(x, "phase", op_phase_names[a->phase], 0);
	if (a->op_id)
		perfetto_annotate(x, "op_id", NULL, a->op_id);
	if (a->launched_ns && a->launched_ns <= a->start_ns)
		perfetto_annotate(x, "launch_delay_ns", NULL, a->start_ns - a->launched_ns);
	annotate_place(x, a->where, a->parameter, a->module);
}

/* Lanes of a stream have one name: viewers draw them as one track. */
static int put_activity(void *arg, const struct export_activity *a, const struct export_stream *s,
			uint32_t lane)
{
	struct perfetto_export *x = arg;
	char name[64];
	snprintf(name, sizeof(name), "%s stream %" PRIu32, s->device_name, s->stream);
	uint64_t device =
	    perfetto_describe_below(&x->to, perfetto_track_of_process(&x->to, s->pid),
				    PERFETTO_OF_DEVICE, (int32_t)s->device, 0, s->device_name);
	uint64_t track = perfetto_describe_below(&x->to, device, PERFETTO_OF_STREAM,
						 (int32_t)a->stream, (int32_t)lane, name);
	perfetto_begin_slice(&x->to, track, export_activity_categories[a->kind], a->name);
	annotate_activity(&x->to, a, s);
	if (a->has_flow)
		end_flow(&x->to, &x->notes->launches, launch_flows, a->op_id);
	perfetto_end_event(&x->to, a->start_ns);
	perfetto_end_slice(&x->to, track, a->end_ns);
	return x->to.packet.failed ? -ENOMEM : 0;
}

static void put_bytes_of(struct perfetto *x, const struct memory_event *m, const char *what,
			 uint64_t bytes)
{
	char name[64], device[32];
	const int32_t which =
	    (uint8_t)m->device_type << 16 | (uint8_t)m->device_index << 8 | what[0];
	snprintf(name, sizeof(name), "memory of %s, %s",
		 names_device(device, sizeof(device), m->device_type, m->device_index), what);
	uint64_t track = perfetto_describe_below(x, perfetto_track_of_process(x, m->of.pid),
						 PERFETTO_OF_MEMORY, m->of.pid, which, name);
	perfetto_counter(x, track, m->of.start_ns, bytes);
}

static void put_memory(struct perfetto *x, const struct memory_event *m)
{
	put_bytes_of(x, m, "allocated", m->total);
	if (m->reserved)
		put_bytes_of(x, m, "reserved", m->reserved);
}

static int add_event(struct perfetto_export *x, const struct op_event *ev)
{
	if (ev->start_ns < x->first_ns)
		x->first_ns = ev->start_ns;
	if (ev->start_ns + 1 > x->last_ns)
		x->last_ns = ev->start_ns + 1;
	if (export_is_mark(x->in, ev))
		return block_pairs_add(&x->blocks, ev);
	int r = module_spans_add(x->modules, ev);
	return r ? r : slices_add(x->slices, ev);
}

static int put_item(void *arg, const struct trace_item *item)
{
	struct perfetto_export *x = arg;
	const struct trace_target *t = &item->target;
	if (item->type == TRACE_EVENT && add_event(x, &item->event))
		return -ENOMEM;
	if (item->type == TRACE_ACTIVITY && export_activities_add(&x->activities, &item->activity))
		return -ENOMEM;
	if (item->type == TRACE_MEMORY)
		put_memory(&x->to, &item->memory);
	else if (item->type == TRACE_THREAD && item->thread.name[0])
		perfetto_describe(&x->to, PERFETTO_OF_THREAD, item->thread.pid, item->thread.tid,
				  item->thread.name, true);
	else if (item->type == TRACE_TARGET)
		perfetto_describe(&x->to, PERFETTO_OF_PROCESS, t->pid, 0,
				  t->argv[0] ? t->argv : t->comm, true);
	return x->to.packet.failed ? -ENOMEM : ferror(x->to.f) ? -EIO : 0;
}

int export_perfetto(struct export_in *in, FILE *f, struct err *e)
{
	struct perfetto_export x = {.to = {.f = f, .query = in->query}, .first_ns = UINT64_MAX};
	const struct slices_to to = {.open = open_slice, .close = close_slice, .arg = &x};
	int r = -ENOMEM;
	x.slices = slices_new(&to);
	x.modules = module_spans_new(put_module, &x);
	x.blocks = (struct block_pairs){.end = put_block, .arg = &x};
	x.in = in;
	x.notes = export_noted(in);
	if (x.slices && x.modules && x.notes) {
		r = export_each(in, put_item, &x, e);
		int w = slices_finish(x.slices);
		w = w ? w : module_spans_finish(x.modules);
		w = w ? w : block_pairs_finish(&x.blocks);
		put_steps(&x);
		w = w ? w : export_activities_each(&x.activities, put_activity, &x);
		if (w || x.to.packet.failed)
			r = err_set(e, -ENOMEM, "no memory to read %s", in->path);
	} else {
		err_set(e, r, "no memory to read %s", in->path);
	}
	slices_free(x.slices);
	module_spans_free(x.modules);
	export_activities_free(&x.activities);
	block_pairs_free(&x.blocks);
	perfetto_free(&x.to);
	return r;
}
