/* The source code around a frame. */
#ifndef TUI_SCREEN_CODE_H
#define TUI_SCREEN_CODE_H

#include "symbolizer/event/event.h"
#include "tui/screen/lines.h"

/* Add the line of `f` with its expression underlined, and some lines around it where its file lies
 * here and still has the line as it was recorded. */
void code_add(struct lines *l, const struct py_frame *f);

#endif
