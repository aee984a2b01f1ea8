#define _GNU_SOURCE
#include "tracer/stack/stack_snapshot.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/text.h"
#include "symbolizer/event/names.h"
#include "symbolizer/python/python.h"
#include "tracer/stack/internal.h"

/* Strings from the target may not be valid UTF-8. */
static json_t *json_safe(const char *s)
{
	char text[4096];
	if (!s)
		return json_null();
	text_safe(text, sizeof(text), s);
	return json_string(text);
}

static json_t *json_python(const struct stack_snapshot_view *v,
			   const struct stack_snapshot_thread *x)
{
	const struct err *why;
	struct py_runtime *py = stack_reader_python(v->stack_reader, &why);
	json_t *list = json_array();
	for (unsigned i = 0; x->python && i < x->python->depth; i++) {
		const struct py_frame *f = x->python->frames[i];
		json_t *frame =
		    json_pack("{s:o, s:i, s:o, s:o, s:b}", "file", json_safe(f->file), "line",
			      (int)f->line, "function", json_safe(f->function), "text",
			      json_safe(py ? py_frame_text(py, f) : NULL), "torch", f->is_torch);
		json_array_append_new(list, frame);
	}
	return list;
}

static json_t *json_shape(const struct tensor_meta *m)
{
	json_t *list = json_array();
	for (unsigned i = 0; i < m->ndim; i++)
		json_array_append_new(list, json_integer(m->shape[i]));
	return list;
}

/* A tensor has a shape and a dtype, anything else a text; what is not known is null. */
static json_t *json_arg(const char *name, const struct value *v)
{
	char text[1024];
	json_t *o = json_pack("{s:o}", "name", json_safe(name));
	if (v->kind == VALUE_TENSOR) {
		const struct tensor_meta *m = &v->tensor->meta;
		json_object_set_new(o, "shape",
				    m->unknown & TENSOR_NO_SHAPE ? json_null() : json_shape(m));
		json_object_set_new(
		    o, "dtype",
		    json_safe(m->unknown & TENSOR_NO_DTYPE ? NULL : names_dtype(m->dtype)));
		return o;
	}
	bool known = v->kind != VALUE_NOT_DECODED;
	json_object_set_new(o, "value",
			    json_safe(known ? value_text(text, sizeof(text), v) : NULL));
	return o;
}

static json_t *json_args(const struct stack_snapshot_thread *x)
{
	json_t *list = x->call.op ? json_array() : json_null();
	for (unsigned i = 0; i < x->call.nargs; i++)
		json_array_append_new(list, json_arg(x->call.names[i], &x->call.args[i]));
	return list;
}

static json_t *json_native(const struct stack_snapshot_thread *x)
{
	json_t *list = json_array();
	for (unsigned i = 0; i < x->nframes; i++) {
		const struct native_frame *f = &x->frames[i];
		json_t *frame =
		    json_pack("{s:I, s:I, s:o, s:o, s:o}", "address", (json_int_t)f->pc, "offset",
			      (json_int_t)f->offset, "function", json_safe(f->full_name), "symbol",
			      json_safe(f->symbol), "file", json_safe(f->file));
		json_array_append_new(list, frame);
	}
	return list;
}

static json_t *json_call(const struct thread_facts *f)
{
	enum syscall_kind kind;
	const char *name = f->in_syscall ? syscall_name(f->syscall, &kind) : NULL;
	if (name || !f->in_syscall)
		return json_safe(name);
	return json_sprintf("%ld", f->syscall);
}

static json_t *json_thread(const struct stack_snapshot_view *v,
			   const struct stack_snapshot_thread *x)
{
	static const char *const reads[] = {
	    [PYTHON_NONE] = NULL, [PYTHON_EXACT] = "exact", [PYTHON_RUNNING] = "while running"};
	const char state[2] = {x->facts.state, 0};
	char doing[512];
	wait_reason_text(&x->wait, doing, sizeof(doing));
	json_t *o = json_pack("{s:i, s:o, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:b, s:I}", "tid",
			      (int)x->facts.tid, "name", json_safe(x->facts.name), "state", state,
			      "syscall", json_call(&x->facts), "wchan",
			      json_safe(x->facts.wchan[0] ? x->facts.wchan : NULL), "kind",
			      wait_reason_word(x->wait.kind), "doing", json_safe(doing), "op",
			      json_safe(x->in.op), "node", json_safe(x->in.node), "holds_gil",
			      x->holds_gil, "run_ns", (json_int_t)x->facts.run_ns);
	json_object_set_new(o, "op_ns_least",
			    x->in_op_ns ? json_integer((json_int_t)x->in_op_ns) : json_null());
	json_object_set_new(o, "args", json_args(x));
	json_object_set_new(o, "still", v->looks > 1 ? json_boolean(x->still) : json_null());
	json_object_set_new(o, "lock_holder",
			    x->wait.holder ? json_integer(x->wait.holder) : json_null());
	json_object_set_new(o, "python", json_python(v, x));
	json_object_set_new(o, "python_read", json_safe(reads[x->python_read]));
	json_object_set_new(o, "python_note", json_safe(x->python_note));
	json_object_set_new(o, "native", json_native(x));
	json_object_set_new(o, "native_whole", json_boolean(x->native_whole));
	json_object_set_new(o, "native_note", json_safe(x->native_note[0] ? x->native_note : NULL));
	return o;
}

int stack_snapshot_json(const struct stack_snapshot_view *v, FILE *f)
{
	char command[256];
	const struct err *why, *native = stack_reader_native_note(v->stack_reader);
	struct py_runtime *py = stack_reader_python(v->stack_reader, &why);
	json_t *threads = json_array();
	for (size_t i = 0; i < v->look->n; i++)
		json_array_append_new(threads, json_thread(v, &v->look->threads[i]));
	json_t *root =
	    json_pack("{s:i, s:o, s:o, s:i, s:I, s:o, s:o, s:o}", "pid", (int)v->pid, "command",
		      json_safe(process_cmdline(v->pid, command, sizeof(command))), "cpython",
		      json_safe(py ? python_version(py) : NULL), "looks", (int)v->looks, "span_ns",
		      (json_int_t)(v->look->at_ns - v->first_ns), "python_note",
		      json_safe(why->code ? why->what : NULL), "native_note",
		      json_safe(native->code ? native->what : NULL), "threads", threads);
	if (!root)
		return -ENOMEM;
	int r = json_dumpf(root, f, JSON_INDENT(2));
	putc('\n', f);
	json_decref(root);
	return r || ferror(f) ? -EIO : 0;
}
