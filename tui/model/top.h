/* The live op view while it is on the screen: its state, and the panels, one file each. A panel
 * only draws what is here; top.c reads events and keys. */
#ifndef TUI_MODEL_TOP_H
#define TUI_MODEL_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "tracer/background.h"
#include "tui/model/view.h"
#include "tui/screen/screen.h"

/* Where the view's events come from: a trace file, whole or being written, at its own speed or
 * another. */

enum player_state {
	PLAYER_GOES_ON,
	PLAYER_WAITS, /* all there is was read, and the file is still being written */
	PLAYER_ENDED, /* whole */
	PLAYER_BROKEN /* it is cut or damaged: player_trouble says where */
};

struct player;

/* `speed`: seconds of the trace in a second; 0: as fast as it can be read. 0 and *out, or -errno
 * with *e. */
int player_open(const char *path, double speed, struct player **out, struct err *e);

/* Give `v` what has come up to now, for no longer than until `deadline_ns` (CLOCK_MONOTONIC). 0 or
 * -ENOMEM. */
int player_take(struct player *s, struct view *v, uint64_t deadline_ns);

enum player_state player_state(const struct player *s);

/* Why the state is PLAYER_BROKEN. */
const struct err *player_trouble(const struct player *s);

void player_set_speed(struct player *s, double speed);
double player_speed(const struct player *s);

/* The trace's time goes on from here, after a pause. */
void player_resume(struct player *s);

/* A call that was kept (size > 0), decoded; valid until the next call of any function of the player
 * but those that only tell. 0 or -errno with *e. */
int player_decode(struct player *s, const struct grouping_call *call, struct op_event *out,
		  struct err *e);

void player_close(struct player *s);

/* What keys have made, so that it can be taken back. */

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

struct actions;
struct live;

/* What /proc tells of the process now. */
struct top_process {
	bool known;
	double cpu_percent; /* of one core; -1: not known yet */
	uint64_t rss_bytes;
	unsigned threads;
};

enum top_panel { TOP_TABLE, TOP_DETAIL, TOP_HELP, TOP_TEXT };

enum { TOP_MESSAGE_MAX = 512, TOP_HEAD_LINES = 4 };

struct top {
	struct view *view;
	struct player *player; /* NULL: nothing was recorded yet */
	struct live *live;     /* NULL: a file */
	struct actions *acts;  /* with `live` */
	struct undo undo;
	struct top_process process;
	enum top_panel panel;
	size_t selected, first; /* rows of the table: the one with the cursor; the uppermost */
	int64_t chosen;		/* the row that was drawn with the cursor: view_id; -1: none */
	uint32_t detail;	/* TOP_DETAIL: id of the row in view_all(view, view_group(view)) */
	size_t scroll;		/* of all panels but the table: the uppermost line */
	int left;		/* columns that are left of the screen */
	bool paused, typing;	/* typing: keys go to the filter */
	bool quit;
	struct lines lines;	       /* what they show */
	char message[TOP_MESSAGE_MAX]; /* what the last key did; "" */
};

/* Lines 0 to TOP_HEAD_LINES - 1. */
void panel_head(const struct top *t);

/* The table from line `y` on, `height` lines with its header; keeps the cursor on a row and within
 * what is shown. */
void panel_table(struct top *t, int y, int height);

/* The column of the table's header at screen column x; VIEW_COLUMNS: none. */
enum view_column panel_table_column(const struct top *t, int x);

/* Fill t->lines with the details of t->detail. 0 or -ENOMEM. */
int panel_detail(struct top *t);

/* Fill t->lines with the keys. */
int panel_help(struct top *t);

/* Fill t->lines with what a key of actions.h has asked for. */
int panel_text(struct top *t);

/* The last line of the screen. */
void panel_status(const struct top *t, int y);

/* Say in the status line what was done. */
__attribute__((format(printf, 2, 3))) void top_say(struct top *t, const char *format, ...);

/* Show what is in t until the user leaves. 0 or -errno with *e. The screen is open. */
int top_run(struct top *t, struct err *e);

/* A process that is traced while its events are shown. Tracing runs by itself (tracer/background.h)
 * and writes a file, which the view reads: the screen keeps nothing up. */

struct live_opts {
	struct background_opts background; /* session.output: NULL for a file that is removed */
	uint64_t limit;			   /* bytes of the file, 0: none; then all begins anew */
};

struct live;

/* Begin to trace; `o` must outlive it. 0 and *out, or -errno with *e. */
int live_open(const struct live_opts *o, struct live **out, struct err *e);

/* Do what is due, some times a second: read the process's figures, open the file when it is there,
 * say what has happened. May set t->player. 0 or -ENOMEM, after which the view is to be freed. */
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

/* Processor time, memory and threads of a process, from /proc. */

/* Zero-initialise, one for each process. */
struct proc_figures {
	uint64_t read_ns, cpu_ns; /* when it was read last, and what it had used then */
	double percent;
};

/* Fill *out, at most once a second anew. False when the process is not there. */
bool proc_figures_read(struct proc_figures *f, pid_t pid, struct top_process *out);

#endif
