/* Where a call comes from, as tables show it. */
#ifndef PERF_EVENTS_WHERE_TEXT_H
#define PERF_EVENTS_WHERE_TEXT_H

#include <stddef.h>

#include "symbolizer/event/event.h"

enum { WHERE_TEXT_MAX = 2048 };

/* "train.py:33 Attention.forward: q = self.qkv(x)": the file without its folders, the line, the
 * function, and the text of the line when it is known; in brackets what is missing when there is no
 * frame. Not made safe for a terminal. Returns out. */
const char *where_text(char *out, size_t size, const struct py_frame *frame, int phase);

#endif
