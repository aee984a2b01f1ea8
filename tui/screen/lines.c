#define _GNU_SOURCE
#include "tui/screen/screen.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

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
