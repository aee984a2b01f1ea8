/* The terminal: the one place that starts, ends and writes to it, by ncurses. */
#ifndef TUI_SCREEN_SCREEN_H
#define TUI_SCREEN_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "symbolizer/event/event.h"

enum style {
	STYLE_PLAIN,
	STYLE_BOLD,
	STYLE_DIM,
	STYLE_BAR,
	STYLE_SELECTED,
	STYLE_WARM,
	STYLE_HOT,
	STYLES
};

/* Whether standard input and output are a terminal that will do. 0, or -ENOTTY, -ENOTSUP
 * with *e. */
int screen_check(struct err *e);

/* Take standard input and output over. When the process is killed by a signal that it can notice,
 * the terminal is first made what it was. 0, or -ENOTSUP with *e. */
int screen_open(struct err *e);

/* Make it what it was; may be called at any time. */
void screen_close(void);

/* The signal that asks to end (SIGINT, SIGTERM, SIGHUP; SIGHUP for a terminal that is gone), 0:
 * none. */
int screen_end_signal(void);

int screen_height(void);
int screen_width(void);

/* Whether the terminal shows UTF-8. */
bool screen_utf8(void);

/* Begin a new picture, and show it. */
void screen_begin(void);
void screen_show(void);

/* Write `text` (from any source: made safe) at column x of line y, at most `width` columns, cut
 * with "…" when it is longer. Characters the terminal has no way to show become "?". Returns the
 * columns written. */
int screen_text(int y, int x, int width, const char *text, enum style style);

/* The same, to the right of the `width` columns. */
void screen_right(int y, int x, int width, const char *text, enum style style);

/* The whole line in a style. */
void screen_line(int y, enum style style);

/* A bar of `value` of `max` as one character: one of eight heights, or of ASCII. */
const char *screen_block(unsigned long long value, unsigned long long max);

/* Put the cursor somewhere and show it; it is hidden in the next picture. */
void screen_cursor(int y, int x);

/* Keys that are no character. */
enum screen_key {
	SCREEN_NO_KEY = -1,
	SCREEN_UP = 0x1000000,
	SCREEN_DOWN,
	SCREEN_LEFT,
	SCREEN_RIGHT,
	SCREEN_PAGE_UP,
	SCREEN_PAGE_DOWN,
	SCREEN_HOME,
	SCREEN_END,
	SCREEN_ENTER,
	SCREEN_BACKSPACE,
	SCREEN_ESCAPE,
	SCREEN_RESIZE,
	SCREEN_WHEEL_UP,
	SCREEN_WHEEL_DOWN,
	SCREEN_CLICK,
	SCREEN_F1, /* and so on to F10 */
	SCREEN_F10 = SCREEN_F1 + 9,
};

/* The next key within `timeout_ms`: a character (a code point), or an enum screen_key. With
 * SCREEN_CLICK, *y and *x say where. */
int screen_key(int timeout_ms, int *y, int *x);

/* Lines of text to look through: details, help. */

/* Zero-initialise. */
struct lines {
	struct arena arena;
	struct line {
		const char *text;
		enum style style;
	} * lines;
	size_t n, room;
	int failed; /* -ENOMEM once memory ran out */
};

void lines_reset(struct lines *l);

__attribute__((format(printf, 3, 4))) void lines_add(struct lines *l, enum style style,
						     const char *format, ...);

/* Each line of `text` (which is not kept). */
void lines_add_text(struct lines *l, enum style style, const char *text);

/* Draw those from number `first` on at line y of the screen, at most `height`, without the first
 * `left` bytes of each. */
void lines_draw(const struct lines *l, size_t first, int left, int y, int height);

void lines_free(struct lines *l);

/* The source code around a frame. */

/* Add the line of `f` with its expression underlined, and some lines around it where its file lies
 * here and still has the line as it was recorded. */
void code_add(struct lines *l, const struct py_frame *f);

#endif
