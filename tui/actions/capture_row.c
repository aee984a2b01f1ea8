#define _GNU_SOURCE
#include "tui/actions/capture_row.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void capture_what_free(struct capture_what *w)
{
	free(w->ops);
	free(w->when);
	*w = (struct capture_what){0};
}

static const char *phase_name(const struct aggregate_row *s)
{
	return s->phase == PHASE_BACKWARD ? "backward" : "forward";
}

static void put_string(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', f);
		fputc(*s, f);
	}
	fputc('"', f);
}

static void put_line(FILE *f, const struct aggregate_row *s)
{
	fprintf(f, "phase == %s and line == %" PRId32 " and file == ", phase_name(s), s->line);
	put_string(f, s->file);
}

static void put_shape(FILE *f, const struct tensor_meta *m, unsigned *n)
{
	if (!(m->unknown & TENSOR_NO_SHAPE)) {
		fprintf(f, " and inputs[%u].shape == [", *n);
		for (unsigned i = 0; i < m->ndim; i++)
			fprintf(f, "%s%" PRId64, i ? ", " : "", m->shape[i]);
		fputc(']', f);
	}
	++*n;
}

static void put_shapes(FILE *f, const struct value *v, uint32_t n, unsigned *tensors)
{
	for (uint32_t i = 0; i < n; i++) {
		if (v[i].kind == VALUE_LIST)
			put_shapes(f, v[i].items, v[i].count, tensors);
		else if (v[i].kind == VALUE_TENSOR)
			put_shape(f, &v[i].tensor->meta, tensors);
	}
}

/* The condition for a row of one op. */
static void put_condition(FILE *f, enum grouping_by group, const struct aggregate_row *s,
			  const struct op_event *last)
{
	unsigned tensors = 0;
	/* The line of the forward is not known to a tracing that began after it. */
	if (group == GROUPING_OP_LINE && s->file && s->phase != PHASE_BACKWARD) {
		put_line(f, s);
	} else if (group == GROUPING_SHAPE) {
		fprintf(f, "phase == %s", phase_name(s));
		put_shapes(f, last->args, last->nargs, &tensors);
		fprintf(f, " and len(inputs) == %u", tensors);
	} else {
		fprintf(f, "phase == %s", phase_name(s));
	}
}

static bool no_memory(struct top *t)
{
	top_say(t, "no memory");
	return false;
}

bool capture_row_op(struct top *t, const struct grouping_row *row, struct op_event *last)
{
	if (!row->last.size || source_decode(t->source, &row->last, last, NULL)) {
		top_say(t, "which op this row is of is not known");
		return false;
	}
	if (last->op->kind == OP_DISPATCHED)
		return true;
	top_say(t, "%s is no op that a program calls: choose one of the forward", last->op->name);
	return false;
}

static bool one_op(struct top *t, enum grouping_by group, const struct grouping_row *row,
		   struct capture_what *out)
{
	struct op_event last;
	const struct aggregate_row *s = row->sum;
	size_t size;
	if (!capture_row_op(t, row, &last))
		return false;
	FILE *f = open_memstream(&out->when, &size);
	if (!f)
		return no_memory(t);
	put_condition(f, group, s, &last);
	if (fclose(f) || !(out->ops = strdup(last.op->name)))
		return no_memory(t);
	snprintf(out->text, sizeof(out->text), "%s",
		 group == GROUPING_SHAPE ? s->op : last.op->name);
	if (s->phase == PHASE_BACKWARD)
		snprintf(out->text, sizeof(out->text), "%s in the backward", last.op->name);
	else if (s->file)
		snprintf(out->text, sizeof(out->text), "%s at %s:%" PRId32, last.op->name,
			 text_base_name(s->file), s->line);
	return true;
}

/* The ops that were seen at a line, which alone need be looked at. */
static bool put_ops(FILE *f, const struct view *v, const struct aggregate_row *line)
{
	size_t n;
	bool some = false;
	struct grouping_row *const *rows = view_all(v, GROUPING_OP_LINE, &n);
	for (size_t i = 0; i < n; i++) {
		const struct aggregate_row *s = rows[i]->sum;
		if (!s || !s->file || s->phase != line->phase || s->line != line->line ||
		    strcmp(s->file, line->file) != 0)
			continue;
		fprintf(f, "%s%s", some ? "," : "", s->op);
		some = true;
	}
	return some;
}

static bool one_line(struct top *t, const struct aggregate_row *s, struct capture_what *out)
{
	size_t size;
	if (!s->file) {
		top_say(t, "these calls have no line: g groups by op");
		return false;
	}
	if (s->phase == PHASE_BACKWARD) {
		top_say(t, "the backward of this line belongs to its forward calls: choose the row "
			   "of these");
		return false;
	}
	FILE *f = open_memstream(&out->ops, &size);
	bool some = f && put_ops(f, t->view, s);
	if (!f || fclose(f))
		return no_memory(t);
	if (!some) {
		top_say(t, "which ops this line calls is not known");
		return false;
	}
	f = open_memstream(&out->when, &size);
	if (!f)
		return no_memory(t);
	put_line(f, s);
	if (fclose(f))
		return no_memory(t);
	snprintf(out->text, sizeof(out->text), "an op at %s:%" PRId32, text_base_name(s->file),
		 s->line);
	return true;
}

static bool one_thread(struct top *t, const struct grouping_row *row, struct capture_what *out)
{
	struct op_event last;
	if (!row->last.size || source_decode(t->source, &row->last, &last, NULL)) {
		top_say(t, "which thread this row is of is not known");
		return false;
	}
	if (asprintf(&out->when, "thread == %" PRId32, last.tid) < 0) {
		out->when = NULL;
		return no_memory(t);
	}
	snprintf(out->text, sizeof(out->text), "an op in thread %" PRId32, last.tid);
	return true;
}

bool capture_row(struct top *t, const struct grouping_row *row, struct capture_what *out)
{
	enum grouping_by group = view_group(t->view);
	*out = (struct capture_what){0};
	if (!strcmp(row->sum->op, "(other)")) {
		top_say(t, "this row is of all that found no room in the table");
		return false;
	}
	switch (group) {
	case GROUPING_LINE:
		return one_line(t, row->sum, out);
	case GROUPING_THREAD:
		return one_thread(t, row, out);
	case GROUPING_MODULE:
		top_say(t, "calls cannot be chosen by their module: g groups by op or line");
		return false;
	default:
		return one_op(t, group, row, out);
	}
}
