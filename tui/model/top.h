/* The live op view while it is on the screen: its state, and the panels, one file each. A panel
 * only draws what is here; top.c reads events and keys. */
#ifndef TUI_MODEL_TOP_H
#define TUI_MODEL_TOP_H

#include "tui/model/source.h"
#include "tui/model/undo.h"
#include "tui/model/view.h"
#include "tui/screen/lines.h"
#include "tui/screen/screen.h"

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
	struct source *source; /* NULL: nothing was recorded yet */
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

#endif
