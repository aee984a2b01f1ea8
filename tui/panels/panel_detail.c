/* What stands in place of the table: the details of a row, or the help. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "perf/events/print_event.h"
#include "tui/model/top.h"
#include "tui/screen/screen.h"

enum { BARS = 48, RELATED_MAX = 10 };

/* Whether a row of another grouping belongs to the one shown. */
typedef bool related_fn(const struct aggregate_row *r, const void *arg);

static void title(struct lines *l, const char *text)
{
	lines_add(l, STYLE_PLAIN, "%s", "");
	lines_add(l, STYLE_BOLD, "%s", text);
}

static void add_row(struct lines *l, const struct aggregate_row *s, bool with_op, bool with_where)
{
	char calls[32], mean[32], p99[32], total[32], where[WHERE_TEXT_MAX];
	lines_add(l, STYLE_PLAIN, "  %12s calls %9s mean %9s p99 %9s in all  %s%s%s",
		  text_count(calls, sizeof(calls), s->calls),
		  text_ns(mean, sizeof(mean), s->calls ? s->sum_ns / s->calls : 0),
		  aggregate_has_quantiles(s)
		      ? text_ns(p99, sizeof(p99), aggregate_quantile(s, 0.99))
		      : "-",
		  text_ns(total, sizeof(total), s->total_ns), with_op ? s->op : "",
		  with_op && with_where ? "  " : "",
		  with_where ? report_where_text(where, sizeof(where), s, NULL) : "");
}

static int by_self(const void *a, const void *b)
{
	const struct aggregate_row *x = *(const struct aggregate_row *const *)a;
	const struct aggregate_row *y = *(const struct aggregate_row *const *)b;
	return (x->self_ns < y->self_ns) - (x->self_ns > y->self_ns);
}

static void add_related(struct top *t, enum grouping_by group, related_fn *is_related,
			const void *arg, const char *name, bool with_op)
{
	size_t n, found = 0;
	char more[32];
	struct grouping_row *const *rows = view_all(t->view, group, &n);
	const struct aggregate_row **list = calloc(n + 1, sizeof(*list));
	if (!list) {
		t->lines.failed = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (rows[i]->sum && is_related(rows[i]->sum, arg))
			list[found++] = rows[i]->sum;
	qsort(list, found, sizeof(*list), by_self);
	if (found)
		title(&t->lines, name);
	for (size_t i = 0; i < found && i < RELATED_MAX; i++)
		add_row(&t->lines, list[i], with_op, group == GROUPING_OP_LINE);
	if (found > RELATED_MAX)
		lines_add(&t->lines, STYLE_DIM, "  and %s",
			  text_counted(more, sizeof(more), found - RELATED_MAX, "more row"));
	free(list);
}

struct op_name {
	const char *name;
	uint8_t phase;
};

static bool has_op(const struct aggregate_row *r, const void *arg)
{
	const struct op_name *op = arg;
	return r->phase == op->phase && !strcmp(r->op, op->name);
}

/* Rows by shape are named by the op followed by the shapes. */
static bool has_op_and_shapes(const struct aggregate_row *r, const void *arg)
{
	const struct op_name *op = arg;
	size_t n = strlen(op->name);
	return r->phase == op->phase && !strncmp(r->op, op->name, n) &&
	       (!strcmp(r->op + n, " ") || !strncmp(r->op + n, " [", 2));
}

static bool on_line(const struct aggregate_row *r, const void *arg)
{
	const struct aggregate_row *s = arg;
	if (s->parameter)
		return r->parameter && !strcmp(r->parameter, s->parameter);
	return r->phase == s->phase && r->file && s->file && r->line == s->line &&
	       !strcmp(r->file, s->file);
}

/* A histogram of durations with logarithmic bins, from the shortest call to the longest. */
static void add_histogram(struct lines *l, const struct aggregate_row *s)
{
	uint64_t counts[BARS] = {0}, most = 0;
	char text[BARS * 4 + 1] = "", min[32], p50[32], p99[32], max[32], mean[32];
	histogram_spread(&s->times, s->min_ns, s->max_ns, counts, BARS);
	for (int i = 0; i < BARS; i++)
		most = counts[i] > most ? counts[i] : most;
	for (int i = 0; i < BARS; i++)
		strcat(text, counts[i] ? screen_block(counts[i], most) : " ");
	title(l, "Time of a call");
	if (!aggregate_has_quantiles(s)) {
		lines_add(l, STYLE_PLAIN,
			  "  min %s  mean %s  max %s; of %s calls only sums were recorded",
			  text_ns(min, sizeof(min), s->min_ns),
			  text_ns(mean, sizeof(mean), s->calls ? s->sum_ns / s->calls : 0),
			  text_ns(max, sizeof(max), s->max_ns),
			  text_count(p50, sizeof(p50), s->calls - s->times.count));
		return;
	}
	lines_add(l, STYLE_PLAIN, "  min %s  median %s  mean %s  p99 %s  max %s",
		  text_ns(min, sizeof(min), s->min_ns),
		  text_ns(p50, sizeof(p50), aggregate_quantile(s, 0.5)),
		  text_ns(mean, sizeof(mean), s->calls ? s->sum_ns / s->calls : 0),
		  text_ns(p99, sizeof(p99), aggregate_quantile(s, 0.99)),
		  text_ns(max, sizeof(max), s->max_ns));
	lines_add(l, STYLE_PLAIN, "  %s |%s| %s", min, text, max);
}

static bool is_linked(const struct view *v, uint32_t backward, uint32_t forward)
{
	uint32_t ids[VIEW_LINKS];
	unsigned n = view_forwards(v, backward, ids);
	for (unsigned i = 0; i < n; i++)
		if (ids[i] == forward)
			return true;
	return false;
}

/* The forward rows of a backward row, or the backward rows of a forward row. */
static void add_directions(struct top *t, const struct grouping_row *row)
{
	size_t n;
	bool told = false, backward = row->sum->phase == PHASE_BACKWARD;
	struct grouping_row *const *rows = view_all(t->view, GROUPING_OP_LINE, &n);
	for (size_t i = 0; i < n; i++) {
		if (!rows[i]->sum || !(backward ? is_linked(t->view, row->id, (uint32_t)i)
						: is_linked(t->view, (uint32_t)i, row->id)))
			continue;
		if (!told) {
			title(&t->lines, "Forward and backward");
			add_row(&t->lines, row->sum, true, false);
		}
		told = true;
		add_row(&t->lines, rows[i]->sum, true, false);
	}
}

static void add_stack(struct lines *l, const struct op_event *ev)
{
	const struct py_stack *s = ev->where_stack ? ev->where_stack : ev->stack;
	const struct py_frame *where = py_stack_where(s);
	char text[WHERE_TEXT_MAX];
	title(l, ev->phase != PHASE_FORWARD && ev->where_stack && ev->where_stack != ev->stack
		     ? "Python stack of the forward op, innermost first"
		     : "Python stack, innermost first");
	for (uint16_t i = 0; s && i < s->depth; i++)
		lines_add(l, s->frames[i]->is_torch ? STYLE_DIM : STYLE_PLAIN,
			  "  %s:%" PRId32 " %s", s->frames[i]->file, s->frames[i]->line,
			  s->frames[i]->function);
	if (py_stack_parameter(s))
		lines_add(l, STYLE_PLAIN, "  %s", parameter_text(text, sizeof(text), s->parameter));
	if (!s)
		lines_add(l, STYLE_DIM, "  (no Python frame)");
	else if (s->truncated)
		lines_add(l, STYLE_DIM, "  (there are more frames outside)");
	if (!where)
		return;
	title(l, "Code");
	code_add(l, ev->pid, where);
}

static void add_arguments(struct lines *l, const struct op_event *ev)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	struct event_printer *p = f ? event_printer_new(f) : NULL;
	int r = p ? event_print(p, ev) : -ENOMEM;
	event_printer_free(p);
	if (f && fclose(f))
		r = -ENOMEM;
	title(l, "Last call");
	if (!r)
		lines_add_text(l, STYLE_PLAIN, text);
	else
		l->failed = -ENOMEM;
	free(text);
}

static void add_head(struct lines *l, const struct aggregate_row *s)
{
	char where[WHERE_TEXT_MAX], calls[32], thrown[32], self[32], total[32];
	lines_add(l, STYLE_BOLD, "%s%s", s->op,
		  s->phase == PHASE_BACKWARD	? "   in the backward"
		  : s->phase == PHASE_RECOMPUTE ? "   recomputed in the backward"
						: "");
	if (s->file || s->function || s->parameter)
		lines_add(l, STYLE_PLAIN, "  %s", report_where_text(where, sizeof(where), s, NULL));
	lines_add(l, STYLE_PLAIN, "  %s, %s left by an exception, self %s, total %s",
		  text_counted(calls, sizeof(calls), s->calls, "call"),
		  text_count(thrown, sizeof(thrown), s->thrown),
		  text_ns(self, sizeof(self), s->self_ns),
		  text_ns(total, sizeof(total), s->total_ns));
}

/* The parts of the panel that depend on the grouping. */
static void add_parts(struct top *t, enum grouping_by group, const struct grouping_row *row,
		      const struct op_event *last)
{
	const struct op_name op = {.name = last ? last->op->name : "", .phase = row->sum->phase};
	if (group == GROUPING_LINE)
		add_related(t, GROUPING_OP_LINE, on_line, row->sum, "Ops of this line", true);
	if (group == GROUPING_LINE || group == GROUPING_MODULE || group == GROUPING_THREAD || !last)
		return;
	add_related(t, GROUPING_OP_LINE, has_op, &op, "Source lines of this op", false);
	add_related(t, GROUPING_SHAPE, has_op_and_shapes, &op, "Shapes of this op", true);
	if (group == GROUPING_OP_LINE)
		add_directions(t, row);
}

int panel_detail(struct top *t)
{
	size_t n;
	enum grouping_by group = view_group(t->view);
	struct grouping_row *const *rows = view_all(t->view, group, &n);
	struct lines *l = &t->lines;
	struct op_event ev;
	lines_reset(l);
	if (t->detail >= n || !rows[t->detail]->sum)
		return 0;
	const struct grouping_row *row = rows[t->detail];
	bool decoded = row->last.size && !player_decode(t->player, &row->last, &ev, NULL);
	add_head(l, row->sum);
	add_histogram(l, row->sum);
	add_parts(t, group, row, decoded ? &ev : NULL);
	if (decoded) {
		add_arguments(l, &ev);
		add_stack(l, &ev);
	} else {
		title(l, "Last call");
		lines_add(l, STYLE_DIM, "  %s",
			  row->sum->times.count
			      ? "its record is too long to be kept; see ditrace script"
			      : "none has a record of its own");
	}
	return l->failed;
}

static const char *const keys[] = {
    "Up Down PgUp PgDn Home End  j k ^F ^B G   move; the wheel and clicks, too",
    "Enter                 details of the row; again, q or Esc: back to the table",
    "Left Right            of wide details: the columns beside",
    "< >  F6               sort by the column beside; a click on its name, too",
    "S T N M P D O H W     sort by the column of that letter; N: Calls/s, H: Shapes",
    "R                     the other way round",
    "g                     group by op and line, op, line, module, thread, shapes",
    "t  F5                 modules as a tree; then Enter, Left, Right fold and unfold",
    "/  F4                 show only rows with a text in op or line; Esc: all again",
    "i                     figures of the last 2 seconds, or of all (cumulative)",
    "p  Space              pause: what comes meanwhile is read when it goes on",
    "r                     begin to count anew",
    "+ -                   of a file: twice as fast, half; 0: as fast as possible",
    "a d                   of a process: attach again, detach (it runs on)",
    "s                     what all threads of the process do now; s: look again",
    "c                     capture the next call that the row is of, with gradients",
    "C f                   compare the row's op live, send it to the CPU",
    "e                     of a process: save the trace so far to a file",
    "u                     undo the last C or f, a waiting c, what e or c wrote",
    "?  h  F1              this help",
    "q  F10                quit; a process that is traced runs on",
    NULL,
};

static const char *const words[] = {
    "Self%     time in the op itself, of the time in which the threads were observed",
    "Total%    with the ops that it called; a call inside another of the same row counts once",
    "Calls/s   of the time shown at the top right",
    "P99       99 of 100 calls were as short, to about 3 %",
    "Dev%      of the time in which GPUs did something: what it launched (not by shapes)",
    "Shapes    of the last call's tensors (117 columns and more); sorted by their elements",
    "b  r      of the backward: at the line of the forward op, or of Python code there; recomputed",
    "in ops    of the time in which the threads were observed, from op to op; then, in no op:",
    "Python    they ran Python or what it called that is no op, or were ready to",
    "waits     they slept (both by looks, 25 a second; a file has none: Python/waits)",
    "other     threads without Python ran; no Python: they ran or slept",
    "not in..  these: all else, where ops are left out of the trace, or were not seen",
    "probes    how much slower they make the threads, in CPU time; 34+%: at least",
    NULL,
};

int panel_help(struct top *t)
{
	struct lines *l = &t->lines;
	lines_reset(l);
	lines_add(l, STYLE_BOLD, "Keys");
	for (int i = 0; keys[i]; i++)
		lines_add(l, STYLE_PLAIN, "  %s", keys[i]);
	lines_add(l, STYLE_PLAIN, "%s", "");
	lines_add(l, STYLE_BOLD, "Figures");
	for (int i = 0; words[i]; i++)
		lines_add(l, STYLE_PLAIN, "  %s", words[i]);
	return l->failed;
}
