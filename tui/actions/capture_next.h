/* The next of some calls of a traced process, captured by a second tracing of its own
 * (tracer/background.h), which ends with the call. */
#ifndef TUI_ACTIONS_CAPTURE_NEXT_H
#define TUI_ACTIONS_CAPTURE_NEXT_H

#include "tracer/background.h"
#include "tui/actions/capture_row.h"

enum { CAPTURE_DIR_MAX = 64 };

/* Zero-initialise. */
struct capture_next {
	enum capture_phase { CAPTURE_NONE, CAPTURE_BEGINS, CAPTURE_WAITS, CAPTURE_STOPS } phase;
	struct background_opts o;
	struct background background;
	struct capture_what what;
	char dir[CAPTURE_DIR_MAX];
	char last[TOP_MESSAGE_MAX]; /* what the tracing said last */
	unsigned files;		    /* saved so far */
};

/* Wait for the next call of `what` (taken over), with the engine `engine` (enum engine_choice),
 * into a new folder here; says what it does, or why it cannot. */
void capture_next_begin(struct capture_next *c, struct top *t, pid_t pid, struct capture_what *what,
			int engine);

/* Some times a second: say how it went. */
void capture_next_tick(struct capture_next *c, struct top *t);

/* Wait no longer; false when nothing was waited for. */
bool capture_next_stop(struct capture_next *c, struct top *t);

/* End it, and wait until all is taken out. */
void capture_next_close(struct capture_next *c);

#endif
