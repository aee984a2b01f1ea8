/* The terminal, by ncurses: nothing else starts, ends or writes to it. */
#ifndef TUI_SCREEN_SCREEN_H
#define TUI_SCREEN_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

/* Check that standard input and output are a usable terminal. 0, or -ENOTTY or -ENOTSUP with *e. */
int screen_check(struct err *e);

/* Take over the terminal. Catchable signals that kill the process restore it first. 0, or -ENOTSUP
 * with *e. */
int screen_open(struct err *e);

/* Restore the terminal; may be called at any time. */
void screen_close(void);

/* The signal received that asks to end: SIGINT, SIGTERM, or SIGHUP (also for a terminal that is
 * gone); 0: none. */
int screen_end_signal(void);

int screen_height(void);
int screen_width(void);

/* Start a new frame, and display it. */
void screen_begin(void);
void screen_show(void);

/* Write `text` (untrusted text is escaped) at line y, column x, in at most `width` columns; longer
 * text is cut with "…". Characters that the terminal cannot show become "?". Returns the columns
 * written. */
int screen_text(int y, int x, int width, const char *text, enum style style);

/* The same, right-aligned in the `width` columns. */
void screen_right(int y, int x, int width, const char *text, enum style style);

/* Set the style of a whole line. */
void screen_line(int y, enum style style);

/* One character of a bar chart: `value` of `max` in eight heights, or in ASCII. */
const char *screen_block(unsigned long long value, unsigned long long max);

/* Show the cursor at a position, in this frame only. */
void screen_cursor(int y, int x);

/* Keys that are not characters. */
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
	SCREEN_F1, /* up to F10, consecutive */
	SCREEN_F10 = SCREEN_F1 + 9,
};

/* Wait at most `timeout_ms` for a key: a code point or an enum screen_key; SCREEN_NO_KEY: none. For
 * SCREEN_CLICK *y and *x are its position. */
int screen_key(int timeout_ms, int *y, int *x);

/* Text panels that scroll: details, help. */

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

/* Add each line of `text`, which is copied. */
void lines_add_text(struct lines *l, enum style style, const char *text);

/* Draw from line `first` on, at line y of the screen, at most `height` lines, each without its
 * first `left` bytes. */
void lines_draw(const struct lines *l, size_t first, int left, int y, int height);

void lines_free(struct lines *l);

/* Source code around a frame. */

/* Add the line of `f` with its expression underlined, and the lines around it if the file can be
 * opened as process `pid` sees it (symbolizer/target/target_files.h), or if it has ended, here, and
 * the line is unchanged. */
void code_add(struct lines *l, pid_t pid, const struct py_frame *f);

/* What a terminal sends, as keys. Pure: no terminal is needed. */

enum { INPUT_BYTES = 256, INPUT_SEQUENCES = 32, INPUT_SEQUENCE_MAX = 16 };

/* Bytes that are no key yet. Zero-initialise. */
struct input {
	char bytes[INPUT_BYTES];
	size_t n;
	bool cut; /* the escape of what follows may have been given as a key */
	/* What this terminal sends for its keys, by its entry in terminfo. */
	struct input_sequence {
		char text[INPUT_SEQUENCE_MAX];
		int key; /* enum screen_key */
	} sequences[INPUT_SEQUENCES];
	size_t nsequences;
};

/* Names `key` what the terminal sends as `text`; what is NULL, longer than INPUT_SEQUENCE_MAX - 1
 * bytes, or does not begin with an escape, is left out. */
void input_name(struct input *in, const char *text, int key);

/* Add the n bytes that have come. Those for which there is no room are dropped: n is at most
 * INPUT_BYTES - in->n. */
void input_add(struct input *in, const char *bytes, size_t n);

/* How long to wait for the rest of what has come, in ms; 0: nothing has begun. A part of a key
 * comes late from a terminal on a busy host or behind a slow connection. */
int input_patience(const struct input *in);

enum { INPUT_MORE = -2 }; /* there is no key before more bytes come */

/* Take the next key: a code point or an enum screen_key; SCREEN_NO_KEY for what means nothing here,
 * such as the release of a button; INPUT_MORE. `waited`: the rest has not come in time. For
 * SCREEN_CLICK *y and *x are its position, from 0. */
int input_key(struct input *in, bool waited, int *y, int *x);

#endif
