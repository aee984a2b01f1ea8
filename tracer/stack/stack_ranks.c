/* Several processes beside each other: where each is, and which of them are not where the others
 * are. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "perf/events/print_event.h"
#include "symbolizer/python/python.h"
#include "tracer/stack/stack_snapshot.h"

/* The function of torch.distributed that the program called: of the frames of that package above
 * the program's own the outermost that is no decorator; NULL: none. */
static const char *called_collective(const struct py_stack *s)
{
	const char *name = NULL;
	for (uint16_t i = 0; s && i < s->depth && s->frames[i]->is_torch; i++)
		if (strstr(s->frames[i]->file, "torch/distributed/distributed_c10d.py"))
			name = s->frames[i]->function;
	return name;
}

/* What the process as a whole waits for: a collective in any thread, else what its main thread
 * does. */
static const struct stack_snapshot_thread *thread_of(const struct stack_snapshot_view *v)
{
	const struct stack_snapshot_thread *main = NULL;
	for (size_t i = 0; i < v->look->n; i++) {
		const struct stack_snapshot_thread *t = &v->look->threads[i];
		if (t->wait.kind == WAIT_COLLECTIVE && t->python)
			return t;
		if (t->facts.tid == v->pid)
			main = t;
	}
	for (size_t i = 0; i < v->look->n; i++)
		if (v->look->threads[i].wait.kind == WAIT_COLLECTIVE)
			return &v->look->threads[i];
	return main;
}

/* A collective that autograd's thread runs has the line at which the main thread waits for it. */
static const struct py_stack *python_of(const struct stack_snapshot_view *v,
					const struct stack_snapshot_thread *t)
{
	for (size_t i = 0; !t->python && i < v->look->n; i++)
		if (v->look->threads[i].facts.tid == v->pid)
			return v->look->threads[i].python;
	return t->python;
}

void stack_place_of(const struct stack_snapshot_view *v, struct stack_place *out)
{
	const struct err *why;
	const struct stack_snapshot_thread *t = thread_of(v);
	*out = (struct stack_place){.pid = v->pid};
	process_rank_read(v->pid, &out->rank);
	if (!t)
		return;
	const struct py_stack *python = python_of(v, t);
	const char *called = called_collective(python);
	struct py_frame where = {0};
	if (python && py_stack_where(python))
		where = *py_stack_where(python);
	struct py_runtime *py = stack_reader_python(v->stack_reader, &why);
	if (py && where.file)
		where.text = py_frame_text(py, py_stack_where(python));
	out->in_collective = t->wait.kind == WAIT_COLLECTIVE;
	if (out->in_collective)
		snprintf(out->collective, sizeof(out->collective), "%s",
			 called	      ? called
			 : t->wait.in ? t->wait.in
				      : "a collective");
	if (out->in_collective)
		snprintf(out->doing, sizeof(out->doing), "is in %s", out->collective);
	else
		wait_reason_text(&t->wait, out->doing, sizeof(out->doing));
	where_text(out->where, sizeof(out->where), where.file ? &where : NULL, NULL, 0, NULL);
}

static const char *name_of(const struct stack_place *p, char *out, size_t size)
{
	if (p->rank.rank >= 0)
		snprintf(out, size, "%d", (int)p->rank.rank);
	else
		snprintf(out, size, "-");
	return out;
}

static int print_table(const struct stack_place *p, size_t n, FILE *f, struct terminal terminal)
{
	static const char *const heads[] = {"Rank", "PID", "Doing", "Where"};
	char text[32];
	struct table *t = table_new();
	if (!t)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		table_column(t, heads[i], i < 2 ? TABLE_RIGHT : TABLE_LEFT);
	for (size_t i = 0; i < n; i++) {
		table_cell(t, name_of(&p[i], text, sizeof(text)));
		snprintf(text, sizeof(text), "%d", (int)p[i].pid);
		table_cell(t, text);
		table_cell(t, p[i].doing);
		table_cell(t, p[i].where);
	}
	int r = table_print(t, f, terminal.width, terminal.color);
	table_free(t);
	return r;
}

static void print_ranks(FILE *f, const struct stack_place *p, size_t n, const char *collective)
{
	const char *comma = "";
	for (size_t i = 0; i < n; i++) {
		const char *in = p[i].in_collective ? p[i].collective : NULL;
		if ((in == NULL) != (collective == NULL) || (in && strcmp(in, collective) != 0))
			continue;
		if (p[i].rank.rank >= 0)
			fprintf(f, "%s%d", comma, (int)p[i].rank.rank);
		else
			fprintf(f, "%spid %d", comma, (int)p[i].pid);
		comma = ", ";
	}
}

/* A line for each collective that any is in, and one for those in none. */
static void print_mismatch(const struct stack_place *p, size_t n, FILE *f)
{
	size_t waiting = 0;
	const char *first = NULL;
	bool differ = false;
	for (size_t i = 0; i < n; i++) {
		if (!p[i].in_collective)
			continue;
		differ |= first && strcmp(first, p[i].collective) != 0;
		first = first ? first : p[i].collective;
		waiting++;
	}
	if (!waiting || (waiting == n && !differ))
		return;
	fputs(differ ? "\nranks are in different collectives" : "\nnot all are in the collective",
	      f);
	for (size_t i = 0; i < n; i++) {
		bool seen = !p[i].in_collective;
		for (size_t k = 0; k < i && !seen; k++)
			seen = p[k].in_collective && !strcmp(p[k].collective, p[i].collective);
		if (seen)
			continue;
		fputs("; ", f);
		text_print_safe(f, p[i].collective);
		fputs(": ", f);
		print_ranks(f, p, n, p[i].collective);
	}
	if (waiting < n) {
		fputs("; in none: ", f);
		print_ranks(f, p, n, NULL);
	}
	putc('\n', f);
}

int stack_places_print(const struct stack_place *p, size_t n, FILE *f, struct terminal terminal)
{
	int r = print_table(p, n, f, terminal);
	if (!r)
		print_mismatch(p, n, f);
	return r ? r : ferror(f) ? -EIO : 0;
}
