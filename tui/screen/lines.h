/* Lines of text to look through: details, help. */
#ifndef TUI_SCREEN_LINES_H
#define TUI_SCREEN_LINES_H

#include <stddef.h>

#include "base/arena.h"
#include "tui/screen/screen.h"

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

#endif
