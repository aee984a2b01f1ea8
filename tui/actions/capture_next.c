#define _GNU_SOURCE

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/text.h"
#include "tui/actions/actions.h"

void capture_what_free(struct capture_what *w)
{
	free(w->ops);
	free(w->when);
	*w = (struct capture_what){0};
}

static const char *phase_name(const struct aggregate_row *s)
{
	return op_phase_names[s->phase];
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

/* The --when condition of a row of one op. */
static void put_condition(FILE *f, enum grouping_by group, const struct aggregate_row *s,
			  const struct op_event *last)
{
	unsigned tensors = 0;
	/* A tracer that starts now does not know the lines of forward ops called before. */
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

static void say_forward(struct top *t, const struct grouping_row *row, const char *op)
{
	uint32_t ids[VIEW_LINKS];
	size_t n;
	struct grouping_row *const *rows = view_all(t->view, GROUPING_OP_LINE, &n);
	bool linked = view_group(t->view) == GROUPING_OP_LINE &&
		      view_forwards(t->view, row->id, ids) && ids[0] < n && rows[ids[0]]->sum;
	if (!linked) {
		top_say(t, "%s is no op that a program calls: choose one of the forward", op);
		return;
	}
	top_jump(t, ids[0]);
	top_say(t, "%s is no op that a program calls: its forward op %s is selected now", op,
		rows[ids[0]]->sum->op);
}

bool capture_row_op(struct top *t, const struct grouping_row *row, struct op_event *last)
{
	if (!row->last.size || player_decode(t->player, &row->last, last, NULL)) {
		top_say(t, "the op of this row is unknown");
		return false;
	}
	if (last->op->kind == OP_DISPATCHED)
		return true;
	say_forward(t, row, last->op->name);
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

/* List the ops seen at a line, so that no others need probes. */
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

static void say_forward_line(struct top *t, const struct aggregate_row *backward)
{
	size_t n, i = 0;
	struct grouping_row *const *rows = view_all(t->view, GROUPING_LINE, &n);
	for (; i < n; i++) {
		const struct aggregate_row *s = rows[i]->sum;
		if (s && s->file && s->phase == PHASE_FORWARD && s->line == backward->line &&
		    !strcmp(s->file, backward->file))
			break;
	}
	if (i < n)
		top_jump(t, (uint32_t)i);
	top_say(t, "the backward of this line belongs to its forward calls: %s",
		i < n ? "their row is selected now" : "choose the row of these");
}

static bool one_line(struct top *t, const struct aggregate_row *s, struct capture_what *out)
{
	size_t size;
	if (!s->file) {
		top_say(t, "these calls have no line: g groups by op");
		return false;
	}
	if (s->phase == PHASE_BACKWARD) {
		say_forward_line(t, s);
		return false;
	}
	FILE *f = open_memstream(&out->ops, &size);
	bool some = f && put_ops(f, t->view, s);
	if (!f || fclose(f))
		return no_memory(t);
	if (!some) {
		top_say(t, "the ops of this line are unknown");
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
	if (!row->last.size || player_decode(t->player, &row->last, &last, NULL)) {
		top_say(t, "the thread of this row is unknown");
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
		top_say(t, "this row is of all calls that did not fit into the table");
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

static int make_folder(char *dir, size_t size, pid_t pid, struct err *e)
{
	int r = -EEXIST;
	for (int i = 1; i < 1000 && r == -EEXIST; i++) {
		snprintf(dir, size, i > 1 ? "ditrace-top-%d-capture-%d" : "ditrace-top-%d-capture",
			 (int)pid, i);
		r = folder_new(dir, e);
	}
	return r;
}

void capture_next_begin(struct capture_next *c, struct top *t, pid_t pid, struct capture_what *what,
			int engine)
{
	struct err e = {0};
	if (c->phase != CAPTURE_NONE) {
		top_say(t, "still waiting for a call of %s; u stops that", c->what.text);
		capture_what_free(what);
		return;
	}
	capture_what_free(&c->what);
	*c = (struct capture_next){.o.pid = pid, .what = *what};
	int r = make_folder(c->dir, sizeof(c->dir), pid, &e);
	if (r) {
		top_say(t, "%s", e.what);
		return;
	}
	/* Not `nth 1`: the first call may come before calls can be decoded. Select all, stop after
	 * one. */
	c->o.session = (struct session_opts){
	    .ops = c->what.ops,
	    .when = c->what.when,
	    .depth = SESSION_ALL_LEVELS,
	    .quiet = true,
	    .engine = engine,
	    .capture = {.dir = c->dir, .nth = "1-", .max_calls = 1},
	};
	r = background_start(&c->o, &c->background, &e);
	if (r) {
		rmdir(c->dir);
		top_say(t, "%s", e.what);
		return;
	}
	c->phase = CAPTURE_BEGINS;
	top_say(t, "waiting for the next call of %s, to capture it into %s; u stops that",
		c->what.text, c->dir);
}

static void listen(struct capture_next *c)
{
	char line[TOP_MESSAGE_MAX];
	while (background_message(&c->background, line, sizeof(line))) {
		bool saved = !strncmp(line, "ditrace: saved ", 15);
		c->files += saved;
		if (!saved && !strncmp(line, "ditrace: ", 9) &&
		    strncmp(line, "ditrace: captured ", 18) != 0)
			snprintf(c->last, sizeof(c->last), "%s", line + 9);
	}
}

static void capture_next_say(struct capture_next *c, struct top *t, bool asked)
{
	if (c->files) {
		undo_made(&t->undo, c->dir);
		top_say(t, "captured a call of %s in %s (%u files); u removes it", c->what.text,
			c->dir, c->files);
		return;
	}
	rmdir(c->dir);
	if (asked)
		top_say(t, "no longer waiting for a call of %s", c->what.text);
	else
		top_say(t, "no call of %s was captured%s%s", c->what.text, c->last[0] ? ": " : "",
			c->last);
}

void capture_next_tick(struct capture_next *c, struct top *t)
{
	struct err e = {0};
	if (c->phase == CAPTURE_NONE)
		return;
	int r = background_ready(&c->background, false, &e);
	if (r < 0) {
		rmdir(c->dir);
		if (c->phase != CAPTURE_STOPS)
			top_say(t, "cannot capture: %s", e.what);
		c->phase = CAPTURE_NONE;
		return;
	}
	listen(c);
	if (r && c->phase == CAPTURE_BEGINS)
		c->phase = CAPTURE_WAITS;
	if (!background_ended(&c->background, false))
		return;
	listen(c);
	background_free(&c->background);
	bool asked = c->phase == CAPTURE_STOPS;
	c->phase = CAPTURE_NONE;
	capture_next_say(c, t, asked);
}

bool capture_next_stop(struct capture_next *c, struct top *t)
{
	if (c->phase == CAPTURE_NONE)
		return false;
	background_stop(&c->background);
	c->phase = CAPTURE_STOPS;
	top_say(t, "no longer waiting for a call of %s", c->what.text);
	return true;
}

void capture_next_close(struct capture_next *c)
{
	if (c->phase != CAPTURE_NONE) {
		background_stop(&c->background);
		background_ended(&c->background, true);
		listen(c);
		background_free(&c->background);
		if (!c->files)
			rmdir(c->dir);
		c->phase = CAPTURE_NONE;
	}
	capture_what_free(&c->what);
}
