/* State of the live view, and its panels, one file each. Panels only draw what is here; top.c reads
 * events and keys. */
#ifndef TUI_MODEL_TOP_H
#define TUI_MODEL_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/table.h"
#include "tracer/trace_loop.h"
#include "tui/model/view.h"
#include "tui/screen/screen.h"

/* The player: reads a trace file, complete or still being written, and plays it at its own speed or
 * another. */

enum player_state {
	PLAYER_GOES_ON,
	PLAYER_WAITS, /* at the end of a file still being written */
	PLAYER_ENDED, /* at the end of a complete file */
	PLAYER_BROKEN /* truncated or damaged, see player_trouble */
};

struct player;

/* `speed`: seconds of the trace per second; 0: as fast as possible. 0 with *out, or -errno with *e.
 */
int player_open(const char *path, double speed, struct player **out, struct err *e);

/* Give `v` all events due by now, until `deadline_ns` (CLOCK_MONOTONIC) at most. 0 or -ENOMEM. */
int player_take(struct player *s, struct view *v, uint64_t deadline_ns);

enum player_state player_state(const struct player *s);

/* Why the file is PLAYER_BROKEN. */
const struct err *player_trouble(const struct player *s);

void player_set_speed(struct player *s, double speed);
double player_speed(const struct player *s);

/* Continue from the present trace time after a pause. */
void player_resume(struct player *s);

/* Decode a call that was kept (size > 0); valid until the next call of a player function other than
 * the getters. 0 or -errno with *e. */
int player_decode(struct player *s, const struct grouping_call *call, struct op_event *out,
		  struct err *e);

void player_close(struct player *s);

/* Files made by keys, for undo. */

enum { UNDO_STEPS = 16, UNDO_PATH = 256 };

/* Zero-initialise. */
struct undo {
	struct undo_step {
		char path[UNDO_PATH];
	} steps[UNDO_STEPS]; /* when full the oldest is forgotten, and its file stays */
	unsigned n;
};

/* Record that this program created `path`, a file or folder. */
void undo_made(struct undo *u, const char *path);

/* Delete the newest, folders with all content. 1 with its path in out; 0: nothing to undo; -errno
 * with its path in out. */
int undo_last(struct undo *u, char *out, size_t size);

struct actions;
struct live;

/* Figures of the process from /proc. */
struct top_process {
	bool known;
	double cpu_percent; /* of one core; -1: unknown yet */
	uint64_t rss_bytes;
	unsigned threads;
};

enum top_panel { TOP_TABLE, TOP_DETAIL, TOP_HELP, TOP_TEXT };

enum { TOP_MESSAGE_MAX = 512, TOP_HEAD_LINES = 4, TOP_DRAWN_MAX = 512 };

struct top {
	struct view *view;
	struct player *player; /* NULL: no trace yet */
	struct live *live;     /* NULL: a recorded file */
	struct actions *acts;  /* NULL without `live` */
	struct undo undo;
	struct top_process process;
	struct file_names files; /* of the rows drawn so far */
	enum top_panel panel;
	size_t selected, first;	      /* index of the selected row; of the top row */
	int64_t chosen;		      /* view_id of the selected row as last drawn; -1: none */
	bool sticks;		      /* the selection stays on that row, else on its place */
	int64_t drawn[TOP_DRAWN_MAX]; /* view_id of the rows drawn, from `first` on */
	size_t ndrawn;
	uint32_t detail;     /* of TOP_DETAIL: row id in view_all(view, view_group(view)) */
	size_t scroll;	     /* of all panels but the table: index of the top line */
	int left;	     /* columns scrolled off to the left */
	bool paused, typing; /* typing: keys edit the filter */
	bool quit;
	enum top_question { TOP_ASKS_NOTHING, TOP_ASKS_CHANGE, TOP_ASKS_KEEP } asks;
	char question[TOP_MESSAGE_MAX]; /* what the next key answers */
	struct lines lines;		/* the lines of these panels */
	char message[TOP_MESSAGE_MAX];	/* about the last key, or "" */
};

/* Draw lines 0 to TOP_HEAD_LINES - 1. */
void panel_head(const struct top *t);

/* Draw the table from line `y` on, `height` lines with its header; clamps selection and scrolling.
 */
void panel_table(struct top *t, int y, int height);

/* The column under screen column x of the table's header; VIEW_COLUMNS: none. */
enum view_column panel_table_column(const struct top *t, int x);

/* Fill t->lines with the details of t->detail. 0 or -ENOMEM. */
int panel_detail(struct top *t);

/* Fill t->lines with the key bindings. 0 or -ENOMEM. */
int panel_help(struct top *t);

/* Fill t->lines with actions_text. 0 or -ENOMEM. */
int panel_text(struct top *t);

/* Draw the status line, the last of the screen. */
void panel_status(const struct top *t, int y);

/* Set the message of the status line. */
__attribute__((format(printf, 2, 3))) void top_say(struct top *t, const char *format, ...);

/* Ask in the status line; the next key is the answer. */
__attribute__((format(printf, 3, 4))) void top_ask(struct top *t, enum top_question question,
						   const char *format, ...);

/* Select the row `id` in view_all of the present grouping, and clear the filter that may hide it.
 */
void top_jump(struct top *t, uint32_t id);

/* Live tracing. The tracer runs in the background (tracer/background.c) and writes a file that the
 * view reads, so that the screen never slows it down. */

struct live_opts {
	struct background_opts background; /* session.output NULL: a temporary file */
	uint64_t limit; /* of the file, bytes; at the limit counting starts anew in a new file; 0:
			   none */
};

struct live;

/* Start tracing; `o` must outlive it. 0 with *out, or -errno with *e. */
int live_open(const struct live_opts *o, struct live **out, struct err *e);

/* Poll, several times a second: read figures of the process, open the file once it exists, report
 * messages. May set t->player. 0 or -ENOMEM, after which the view may only be freed. */
int live_tick(struct live *l, struct top *t);

/* Sample the state of its threads. 0 or -ENOMEM, after which the view may only be freed. */
int live_look(struct live *l, struct view *v);

/* Whether options leave some outermost ops out of the trace. */
bool live_leaves_out(const struct live *l);

/* What is waited for while no process is known, for a line. */
const char *live_waits_for(const struct live *l, char *out, size_t size);

/* "tracing", "detached", "ended". */
const char *live_state(const struct live *l);

/* The process; 0: ended, or unknown yet. */
pid_t live_process(const struct live *l);

bool live_has_ended(const struct live *l);

/* Whether probes are in the process, or being removed. */
bool live_is_tracing(const struct live *l);

/* Start removing the probes; the process keeps running. */
void live_detach(struct live *l, struct top *t);

/* Trace the process again into a new file, and count from zero, as the time in between is unknown.
 * Reports with a message. */
void live_attach(struct live *l, struct top *t);

/* Copy the trace so far into a new file in the current directory; reports with a message. */
void live_save(struct live *l, struct top *t);

/* The size of the recorded trace if live_close will remove it, else 0; keep it. */
uint64_t live_unkept(const struct live *l);
void live_keep(struct live *l);

/* Stop tracing, wait until probes are removed, write the trace that is to be kept into the current
 * directory, and free `l` (may be NULL). With `tell`, prints pending messages on stderr. */
void live_close(struct live *l, bool tell);

/* CPU time, memory and threads of a process, from /proc. */

/* One for each process. Zero-initialise. */
struct proc_figures {
	uint64_t read_ns, cpu_ns; /* time of the last reading, and CPU time then */
	double percent;
};

/* Fill *out; reads /proc at most once a second. False if the process is gone. */
bool proc_figures_read(struct proc_figures *f, pid_t pid, struct top_process *out);

/* Key bindings of the live view. */

/* Handle one key of screen_key; y and x are the position of a click. 0 or -ENOMEM. */
int keys_press(struct top *t, int key, int y, int x);

/* processes.c: the processes that run PyTorch, as /proc shows them. */

struct listed_process {
	pid_t pid;
	uint64_t start_ticks; /* with pid, an identity */
	uid_t uid;
	bool torch;	    /* libtorch_cpu is mapped; or `hidden` and it is a Python by its name */
	bool hidden;	    /* this user may not see what is mapped */
	double cpu_percent; /* of one core, since the last look; -1: not known yet */
	uint64_t age_ns;
	char command[1024]; /* the program without its folder, and its arguments */
	struct err why; /* why this user may not trace it; code 0: nothing is known against it */
	/* For the next look. */
	uint64_t pages, cpu_ns, at_ns;
	bool seen;
};

/* Zero-initialise. */
struct processes {
	struct listed_process *list; /* by age, oldest first, also those without PyTorch */
	size_t n, room;
};

/* Look at all processes but this one. 0, -ENOMEM, or -errno of opening /proc. */
int processes_look(struct processes *p);

void processes_free(struct processes *p);

#endif
