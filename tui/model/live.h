/* A process that is traced while its events are shown. Tracing runs by itself (tracer/background.h)
 * and writes a file, which the view reads: the screen keeps nothing up. */
#ifndef TUI_MODEL_LIVE_H
#define TUI_MODEL_LIVE_H

#include "tracer/background.h"
#include "tui/model/top.h"

struct live_opts {
	struct background_opts background; /* session.output: NULL for a file that is removed */
	uint64_t limit;			   /* bytes of the file, 0: none; then all begins anew */
};

struct live;

/* Begin to trace; `o` must outlive it. 0 and *out, or -errno with *e. */
int live_open(const struct live_opts *o, struct live **out, struct err *e);

/* Do what is due, some times a second: read the process's figures, open the file when it is there,
 * say what has happened. May set t->source. 0 or -ENOMEM, after which the view is to be freed. */
int live_tick(struct live *l, struct top *t);

/* Look at whether its threads run. 0 or -ENOMEM, after which the view is to be freed. */
int live_look(struct live *l, struct view *v);

/* Whether ops that others do not call are left out of the trace. */
bool live_leaves_out(const struct live *l);

/* "tracing", "detached", "ended". */
const char *live_state(const struct live *l);

/* The process, 0: it has ended or is not known yet. */
pid_t live_process(const struct live *l);

bool live_has_ended(const struct live *l);

/* Whether probes are in it, or come out just now. */
bool live_is_tracing(const struct live *l);

/* Take the probes out; the process runs on. */
void live_detach(struct live *l, struct top *t);

/* Trace the process again, into a new file, and count anew, for what happened in between is not
 * known. Says what it did. */
void live_attach(struct live *l, struct top *t);

/* Copy the trace so far into a new file in the current folder; says where. */
void live_save(struct live *l, struct top *t);

/* Stop tracing, wait until all is taken out, and free `l` (may be NULL). Prints what a user should
 * know on stderr when `tell`. */
void live_close(struct live *l, bool tell);

#endif
