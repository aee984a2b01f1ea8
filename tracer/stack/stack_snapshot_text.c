#define _GNU_SOURCE

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "symbolizer/event/names.h"
#include "symbolizer/python/python.h"
#include "tracer/stack/stack_snapshot.h"

enum { LINE_SIZE = 4096 };

static void row(struct table *t, const char **label, const char *place, const char *text,
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
		row(t, &label, "not known", "", TABLE_DIM);
	for (unsigned i = 0; i < x->call.nargs; i++) {
		const struct value *v = &x->call.args[i];
		if (v->kind == VALUE_TENSOR)
			tensor_text(text, sizeof(text), &v->tensor->meta);
		else
			value_text(text, sizeof(text), v);
		bool known = v->kind != VALUE_NOT_DECODED;
		row(t, &label, x->call.names[i], known ? text : "not known",
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
		row(t, &label, place, text, f->is_torch ? TABLE_DIM : TABLE_PLAIN);
	}
	if (x->python && x->python->truncated)
		row(t, &label, "", "and more", TABLE_DIM);
	if (x->python_read == PYTHON_RUNNING)
		row(t, &label, "", "(read while it ran)", TABLE_DIM);
	if (x->python_note)
		row(t, &label, "", x->python_note, TABLE_DIM);
}

/* The interpreter's frames, which only repeat the Python frames. */
static bool is_interpreter(const struct native_frame *f)
{
	const char *name = f->file ? text_base_name(f->file) : "";
	return !strncmp(name, "libpython", 9) ||
	       (!strncmp(name, "python", 6) && !strstr(name, ".so"));
}

static void add_native(struct table *t, const struct stack_snapshot_view *v,
		       const struct stack_snapshot_thread *x)
{
	const char *label = "  native";
	char address[32], name[LINE_SIZE];
	for (unsigned i = 0; i < x->nframes; i++) {
		const struct native_frame *f = &x->frames[i];
		if (!v->all && x->python && is_interpreter(f))
			continue;
		snprintf(address, sizeof(address), "%s0x%" PRIx64, f->file ? "+" : "", f->offset);
		row(t, &label, f->file ? text_base_name(f->file) : "?",
		    f->name ? text_without_templates(name, sizeof(name), f->name) : address,
		    TABLE_PLAIN);
	}
	if (x->nframes && !x->native_whole)
		row(t, &label, "",
		    x->nframes == STACK_SNAPSHOT_FRAMES ? "and more"
							: "and more, which cannot be unwound",
		    TABLE_DIM);
	if (x->native_note[0])
		row(t, &label, "", x->native_note, TABLE_DIM);
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

static void print_head(FILE *f, const struct stack_snapshot_view *v)
{
	char command[256], threads[32], span[32];
	const struct err *why, *native = stack_reader_native_note(v->stack_reader);
	struct py_runtime *py = stack_reader_python(v->stack_reader, &why);
	size_t still = 0;
	for (size_t i = 0; i < v->look->n; i++)
		still += v->look->threads[i].still;
	fprintf(f, "pid %d ", v->pid);
	text_print_safe(f, process_cmdline(v->pid, command, sizeof(command)));
	fprintf(f, ", %s%s, %s", py ? "CPython " : "no Python", py ? python_version(py) : "",
		text_counted(threads, sizeof(threads), v->look->n, "thread"));
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
		print_head(f, v);
	for (size_t i = 0; bodies && i < v->look->n; i++) {
		if (!r && bodies[i])
			print_same(f, v, bodies, i);
		free(bodies[i]);
	}
	free(bodies);
	return r ? r : ferror(f) ? -EIO : 0;
}
