/* Where the view's events come from: a trace file, whole or being written, at its own speed or
 * another. */
#ifndef TUI_MODEL_SOURCE_H
#define TUI_MODEL_SOURCE_H

#include "base/err.h"
#include "tui/model/view.h"

enum source_state {
	SOURCE_GOES_ON,
	SOURCE_WAITS, /* all there is was read, and the file is still being written */
	SOURCE_ENDED, /* whole */
	SOURCE_BROKEN /* it is cut or damaged: source_trouble says where */
};

struct source;

/* `speed`: seconds of the trace in a second; 0: as fast as it can be read. 0 and *out, or -errno
 * with *e. */
int source_open(const char *path, double speed, struct source **out, struct err *e);

/* Give `v` what has come up to now, for no longer than until `deadline_ns` (CLOCK_MONOTONIC). 0 or
 * -ENOMEM. */
int source_take(struct source *s, struct view *v, uint64_t deadline_ns);

enum source_state source_state(const struct source *s);

/* Why the state is SOURCE_BROKEN. */
const struct err *source_trouble(const struct source *s);

void source_set_speed(struct source *s, double speed);
double source_speed(const struct source *s);

/* The trace's time goes on from here, after a pause. */
void source_resume(struct source *s);

/* A call that was kept (size > 0), decoded; valid until the next call of any function of the source
 * but those that only tell. 0 or -errno with *e. */
int source_decode(struct source *s, const struct grouping_call *call, struct op_event *out,
		  struct err *e);

void source_close(struct source *s);

#endif
