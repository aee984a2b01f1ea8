/* What keys have made, so that it can be taken back. */
#ifndef TUI_MODEL_UNDO_H
#define TUI_MODEL_UNDO_H

#include <stdbool.h>
#include <stddef.h>

enum { UNDO_STEPS = 16, UNDO_PATH = 256 };

/* Zero-initialise. */
struct undo {
	struct undo_step {
		char path[UNDO_PATH];
	} steps[UNDO_STEPS]; /* the oldest are forgotten, and what they made stays */
	unsigned n;
};

/* The file or folder `path` was made, by this program and anew. */
void undo_made(struct undo *u, const char *path);

/* Remove what was made last, of a folder all that is in it. 1 and its path in out; 0 when there is
 * nothing to remove; -errno with the path in out when it could not be removed. */
int undo_last(struct undo *u, char *out, size_t size);

#endif
