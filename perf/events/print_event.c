#include "perf/events/print_event.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "symbolizer/event/names.h"

const char *where_unknown(const char *op, int phase)
{
	if (op && op_accumulates(op))
		return "(gradient accumulation)";
	return phase == PHASE_BACKWARD ? "(forward op not known)" : "(no Python frame)";
}

const char *place_text(char *out, size_t size, const char *file, int32_t line,
		       const struct file_names *files)
{
	const char *name = file_names_short(files, file);
	if (line)
		snprintf(out, size, "%s:%" PRId32, name, line);
	else
		snprintf(out, size, "%s", name);
	return out;
}

const char *parameter_text(char *out, size_t size, const char *parameter)
{
	snprintf(out, size, "gradient accumulation of %s", parameter);
	return out;
}

const char *where_text(char *out, size_t size, const struct py_frame *frame, const char *op,
		       int phase, const struct file_names *files)
{
	char place[PLACE_MAX];
	if (!frame)
		snprintf(out, size, "%s", where_unknown(op, phase));
	else
		snprintf(out, size, "%s %s%s%s",
			 place_text(place, sizeof(place), frame->file, frame->line, files),
			 frame->function, frame->text ? ": " : "", frame->text ? frame->text : "");
	return out;
}

const char *event_where_text(char *out, size_t size, const struct op_event *ev)
{
	const char *parameter = py_stack_parameter(ev->where_stack);
	return parameter ? parameter_text(out, size, parameter)
			 : where_text(out, size, py_stack_where(ev->where_stack), ev->op->name,
				      ev->phase, NULL);
}

enum { CELL_MAX = 1024 };

struct event_printer {
	FILE *f;
	struct table *table;
	int width;	      /* of the terminal; 0: none */
	bool tensors, values; /* which columns the table of this event has */
};

struct event_printer *event_printer_new(FILE *f)
{
	struct event_printer *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->f = f;
	p->width = terminal_of(f).width;
	p->table = table_new();
	if (p->table)
		return p;
	free(p);
	return NULL;
}

void event_printer_free(struct event_printer *p)
{
	if (!p)
		return;
	table_free(p->table);
	free(p);
}

static void look_at(struct event_printer *p, const struct value *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (v[i].kind == VALUE_TENSOR)
			p->tensors = true;
		else if (value_has_tensor(&v[i]))
			look_at(p, v[i].items, v[i].count);
		else
			p->values = true;
	}
}

static void add_columns(struct event_printer *p)
{
	static const struct {
		const char *name;
		int order;
	} of_tensor[] = {{"device", 3}, {"dtype", 0},	      {"numel", 4},  {"shape", 0},
			 {"stride", 5}, {"requires_grad", 6}, {"layout", 8}, {"data_ptr", 9}};
	table_column(p->table, "name", TABLE_CENTER);
	for (size_t i = 0; p->tensors && i < sizeof(of_tensor) / sizeof(of_tensor[0]); i++)
		table_column_optional(p->table, of_tensor[i].name, TABLE_CENTER,
				      of_tensor[i].order);
	if (p->values)
		table_column(p->table, "value", TABLE_CENTER);
}

static void cell_if(struct event_printer *p, bool unknown, const char *text)
{
	table_cell(p->table, unknown ? "?" : text);
}

/* "torch.strided", or the code when it has no name. */
static const char *with_torch(char *out, size_t size, const char *name, int code)
{
	if (name)
		snprintf(out, size, "torch.%s", name);
	else
		snprintf(out, size, "code %d", code);
	return out;
}

static void add_tensor_cells(struct event_printer *p, const struct tensor *t)
{
	const struct tensor_meta *m = &t->meta;
	char text[CELL_MAX];
	const char *dtype = names_dtype(m->dtype);
	cell_if(p, m->unknown & TENSOR_NO_DEVICE,
		names_device(text, sizeof(text), m->device_type, m->device_index));
	snprintf(text, sizeof(text), "code %d", m->dtype);
	cell_if(p, m->unknown & TENSOR_NO_DTYPE, dtype ? dtype : text);
	snprintf(text, sizeof(text), "%" PRId64, m->numel);
	cell_if(p, m->unknown & TENSOR_NO_SHAPE, text);
	cell_if(p, m->unknown & TENSOR_NO_SHAPE,
		m->unknown & TENSOR_NO_SHAPE ? ""
					     : value_dims(text, sizeof(text), m->shape, m->ndim));
	cell_if(p, m->unknown & TENSOR_NO_STRIDE,
		m->unknown & TENSOR_NO_STRIDE ? ""
					      : value_dims(text, sizeof(text), m->stride, m->ndim));
	cell_if(p, m->unknown & TENSOR_NO_REQUIRES_GRAD, m->requires_grad ? "True" : "False");
	cell_if(p, m->unknown & TENSOR_NO_LAYOUT,
		with_torch(text, sizeof(text), names_layout(m->layout), m->layout));
	snprintf(text, sizeof(text), "%" PRIu64, t->data_ptr);
	cell_if(p, m->unknown & TENSOR_NO_DATA_PTR, text);
}

static void add_row(const struct event_row *row, void *arg)
{
	enum { TENSOR_COLUMNS = 8 };
	struct event_printer *p = arg;
	const struct value *v = row->value;
	char text[CELL_MAX];
	table_cell(p->table, row->name);
	if (v->kind == VALUE_TENSOR)
		add_tensor_cells(p, v->tensor);
	else
		for (int i = 0; p->tensors && i < TENSOR_COLUMNS; i++)
			table_cell(p->table, "");
	if (p->values)
		table_cell(p->table,
			   v->kind == VALUE_TENSOR ? "" : value_text(text, sizeof(text), v));
}

/* whole: the whole path of its file. */
static void print_frame(FILE *f, const struct py_frame *where, bool whole)
{
	text_print_safe(f, whole ? where->file : text_base_name(where->file));
	fprintf(f, ":%" PRId32 " ", where->line);
	text_print_safe(f, where->function);
	if (where->text) {
		fputs(": ", f);
		text_print_safe(f, where->text);
	}
}

static void print_where(FILE *f, const struct op_event *ev, bool whole)
{
	const struct py_frame *where = py_stack_where(ev->where_stack);
	const struct py_frame *of = py_stack_where(ev->backward_of);
	char text[WHERE_TEXT_MAX];
	fputs("    ", f);
	if (where)
		print_frame(f, where, whole);
	else if (py_stack_parameter(ev->where_stack))
		text_print_safe(f, event_where_text(text, sizeof(text), ev));
	else
		fputs(where_unknown(ev->op->name, ev->phase), f);
	if (!of)
		return;
	fputs("    in backward of ", f);
	print_frame(f, of, whole);
}

static void print_frame_line(FILE *f, const struct py_frame *at, bool whole)
{
	fputs("    called by ", f);
	if (at->line) {
		print_frame(f, at, whole);
	} else {
		text_print_safe(f, whole ? at->file : text_base_name(at->file));
		putc(' ', f);
		text_print_safe(f, at->function);
	}
	putc('\n', f);
}

static void print_head(FILE *f, const struct op_event *ev, bool whole)
{
	char time[32];
	text_print_safe(f, op_text(ev->op->name));
	if (ev->phase == PHASE_FORWARD)
		fprintf(f, "    forward_id:%" PRIu64, ev->id);
	else if (ev->forward_id)
		fprintf(f, "    %s id:%" PRIu64 " forward_id:%" PRIu64, op_phase_names[ev->phase],
			ev->id, ev->forward_id);
	else
		fprintf(f, "    %s id:%" PRIu64 " forward_id:unknown", op_phase_names[ev->phase],
			ev->id);
	if (ev->end_ns >= ev->start_ns && ev->end_ns)
		fprintf(f, "    %s", text_ns(time, sizeof(time), ev->end_ns - ev->start_ns));
	else
		fputs("    had not ended", f);
	if (ev->thrown)
		fputs(", thrown", f);
	print_where(f, ev, whole);
	putc('\n', f);
	for (uint16_t i = 0; ev->native && i < ev->native->depth; i++)
		print_frame_line(f, ev->native->frames[i], whole);
}

/* On a terminal each in one line of it. 0 or -ENOMEM. */
static int print_head_lines(const struct event_printer *p, const struct op_event *ev)
{
	char *text = NULL, *rest;
	size_t len;
	if (!p->width) {
		print_head(p->f, ev, true);
		return 0;
	}
	FILE *f = open_memstream(&text, &len);
	if (!f)
		return -ENOMEM;
	print_head(f, ev, false);
	if (fclose(f)) {
		free(text);
		return -ENOMEM;
	}
	rest = text;
	for (char *line; (line = strsep(&rest, "\n")) && rest; putc('\n', p->f))
		text_print_cut(p->f, line, (size_t)p->width);
	free(text);
	return 0;
}

int event_print(struct event_printer *p, const struct op_event *ev)
{
	p->tensors = p->values = false;
	errno = 0;
	look_at(p, ev->args, ev->nargs);
	look_at(p, ev->results, ev->nresults);
	table_reset(p->table);
	add_columns(p);
	event_rows(ev, add_row, p);
	if (print_head_lines(p, ev))
		return -ENOMEM;
	if (p->tensors || p->values) {
		if (table_print_boxed(p->table, p->f, p->width) == -ENOMEM)
			return -ENOMEM;
	}
	if (ev->stats && stats_print(p->table, p->f, ev, p->width) == -ENOMEM)
		return -ENOMEM;
	putc('\n', p->f);
	return ferror(p->f) ? (errno == EPIPE ? -EPIPE : -EIO) : 0;
}

const char *const activity_kind_names[ACTIVITY_KINDS] = {
    [ACTIVITY_KERNEL] = "kernel", [ACTIVITY_COPY] = "copy", [ACTIVITY_SET] = "set"};

const char *const activity_launch_names[] = {[LAUNCH_IN_OP] = "op",
					     [LAUNCH_IN_NO_OP] = "no op",
					     [LAUNCH_UNKNOWN] = "op not known",
					     [LAUNCH_NO_THREAD] = "not known"};

static void print_moment(FILE *f, uint64_t ns, uint64_t origin_ns)
{
	ns = ns > origin_ns ? ns - origin_ns : 0;
	fprintf(f, "%" PRIu64 ".%06" PRIu64 " s", ns / 1000000000, ns % 1000000000 / 1000);
}

/* During which op it was done or launched. */
static void print_op(FILE *f, const struct op_event *of, enum activity_launch launch)
{
	if (launch != LAUNCH_IN_OP) {
		fputs(launch == LAUNCH_IN_NO_OP ? " in no op" : ", op not known", f);
		return;
	}
	fputs(" by ", f);
	text_print_safe(f, op_text(of->op->name));
	if (of->phase != PHASE_FORWARD)
		fprintf(f, " (%s)", op_phase_names[of->phase]);
	if (of->id)
		fprintf(f, " id:%" PRIu64, of->id);
	print_where(f, of, true);
}

static void print_launch(FILE *f, const struct activity *a)
{
	char delay[32];
	if (a->launch == LAUNCH_NO_THREAD) {
		fputs("  launch not known", f);
		return;
	}
	fputs("  launched", f);
	if (a->launched_ns && a->launched_ns <= a->of.start_ns)
		fprintf(f, " %s before",
			text_ns(delay, sizeof(delay), a->of.start_ns - a->launched_ns));
	print_op(f, &a->of, a->launch);
}

void activity_print(FILE *f, const struct activity *a, uint64_t origin_ns)
{
	char text[32];
	print_moment(f, a->of.start_ns, origin_ns);
	fprintf(f, "  %s stream %" PRIu32,
		names_device(text, sizeof(text), a->device_type, a->device_index), a->stream);
	fprintf(f, "  %s  ", text_ns(text, sizeof(text), a->of.end_ns - a->of.start_ns));
	text_print_safe(f, a->name);
	if (a->kind != ACTIVITY_KERNEL)
		fprintf(f, "  %s", text_bytes(text, sizeof(text), a->bytes));
	if (a->in_graph)
		fputs("  in a graph", f);
	print_launch(f, a);
}

void memory_print(FILE *f, const struct memory_event *m, uint64_t origin_ns)
{
	char text[32];
	print_moment(f, m->of.start_ns, origin_ns);
	fprintf(f, "  %" PRId32 "/%" PRId32 "  %s  ", m->of.pid, m->of.tid,
		names_device(text, sizeof(text), m->device_type, m->device_index));
	fprintf(f, "%s %s at %#" PRIx64,
		m->bytes ? text_bytes(text, sizeof(text), m->bytes) : "a block of unknown size",
		m->freed ? "freed" : "allocated", m->address);
	fprintf(f, ", now %s", text_bytes(text, sizeof(text), m->total));
	if (m->reserved)
		fprintf(f, " of %s reserved", text_bytes(text, sizeof(text), m->reserved));
	if (m->launch == LAUNCH_IN_OP || m->launch == LAUNCH_IN_NO_OP)
		putc(' ', f);
	print_op(f, &m->of, m->launch);
}

static void print_stack(FILE *f, const struct py_stack *s)
{
	for (uint16_t i = 0; s && i < s->depth; i++) {
		const struct py_frame *x = s->frames[i];
		fputs("    ", f);
		text_print_safe(f, x->function);
		fputs("  (", f);
		text_print_safe(f, text_base_name(x->file));
		if (x->line)
			fprintf(f, ":%" PRId32, x->line);
		fputs(")\n", f);
	}
	if (s && s->truncated)
		fputs("    ...\n", f);
}

void sample_print(FILE *f, const struct sample *s, uint64_t origin_ns)
{
	print_moment(f, s->time_ns, origin_ns);
	fprintf(f, "  %" PRId32 "/%" PRId32 "  ", s->pid, s->tid);
	text_print_safe(f, sample_op_name(s));
	if (s->phase != PHASE_FORWARD)
		fprintf(f, "  (%s)", op_phase_names[s->phase]);
	putc('\n', f);
	print_stack(f, s->native);
	print_stack(f, s->python);
	if (s->mismatched)
		fputs("    (Python frames not read: it moved on)\n", f);
}

void sample_json_stack(struct json_out *j, const char *key, const struct py_stack *s)
{
	json_open(j, key, '[');
	for (uint16_t i = 0; s && i < s->depth; i++) {
		json_open(j, NULL, '{');
		json_text(j, "file", s->frames[i]->file);
		json_i64(j, "line", s->frames[i]->line);
		json_text(j, "function", s->frames[i]->function);
		json_close(j, '}');
	}
	json_close(j, ']');
}

void sample_json(FILE *f, const struct sample *s)
{
	struct json_out j = {.f = f};
	json_open(&j, NULL, '{');
	json_bool(&j, "sample", true);
	json_u64(&j, "time_ns", s->time_ns);
	json_i64(&j, "pid", s->pid);
	json_i64(&j, "tid", s->tid);
	json_u64(&j, "weight", s->weight);
	json_text(&j, "op", s->op ? s->op->name : NULL);
	json_text(&j, "phase", op_phase_names[s->phase]);
	json_bool(&j, "in_kernel", s->in_kernel);
	json_bool(&j, "mismatched", s->mismatched);
	sample_json_stack(&j, "python", s->python);
	sample_json_stack(&j, "native", s->native);
	json_close(&j, '}');
}
