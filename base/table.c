#include "base/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"

enum { TEXT_MAX = 4096, GAP = 2 };

struct cell {
	const char *text;
	int width;
	bool is_line;
	enum table_style style;
};

struct table {
	struct arena arena;
	struct {
		const char *header;
		int width, header_width;
		enum table_align align;
		int order; /* 0: never left out */
	} columns[TABLE_COLUMNS_MAX];
	int ncolumns;
	struct cell *cells; /* row-major; a line between rows is one cell */
	size_t ncells, cells_size;
	int filled; /* cells of the row being filled */
	bool failed;
};

struct table *table_new(void)
{
	return calloc(1, sizeof(struct table));
}

void table_reset(struct table *t)
{
	arena_reset(&t->arena);
	t->ncolumns = 0;
	t->ncells = 0;
	t->filled = 0;
	t->failed = false;
}

void table_free(struct table *t)
{
	if (!t)
		return;
	arena_free(&t->arena);
	free(t->cells);
	free(t);
}

static const char *table_copy_text(struct table *t, const char *text)
{
	char safe[TEXT_MAX];
	size_t len = text_safe(safe, sizeof(safe), text);
	const char *copy = arena_strndup(&t->arena, safe, len);
	if (!copy)
		t->failed = true;
	return copy ? copy : "";
}

void table_column(struct table *t, const char *header, enum table_align align)
{
	table_column_optional(t, header, align, 0);
}

void table_columns(struct table *t, const char *headers)
{
	char header[64];
	for (const char *p = headers, *end;; p = end + 1) {
		const bool right = *p == '>';
		end = p + strcspn(p, "|");
		snprintf(header, sizeof(header), "%.*s", (int)(end - p) - right, p + right);
		table_column(t, header, right ? TABLE_RIGHT : TABLE_LEFT);
		if (!*end)
			return;
	}
}

void table_column_optional(struct table *t, const char *header, enum table_align align, int order)
{
	if (t->ncolumns == TABLE_COLUMNS_MAX) {
		t->failed = true;
		return;
	}
	const char *text = table_copy_text(t, header);
	int width = (int)text_width(text);
	int i = t->ncolumns++;
	t->columns[i].header = text;
	t->columns[i].width = t->columns[i].header_width = width;
	t->columns[i].align = align;
	t->columns[i].order = order;
}

static struct cell *add_cell(struct table *t, const char *text)
{
	if (array_grow(&t->cells, &t->cells_size, t->ncells + 1, sizeof(*t->cells))) {
		t->failed = true;
		return NULL;
	}
	struct cell *c = &t->cells[t->ncells++];
	*c = (struct cell){.text = table_copy_text(t, text)};
	c->width = (int)text_width(c->text);
	return c;
}

void table_cell_styled(struct table *t, const char *text, enum table_style style)
{
	if (t->failed || t->ncolumns == 0)
		return;
	struct cell *c = add_cell(t, text);
	if (!c)
		return;
	c->style = style;
	if (c->width > t->columns[t->filled].width)
		t->columns[t->filled].width = c->width;
	t->filled = (t->filled + 1) % t->ncolumns;
}

void table_cell(struct table *t, const char *text)
{
	table_cell_styled(t, text, TABLE_PLAIN);
}

void table_line(struct table *t, const char *text)
{
	struct cell *c = t->failed ? NULL : add_cell(t, text);
	if (c)
		c->is_line = true;
}

static void print_spaces(FILE *f, int n)
{
	for (int i = 0; i < n; i++)
		putc(' ', f);
}

static void print_padded(FILE *f, const char *text, int text_cols, int width,
			 enum table_align align)
{
	int extra = width - text_cols;
	int left = align == TABLE_LEFT ? 0 : align == TABLE_RIGHT ? extra : extra / 2;
	if (align == TABLE_CENTER && extra % 2 && text_cols % 2 == 0)
		left++;
	print_spaces(f, left);
	fputs(text, f);
	print_spaces(f, extra - left);
}

/* The widths of the columns as they are printed; -1: left out. */
struct layout {
	int widths[TABLE_COLUMNS_MAX];
	int last; /* the last one that is printed */
};

/* What the table is wider than `width`, with `gap` between columns. */
static int layout_excess(const struct table *t, struct layout *l, int width, int gap)
{
	int used = 0;
	for (int i = 0; i < t->ncolumns; i++) {
		if (l->widths[i] < 0)
			continue;
		used += (used ? gap : 0) + l->widths[i];
		l->last = i;
	}
	if (l->last == t->ncolumns - 1 && t->columns[l->last].align == TABLE_LEFT &&
	    l->widths[l->last] > TABLE_LAST_MIN)
		used -= l->widths[l->last] - TABLE_LAST_MIN;
	return used - width;
}

/* Leave out a column of at least that order. */
static bool layout_leave_out(const struct table *t, struct layout *l, int order)
{
	int first = -1;
	for (int i = 0; i < t->ncolumns; i++)
		if (l->widths[i] >= 0 && t->columns[i].order >= order &&
		    (first < 0 || t->columns[i].order > t->columns[first].order))
			first = i;
	if (first >= 0)
		l->widths[first] = -1;
	return first >= 0;
}

static bool layout_cut(const struct table *t, struct layout *l, int excess, int least)
{
	int widest = -1;
	for (int i = 0; i < l->last; i++)
		if (t->columns[i].align == TABLE_LEFT && l->widths[i] > least &&
		    (widest < 0 || l->widths[i] > l->widths[widest]))
			widest = i;
	if (widest < 0)
		return false;
	int room = l->widths[widest] - least;
	l->widths[widest] -= excess < room ? excess : room;
	return true;
}

static struct layout layout_of(const struct table *t, int width)
{
	struct layout l = {{0}, 0};
	int excess;
	for (int i = 0; i < t->ncolumns; i++)
		l.widths[i] = t->columns[i].width;
	while (width && (excess = layout_excess(t, &l, width, GAP)) > 0)
		if (!layout_leave_out(t, &l, TABLE_ORDER_SOON) &&
		    !layout_cut(t, &l, excess, TABLE_CUT) && !layout_leave_out(t, &l, 1) &&
		    !layout_cut(t, &l, excess, TABLE_CUT_MORE))
			break;
	layout_excess(t, &l, width, GAP);
	return l;
}

static void print_cell(const struct table *t, FILE *f, int column, const struct cell *c,
		       const struct layout *l, int room, bool color, bool ends)
{
	static const char *const on[TABLE_STYLES] = {"", "\033[2m", "\033[33m", "\033[1;31m"};
	bool styled = color && c->style != TABLE_PLAIN;
	bool left = t->columns[column].align == TABLE_LEFT;
	if (styled)
		fputs(on[c->style], f);
	if (left && column == l->last)
		text_print_cut(f, c->text, room);
	else if (left && (ends || c->width > l->widths[column]))
		text_print_cut(f, c->text, l->widths[column]);
	else
		print_padded(f, c->text, c->width, l->widths[column], t->columns[column].align);
	if (styled)
		fputs("\033[0m", f);
}

/* One row; `cells` are ncolumns of them, NULL for the headers. */
static void print_row(const struct table *t, FILE *f, const struct cell *cells,
		      const struct layout *l, int width, bool color)
{
	int used = 0, end = t->ncolumns;
	while (cells && end > 1 && !cells[end - 1].text[0])
		end--; /* a line has no blanks at its end */
	for (int i = 0; i < end; i++) {
		struct cell head = {.text = t->columns[i].header,
				    .width = t->columns[i].header_width};
		int room = width ? width - used : TEXT_MAX;
		if (l->widths[i] < 0)
			continue;
		if (used)
			print_spaces(f, GAP);
		print_cell(t, f, i, cells ? &cells[i] : &head, l, room < 1 ? 1 : room, color,
			   i == end - 1);
		used += l->widths[i] + GAP;
	}
	putc('\n', f);
}

static bool whole_row(const struct table *t, size_t i)
{
	return !t->cells[i].is_line && i + (size_t)t->ncolumns <= t->ncells;
}

static bool has_headers(const struct table *t)
{
	for (int i = 0; i < t->ncolumns; i++)
		if (t->columns[i].header[0])
			return true;
	return false;
}

int table_print(const struct table *t, FILE *f, int width, bool color)
{
	if (t->failed)
		return -ENOMEM;
	const struct layout l = layout_of(t, width);
	if (has_headers(t))
		print_row(t, f, NULL, &l, width, color);
	for (size_t i = 0; i < t->ncells;) {
		if (whole_row(t, i)) {
			print_row(t, f, &t->cells[i], &l, width, color);
			i += (size_t)t->ncolumns;
		} else {
			text_print_cut(f, t->cells[i].text, width ? width : TEXT_MAX);
			putc('\n', f);
			i++;
		}
	}
	return ferror(f) ? -EIO : 0;
}

static void print_rule(const struct table *t, FILE *f, const struct layout *l)
{
	for (int i = 0; i < t->ncolumns; i++) {
		if (l->widths[i] < 0)
			continue;
		putc('+', f);
		for (int k = 0; k < l->widths[i] + 2; k++)
			putc('-', f);
	}
	fputs("+\n", f);
}

static void print_boxed_row(const struct table *t, FILE *f, const struct cell *cells,
			    const struct layout *l)
{
	for (int i = 0; i < t->ncolumns; i++) {
		if (l->widths[i] < 0)
			continue;
		fputs("| ", f);
		if (cells)
			print_padded(f, cells[i].text, cells[i].width, l->widths[i],
				     t->columns[i].align);
		else
			print_padded(f, t->columns[i].header, t->columns[i].header_width,
				     l->widths[i], TABLE_CENTER);
		putc(' ', f);
	}
	fputs("|\n", f);
}

int table_print_boxed(const struct table *t, FILE *f, int width)
{
	enum { BOX_GAP = 3, BOX_SIDES = 4 };
	if (t->failed)
		return -ENOMEM;
	struct layout l = {{0}, 0};
	for (int i = 0; i < t->ncolumns; i++)
		l.widths[i] = t->columns[i].width;
	while (width && layout_excess(t, &l, width - BOX_SIDES, BOX_GAP) > 0 &&
	       layout_leave_out(t, &l, 1))
		;
	print_rule(t, f, &l);
	print_boxed_row(t, f, NULL, &l);
	print_rule(t, f, &l);
	for (size_t i = 0; i < t->ncells; i++) {
		if (!whole_row(t, i))
			continue;
		print_boxed_row(t, f, &t->cells[i], &l);
		i += (size_t)t->ncolumns - 1;
	}
	if (t->ncells)
		print_rule(t, f, &l);
	return ferror(f) ? -EIO : 0;
}

/* A spreadsheet computes what begins so, which can read files and send them away; after a ' it
 * shows it: https://owasp.org/www-community/attacks/CSV_Injection. */
static bool is_formula(const char *text)
{
	char *end;
	if (!*text || !text[1] || !strchr("=+-@\t\r\n", *text))
		return false;
	strtod(text, &end);
	return end == text || *end;
}

static void put_field(FILE *f, const char *text, bool quoted, bool one_line)
{
	if (quoted)
		putc('"', f);
	if (is_formula(text))
		putc('\'', f);
	for (const char *s = text; *s; s++) {
		if (*s == '"')
			putc('"', f);
		putc(one_line && (unsigned char)*s < ' ' ? ' ' : *s, f);
	}
	if (quoted)
		putc('"', f);
}

static bool needs_quotes(const char *text)
{
	return strpbrk(text, ",\"\r\n") != NULL;
}

void csv_field(FILE *f, const char *text)
{
	put_field(f, text, needs_quotes(text), false);
}

void csv_line_field(FILE *f, const char *text)
{
	put_field(f, text, needs_quotes(text), true);
}

void csv_quoted(FILE *f, const char *text)
{
	put_field(f, text, true, false);
}

void csv_text(FILE *f, const char *text)
{
	size_t size = 4 * strlen(text) + 1;
	char small[1024], *safe = size <= sizeof(small) ? small : malloc(size);
	if (!safe)
		return;
	text_safe(safe, size, text);
	put_field(f, safe, strpbrk(safe, ",\"") || safe[0] == ' ', false);
	if (safe != small)
		free(safe);
}
