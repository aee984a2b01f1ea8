/* The next call of an op of a traced process, captured by a second tracing of its own
 * (tracer/background.h), which ends with the call. */
#ifndef TUI_CAPTURE_NEXT_H
#define TUI_CAPTURE_NEXT_H

#include "tracer/background.h"
#include "tui/top.h"

enum { CAPTURE_OP_MAX = 256, CAPTURE_DIR_MAX = 64 };

/* Zero-initialise. */
struct capture_next {
	enum capture_phase { CAPTURE_NONE, CAPTURE_BEGINS, CAPTURE_WAITS, CAPTURE_STOPS } phase;
	struct background_opts o;
	struct background background;
	char op[CAPTURE_OP_MAX], dir[CAPTURE_DIR_MAX];
	char last[TOP_MESSAGE_MAX]; /* what the tracing said last */
	unsigned files;		    /* saved so far */
};

/* Wait for the next call of `op`, with the engine `engine` (enum engine_choice), into a new folder
 * here; says what it does, or why it cannot. */
void capture_next_begin(struct capture_next *c, struct top *t, pid_t pid, const char *op,
			int engine);

/* Some times a second: say how it went. */
void capture_next_tick(struct capture_next *c, struct top *t);

/* Wait no longer; false when nothing was waited for. */
bool capture_next_stop(struct capture_next *c, struct top *t);

/* End it, and wait until all is taken out. */
void capture_next_close(struct capture_next *c);

#endif
