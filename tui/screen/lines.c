#define _GNU_SOURCE
#include "tui/screen/screen.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"
#include "symbolizer/target/process.h"
#include "symbolizer/target/target_files.h"

void lines_reset(struct lines *l)
{
	arena_reset(&l->arena);
	l->n = 0;
	l->failed = 0;
}

void lines_free(struct lines *l)
{
	arena_free(&l->arena);
	free(l->lines);
	*l = (struct lines){0};
}

static void lines_append(struct lines *l, enum style style, const char *text, size_t len)
{
	const char *copy = arena_strndup(&l->arena, text, len);
	if (!copy || array_grow(&l->lines, &l->room, l->n + 1, sizeof(*l->lines))) {
		l->failed = -ENOMEM;
		return;
	}
	l->lines[l->n++] = (struct line){.text = copy, .style = style};
}

void lines_add(struct lines *l, enum style style, const char *format, ...)
{
	char *text;
	va_list args;
	va_start(args, format);
	int n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0) {
		l->failed = -ENOMEM;
		return;
	}
	lines_append(l, style, text, (size_t)n);
	free(text);
}

void lines_add_text(struct lines *l, enum style style, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		lines_append(l, style, text, n);
		text += n + (text[n] == '\n');
	}
}

void lines_draw(const struct lines *l, size_t first, int left, int y, int height)
{
	for (size_t i = first; i < l->n && i - first < (size_t)height; i++) {
		const char *s = l->lines[i].text;
		size_t skip = strnlen(s, (size_t)left);
		while ((s[skip] & 0xc0) == 0x80)
			skip++;
		screen_text(y + (int)(i - first), 0, screen_width(), s + skip, l->lines[i].style);
	}
}

enum { AROUND = 3, LINES = 2 * AROUND + 1, LINE_BYTES = 1024 };

struct code {
	char line[LINES][LINE_BYTES]; /* without newline; index AROUND is the frame's line */
	bool has[LINES];
};

/* Of a process that has ended, the trace file names it. */
static FILE *code_open(pid_t pid, const char *path)
{
	struct target_files *files = process_alive(pid) ? target_files_new(pid) : NULL;
	int fd = files ? target_files_open(files, path, true) : regular_open(path);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	target_files_free(files);
	if (fd >= 0 && !f)
		close(fd);
	return f;
}

static void read_around(struct code *c, FILE *f, int64_t line)
{
	char *text = NULL;
	size_t room = 0;
	ssize_t n;
	for (int64_t i = 1; i <= line + AROUND && (n = getline(&text, &room, f)) >= 0; i++) {
		int64_t at = i - (line - AROUND);
		if (at < 0)
			continue;
		text[strcspn(text, "\r\n")] = '\0';
		snprintf(c->line[at], LINE_BYTES, "%s", text);
		text_drop_part(c->line[at]);
		c->has[at] = true;
	}
	free(text);
}

/* The file may have changed, or be from another machine. */
static bool is_same(const struct code *c, const struct py_frame *f)
{
	const char *s = c->line[AROUND];
	size_t n = f->text ? strlen(f->text) : 0;
	s += strspn(s, " \t\f");
	return n && c->has[AROUND] && !strncmp(s, f->text, n) && s[n + strspn(s + n, " \t\f")] == 0;
}

/* Mark the expression below its line; columns count bytes of the whole line, of which `skip` are
 * not shown. */
static void underline(struct lines *l, const struct py_frame *f, const char *text, size_t skip,
		      const char *margin)
{
	char below[LINE_BYTES];
	size_t len = strlen(text) + skip, from, to;
	if (f->column < 0 || f->end_column <= f->column || (size_t)f->column < skip)
		return;
	from = (size_t)f->column - skip;
	to = f->end_line > f->line || (size_t)f->end_column > len ? len - skip
								  : (size_t)f->end_column - skip;
	if (from >= to || to >= sizeof(below))
		return;
	memcpy(below, text, to);
	below[to] = '\0';
	size_t end = text_width(below);
	below[from] = '\0';
	size_t begin = text_width(below);
	if (end <= begin || end >= sizeof(below))
		return;
	for (size_t i = 0; i < from; i++)
		if (text[i] == '\t')
			return; /* only the terminal knows its width */
	memset(below, ' ', begin);
	memset(below + begin, '^', end - begin);
	below[end] = '\0';
	lines_add(l, STYLE_BOLD, "%s%s", margin, below);
}

static void add_around(struct lines *l, const struct code *c, const struct py_frame *f)
{
	for (int i = 0; i < LINES; i++) {
		if (!c->has[i])
			continue;
		bool here = i == AROUND;
		lines_add(l, here ? STYLE_BOLD : STYLE_DIM, "  %s%6" PRId64 "  %s",
			  here ? ">" : " ", (int64_t)f->line - AROUND + i, c->line[i]);
		if (here)
			underline(l, f, c->line[i], 0, "           ");
	}
}

void code_add(struct lines *l, pid_t pid, const struct py_frame *f)
{
	struct code *c = calloc(1, sizeof(*c));
	FILE *file = c && f->line > 0 && f->text ? code_open(pid, f->file) : NULL;
	if (file) {
		read_around(c, file, f->line);
		fclose(file);
	}
	if (file && is_same(c, f))
		add_around(l, c, f);
	else if (f->text)
		lines_add(l, STYLE_BOLD, "  >%6" PRId32 "  %s", f->line, f->text);
	free(c);
}
