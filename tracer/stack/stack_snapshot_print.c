#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "symbolizer/event/names.h"
#include "symbolizer/python/python.h"
#include "tracer/stack/internal.h"
#include "tracer/stack/stack_snapshot.h"

enum { LINE_SIZE = 4096 };

static void snapshot_row(struct table *t, const char **label, const char *place, const char *text,
			 enum table_style style)
{
	table_cell(t, *label);
	table_cell_styled(t, place, style);
	table_cell_styled(t, text, style);
	*label = "";
}

static const char *tensor_text(char *out, size_t size, const struct tensor_meta *m)
{
	char dims[1024] = "of unknown shape", device[32];
	const char *dtype = m->unknown & TENSOR_NO_DTYPE ? NULL : names_dtype(m->dtype);
	bool placed = !(m->unknown & TENSOR_NO_DEVICE);
	if (!(m->unknown & TENSOR_NO_SHAPE))
		value_dims(dims, sizeof(dims), m->shape, m->ndim);
	snprintf(
	    out, size, "%s%s%s%s%s", dims, dtype ? " " : "", dtype ? dtype : "", placed ? " " : "",
	    placed ? names_device(device, sizeof(device), m->device_type, m->device_index) : "");
	return out;
}

static void add_args(struct table *t, const struct stack_snapshot_thread *x)
{
	const char *label = "  args";
	char text[LINE_SIZE];
	if (x->in.op && !x->call.op)
		snapshot_row(t, &label, "not known", "", TABLE_DIM);
	for (unsigned i = 0; i < x->call.nargs; i++) {
		const struct value *v = &x->call.args[i];
		if (v->kind == VALUE_TENSOR)
			tensor_text(text, sizeof(text), &v->tensor->meta);
		else
			value_text(text, sizeof(text), v);
		bool known = v->kind != VALUE_NOT_DECODED;
		snapshot_row(t, &label, x->call.names[i], known ? text : "not known",
			     known ? TABLE_PLAIN : TABLE_DIM);
	}
}

static void add_python(struct table *t, const struct stack_snapshot_view *v,
		       const struct stack_snapshot_thread *x)
{
	const char *label = "  python";
	const struct err *why;
	struct py_runtime *py = stack_reader_python(v->stack_reader, &why);
	bool own = false; /* some frames are outside torch */
	char place[LINE_SIZE], text[LINE_SIZE];
	for (unsigned i = 0; x->python && i < x->python->depth; i++)
		own |= !x->python->frames[i]->is_torch;
	for (unsigned i = 0; x->python && i < x->python->depth; i++) {
		const struct py_frame *f = x->python->frames[i];
		if (f->is_torch && own && !v->all)
			continue;
		const char *line = py ? py_frame_text(py, f) : NULL;
		snprintf(place, sizeof(place), "%s:%" PRId32, text_base_name(f->file), f->line);
		snprintf(text, sizeof(text), "%s%s%s", f->function, line ? ": " : "",
			 line ? line : "");
		snapshot_row(t, &label, place, text, f->is_torch ? TABLE_DIM : TABLE_PLAIN);
	}
	if (x->python && x->python->truncated)
		snapshot_row(t, &label, "", "and more", TABLE_DIM);
	if (x->python_read == PYTHON_RUNNING)
		snapshot_row(t, &label, "", "(read while it ran)", TABLE_DIM);
	if (x->python_note)
		snapshot_row(t, &label, "", x->python_note, TABLE_DIM);
}

static void add_native(struct table *t, const struct stack_snapshot_view *v,
		       const struct stack_snapshot_thread *x)
{
	const char *label = "  native";
	char address[32], name[LINE_SIZE];
	for (unsigned i = 0; i < x->nframes; i++) {
		const struct native_frame *f = &x->frames[i];
		if (!v->all && x->python && f->file && native_file_is_python(f->file))
			continue;
		snprintf(address, sizeof(address), "%s0x%" PRIx64, f->file ? "+" : "", f->offset);
		snapshot_row(t, &label, f->file ? text_base_name(f->file) : "?",
			     f->name ? text_without_templates(name, sizeof(name), f->name)
				     : address,
			     TABLE_PLAIN);
	}
	if (x->nframes && !x->native_whole)
		snapshot_row(t, &label, "",
			     x->nframes == STACK_SNAPSHOT_FRAMES
				 ? "and more"
				 : "and more, which cannot be unwound",
			     TABLE_DIM);
	if (x->native_note[0])
		snapshot_row(t, &label, "", x->native_note, TABLE_DIM);
}

static void print_doing(FILE *f, const struct stack_snapshot_view *v,
			const struct stack_snapshot_thread *x)
{
	char text[512], span[32];
	const char *op = x->in.op ? x->in.op : "", *node = x->in.node ? x->in.node : "";
	if (*op || *node) {
		snprintf(text, sizeof(text), "in %s%s%s", op, *op && *node ? " of " : "", node);
		text_print_safe(f, text);
		if (x->in_op_ns)
			fprintf(f, " for at least %s", text_ns(span, sizeof(span), x->in_op_ns));
		fputs("; ", f);
	}
	text_print_safe(f, wait_reason_text(&x->wait, text, sizeof(text)));
	if (x->holds_gil)
		fputs("; holds the GIL", f);
	if (x->still)
		fprintf(f, "; has not moved for %s",
			text_ns(span, sizeof(span), v->look->at_ns - v->first_ns));
}

/* All that is shown of a thread except its name, from malloc; NULL without memory. */
static char *body_of(const struct stack_snapshot_view *v, const struct stack_snapshot_thread *x,
		     int width, bool color)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	struct table *t = f ? table_new() : NULL;
	int r = t ? 0 : -ENOMEM;
	if (t) {
		print_doing(f, v, x);
		putc('\n', f);
		table_column(t, "", TABLE_LEFT);
		table_column(t, "", TABLE_LEFT);
		table_column(t, "", TABLE_LEFT);
		add_args(t, x);
		add_python(t, v, x);
		add_native(t, v, x);
		r = table_print(t, f, width, color);
	}
	table_free(t);
	if (f && fclose(f))
		r = -ENOMEM;
	if (r) {
		free(text);
		return NULL;
	}
	return text;
}

static void print_name(FILE *f, const struct stack_snapshot_thread *x)
{
	fprintf(f, "%d \"", x->facts.tid);
	text_print_safe(f, x->facts.name);
	putc('"', f);
}

/* Print bodies[i] once for all threads with an equal body, and free these. */
static void print_same(FILE *f, const struct stack_snapshot_view *v, char **bodies, size_t i)
{
	enum { NAMED = 8 };
	size_t same = 0, n = v->look->n;
	for (size_t k = i; k < n; k++)
		same += bodies[k] && !strcmp(bodies[i], bodies[k]);
	fprintf(f, "\nthread%s ", same > 1 ? "s" : "");
	char *body = bodies[i];
	bodies[i] = NULL;
	print_name(f, &v->look->threads[i]);
	size_t shown = 1;
	for (size_t k = i + 1; k < n; k++) {
		if (!bodies[k] || strcmp(body, bodies[k]))
			continue;
		if (shown < NAMED) {
			fputs(", ", f);
			print_name(f, &v->look->threads[k]);
		}
		shown++;
		free(bodies[k]);
		bodies[k] = NULL;
	}
	if (shown > NAMED)
		fprintf(f, " and %zu more", shown - NAMED);
	fprintf(f, "%s %s", same > 1 ? ": each" : ":", body);
	free(body);
}

static void print_head(FILE *f, const struct stack_snapshot_view *v, int width)
{
	char command[256], threads[32], span[32], rest[160], pid[32];
	const struct err *why, *native = stack_reader_native_note(v->stack_reader);
	struct py_runtime *py = stack_reader_python(v->stack_reader, &why);
	size_t still = 0;
	for (size_t i = 0; i < v->look->n; i++)
		still += v->look->threads[i].still;
	snprintf(pid, sizeof(pid), "pid %d ", v->pid);
	snprintf(rest, sizeof(rest), ", %s%s, %s", py ? "CPython " : "no Python",
		 py ? python_version(py) : "",
		 text_counted(threads, sizeof(threads), v->look->n, "thread"));
	fputs(pid, f);
	text_print_end(f, process_cmdline(v->pid, command, sizeof(command)), (size_t)width,
		       strlen(pid) + strlen(rest));
	fputs(rest, f);
	if (v->looks > 1)
		fprintf(f, ", %zu of them %s not moved in %u looks, %s", still,
			still == 1 ? "has" : "have", v->looks,
			text_ns(span, sizeof(span), v->look->at_ns - v->first_ns));
	putc('\n', f);
	if (why->code) {
		fputs("no Python stacks: ", f);
		text_print_safe(f, why->what);
		putc('\n', f);
	}
	if (v->native && native->code) {
		fputs("no native stacks: ", f);
		text_print_safe(f, native->what);
		putc('\n', f);
	}
}

int stack_snapshot_print(const struct stack_snapshot_view *v, FILE *f)
{
	const struct terminal term = terminal_of(f);
	char **bodies = calloc(v->look->n, sizeof(*bodies));
	int r = bodies ? 0 : -ENOMEM;
	for (size_t i = 0; !r && i < v->look->n; i++) {
		bodies[i] = body_of(v, &v->look->threads[i], term.width, term.color);
		r = bodies[i] ? 0 : -ENOMEM;
	}
	if (!r)
		print_head(f, v, term.width);
	for (size_t i = 0; bodies && i < v->look->n; i++) {
		if (!r && bodies[i])
			print_same(f, v, bodies, i);
		free(bodies[i]);
	}
	free(bodies);
	return r ? r : ferror(f) ? -EIO : 0;
}

/* As JSON. */

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
