#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "perf/events/print_event.h"
#include "tui/model/top.h"

enum {
	GAP = 2,
	NUMBERS = VIEW_DEVICE + 1,
	OP_MIN = 24,
	OP_BESIDE_MIN = 16, /* where lines stand beside ops */
	WHERE_MIN = 24,
	SHAPES_MAX = 256,
	VIEW_MODULE_MAX = 1024,
	INDENT = 2
};

/* Position of each column; width 0: hidden. */
struct layout {
	struct {
		int x, width;
	} of[VIEW_COLUMNS];
};

static const int number_widths[NUMBERS] = {6, 7, 9, 7, 7, 6};

/* Where there is no room for the text, in this order. */
static const enum view_column gives_way[NUMBERS - 1] = {VIEW_P99, VIEW_MEAN, VIEW_CALLS, VIEW_TOTAL,
							VIEW_DEVICE};

static bool has_where(enum grouping_by g)
{
	return g == GROUPING_OP_LINE || g == GROUPING_LINE;
}

static void place(struct layout *l, enum view_column c, int *x, int width)
{
	l->of[c].x = *x;
	l->of[c].width = width;
	if (width)
		*x += width + GAP;
}

static int op_beside_where(int rest)
{
	int op = rest - GAP - WHERE_MIN;
	return op < OP_BESIDE_MIN || op > rest * 5 / 9 ? rest * 5 / 9 : op;
}

static struct layout layout_of(const struct top *t)
{
	enum grouping_by group = view_group(t->view);
	struct layout l;
	int x = 2; /* room for the mark of backward rows */
	bool of_calls = !view_is_tree(t->view);
	bool is_shown[NUMBERS] = {true,	    true,     true,
				  of_calls, of_calls, view_has(t->view, VIEW_DEVICE)};
	for (int c = 0; c < NUMBERS; c++)
		x += is_shown[c] ? number_widths[c] + GAP : 0;
	const int text_min = has_where(group) ? OP_BESIDE_MIN + GAP + WHERE_MIN : OP_MIN;
	for (size_t i = 0; i < NUMBERS - 1 && screen_width() - x < text_min; i++) {
		x -= is_shown[gives_way[i]] ? number_widths[gives_way[i]] + GAP : 0;
		is_shown[gives_way[i]] = false;
	}
	x = 2;
	for (int c = 0; c < NUMBERS; c++)
		place(&l, (enum view_column)c, &x, is_shown[c] ? number_widths[c] : 0);
	int rest = screen_width() - x;
	bool shapes =
	    (group == GROUPING_OP_LINE && rest >= 70) || (group == GROUPING_OP && rest >= 60);
	bool narrow = group == GROUPING_OP_LINE && rest < 96;
	int op = group == GROUPING_LINE		? 10
		 : !has_where(group) && !shapes ? rest
		 : rest < 70			? op_beside_where(rest)
		 : narrow			? 24
						: 28;
	if (op < 0)
		op = 0;
	place(&l, VIEW_OP, &x, op);
	place(&l, VIEW_SHAPES, &x, !shapes ? 0 : narrow ? 18 : 28);
	rest = screen_width() - x;
	place(&l, VIEW_WHERE, &x, has_where(group) && rest > 0 ? rest : 0);
	return l;
}

enum view_column panel_table_column(const struct top *t, int x)
{
	struct layout l = layout_of(t);
	for (int c = 0; c < VIEW_COLUMNS; c++)
		if (x >= l.of[c].x && x < l.of[c].x + l.of[c].width)
			return (enum view_column)c;
	return VIEW_COLUMNS;
}

/* What stands in the place of the op's name where rows have none is told as what it is. */
static const char *column_name(const struct view *v, int c)
{
	if (c != VIEW_OP)
		return view_column_names[c];
	return view_group(v) == GROUPING_MODULE	  ? "Module"
	       : view_group(v) == GROUPING_THREAD ? "Thread"
						  : view_column_names[c];
}

static void draw_header(const struct top *t, const struct layout *l, int y)
{
	bool reversed;
	enum view_column sorted = view_sorted(t->view, &reversed);
	for (int c = 0; c < VIEW_COLUMNS; c++) {
		char name[32];
		snprintf(name, sizeof(name), "%s%s", column_name(t->view, c),
			 (int)sorted != c ? ""
			 : reversed	  ? "^"
					  : "v");
		if (c < NUMBERS)
			screen_right(y, l->of[c].x, l->of[c].width, name, STYLE_BAR);
		else
			screen_text(y, l->of[c].x, l->of[c].width, name, STYLE_BAR);
	}
	screen_line(y, STYLE_BAR);
}

static const char *rate_text(char *out, size_t size, double rate)
{
	if (rate >= 100)
		return text_count(out, size, (uint64_t)(rate + 0.5));
	snprintf(out, size, "%.1f", rate);
	return out;
}

/* "-" where it can be folded, "+" where it is. */
static void draw_module(const struct layout *l, int y, const struct view_row *r)
{
	static const char *const marks[] = {
	    [VIEW_LEAF] = "  ", [VIEW_FOLDED] = "+ ", [VIEW_OPEN] = "- "};
	char text[VIEW_MODULE_MAX];
	snprintf(text, sizeof(text), "%*s%s%s", (int)(INDENT * r->depth), "", marks[r->fold],
		 r->name);
	screen_text(y, l->of[VIEW_OP].x, l->of[VIEW_OP].width, text, STYLE_PLAIN);
}

static enum style heat(double percent)
{
	return percent >= 10 ? STYLE_HOT : percent >= 3 ? STYLE_WARM : STYLE_PLAIN;
}

static void draw_numbers(const struct layout *l, int y, const struct view_row *r)
{
	char text[NUMBERS][32];
	snprintf(text[VIEW_SELF], sizeof(text[0]), "%.1f", r->self_percent);
	snprintf(text[VIEW_TOTAL], sizeof(text[0]), "%.1f", r->total_percent);
	rate_text(text[VIEW_CALLS], sizeof(text[0]), r->calls_per_s);
	text_ns(text[VIEW_MEAN], sizeof(text[0]), r->mean_ns);
	if (r->sum && aggregate_has_quantiles(r->sum))
		text_ns(text[VIEW_P99], sizeof(text[0]), r->p99_ns);
	else
		snprintf(text[VIEW_P99], sizeof(text[0]), "-");
	if (r->sum && r->sum->activities)
		snprintf(text[VIEW_DEVICE], sizeof(text[0]), "%.1f", r->device_percent);
	else
		snprintf(text[VIEW_DEVICE], sizeof(text[0]), "-");
	/* Rows that only devices have, of what was launched in no op. */
	for (int c = VIEW_SELF; c < VIEW_DEVICE && r->sum && !r->sum->calls; c++)
		snprintf(text[c], sizeof(text[0]), "-");
	for (int c = 0; c < NUMBERS; c++)
		screen_right(y, l->of[c].x, l->of[c].width, text[c],
			     c == VIEW_SELF	? heat(r->self_percent)
			     : c == VIEW_DEVICE ? heat(r->device_percent)
						: STYLE_PLAIN);
}

static void draw_shapes(const struct top *t, const struct layout *l, int y,
			const struct grouping_call *last)
{
	char shapes[SHAPES_MAX];
	struct op_event ev;
	if (l->of[VIEW_SHAPES].width && last->size && !player_decode(t->player, last, &ev, NULL))
		screen_text(y, l->of[VIEW_SHAPES].x, l->of[VIEW_SHAPES].width,
			    grouping_shapes(shapes, sizeof(shapes), &ev), STYLE_PLAIN);
}

static void draw_where(const struct top *t, const struct layout *l, int y,
		       const struct aggregate_row *s)
{
	char where[WHERE_TEXT_MAX];
	if (!s->calls && !s->file && !s->parameter)
		return;
	screen_text(y, l->of[VIEW_WHERE].x, l->of[VIEW_WHERE].width,
		    report_where_text(where, sizeof(where), s, &t->files), STYLE_PLAIN);
}

static void draw_row(const struct top *t, const struct layout *l, int y, const struct view_row *r)
{
	if (!r->sum) {
		draw_numbers(l, y, r);
		draw_module(l, y, r);
		return;
	}
	if (r->sum->phase != PHASE_FORWARD)
		screen_text(y, 0, 1, (const char[PHASES][2]){"", "b", "r", "c"}[r->sum->phase],
			    STYLE_DIM);
	draw_numbers(l, y, r);
	screen_text(y, l->of[VIEW_OP].x, l->of[VIEW_OP].width,
		    report_op_text(r->sum->op, screen_width()), STYLE_PLAIN);
	draw_shapes(t, l, y, &r->row->last);
	draw_where(t, l, y, r->sum);
}

/* Where the chosen row stands now. */
static void find_chosen(struct top *t, const struct view_row *rows, size_t n)
{
	for (size_t i = 0; t->sticks && t->chosen >= 0 && i < n; i++)
		if (view_id(t->view, &rows[i]) == t->chosen) {
			t->selected = i;
			return;
		}
}

void panel_table(struct top *t, int y, int height)
{
	size_t n, shown = height > 1 ? (size_t)height - 1 : 0;
	struct layout l = layout_of(t);
	const struct view_row *rows = view_rows(t->view, &n);
	find_chosen(t, rows, n);
	if (t->selected >= n)
		t->selected = n ? n - 1 : 0;
	if (t->first > t->selected)
		t->first = t->selected;
	if (shown && t->selected >= t->first + shown)
		t->first = t->selected - shown + 1;
	/* The order of rows may change before the next key. */
	t->chosen = n ? view_id(t->view, &rows[t->selected]) : -1;
	for (size_t i = 0; i < n; i++)
		if (rows[i].sum) /* if it fails, by its base name */
			file_names_add(&t->files, rows[i].sum->file);
	draw_header(t, &l, y);
	t->ndrawn = 0;
	for (size_t i = t->first; i < n && i - t->first < shown; i++) {
		if (t->ndrawn < TOP_DRAWN_MAX)
			t->drawn[t->ndrawn++] = view_id(t->view, &rows[i]);
		int line = y + 1 + (int)(i - t->first);
		draw_row(t, &l, line, &rows[i]);
		if (i == t->selected)
			screen_line(line, STYLE_SELECTED);
	}
	if (n == 0)
		screen_text(y + 2, 2, screen_width(),
			    view_filter(t->view)[0] ? "no row has this text; Esc clears the filter"
			    : !t->live || !live_is_tracing(t->live)
				? "no op seen yet"
				: "no op seen yet; those of import torch itself are few",
			    STYLE_DIM);
}
