/* The "args" of events in Trace Event JSON: what is known of an op, or of what a device did. */
#include "perf/events/print_event.h"
#include "perf/export/internal.h"

static void put_tensors(struct json_out *j, const char *key,
			const char *(*text)(char *, size_t, const struct op_event *),
			const struct op_event *ev)
{
	char out[EVENT_TENSORS_MAX];
	if (text(out, sizeof(out), ev)[0])
		json_text(j, key, out);
}

/* Each may be NULL. */
static void put_place(struct json_out *j, const struct py_frame *where, const char *parameter,
		      const char *module, const struct py_frame *backward_of)
{
	if (where) {
		json_text(j, "file", where->file);
		json_i64(j, "line", where->line);
		json_text(j, "function", where->function);
		if (where->text)
			json_text(j, "text", where->text);
	}
	if (parameter)
		json_text(j, "parameter", parameter);
	if (module)
		json_text(j, "module", module);
	if (!backward_of)
		return;
	json_open(j, "backward_of", '{');
	json_text(j, "file", backward_of->file);
	json_i64(j, "line", backward_of->line);
	json_text(j, "function", backward_of->function);
	json_close(j, '}');
}

void chrome_op_args(struct json_out *j, const struct op_event *ev)
{
	const struct py_frame *where = py_stack_where(ev->where_stack);
	const struct py_frame *of = py_stack_where(ev->backward_of);
	json_open(j, "args", '{');
	json_u64(j, "id", ev->id);
	if (ev->forward_id)
		json_u64(j, "forward_id", ev->forward_id);
	if (ev->thrown)
		json_bool(j, "thrown", true);
	put_tensors(j, "shapes", event_shapes, ev);
	put_tensors(j, "dtypes", event_dtypes, ev);
	put_tensors(j, "devices", event_devices, ev);
	put_place(j, where, py_stack_parameter(ev->where_stack), py_stack_module(ev->where_stack),
		  of);
	json_close(j, '}');
}

void chrome_activity_args(struct json_out *j, const struct export_activity *a,
			  const struct export_stream *s)
{
	json_open(j, "args", '{');
	json_text(j, "device", s->device_name);
	json_u64(j, "stream", s->stream);
	if (a->kind != ACTIVITY_KERNEL)
		json_u64(j, "bytes", a->bytes);
	if (a->in_graph)
		json_bool(j, "in_graph", true);
	json_text(j, "op", a->op->name);
	if (a->has_op)
		json_text(j, "phase", op_phase_names[a->phase]);
	if (a->op_id)
		json_u64(j, "op_id", a->op_id);
	if (a->launched_ns && a->launched_ns <= a->start_ns)
		json_u64(j, "launch_delay_ns", a->start_ns - a->launched_ns);
	put_place(j, a->where, a->parameter, a->module, a->backward_of);
	json_close(j, '}');
}
