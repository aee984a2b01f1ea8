/* What keys do with the process that is traced, besides tracing it. */
#ifndef TUI_ACTIONS_ACTIONS_H
#define TUI_ACTIONS_ACTIONS_H

#include <stdbool.h>
#include <sys/types.h>

#include "tracer/background.h"
#include "tui/model/top.h"

/* NULL without memory. */
struct actions *actions_new(void);

/* Do what `key` means for the row with the cursor; says what it did, or why it cannot. False when
 * it is none of these keys. */
bool actions_key(struct top *t, int key);

/* Some times a second: see what has become of it. */
void actions_tick(struct top *t);

/* What a key has asked for last: the stacks of all threads, or what the changed functions did;
 * NULL: nothing yet. */
const char *actions_text(const struct actions *a);

/* End what goes on, and free `a` (may be NULL). */
void actions_free(struct actions *a);

/* Which calls a row of the table is of, as the options of a capture say it. */

struct capture_what {
	char *ops;	/* a list for --ops; NULL: all */
	char *when;	/* a condition for --when; NULL: none */
	char text[192]; /* "aten::linear at train.py:12" */
};

/* The calls of a row of the view's grouping: op, source line, shapes, thread. False when they
 * cannot be chosen, and why was said. Free *out with capture_what_free either way. */
bool capture_row(struct top *t, const struct grouping_row *row, struct capture_what *out);

/* The last call of a row that is of one op, in *last until the player is asked again. False when it
 * is not known or no op that a program calls, and that was said. */
bool capture_row_op(struct top *t, const struct grouping_row *row, struct op_event *last);

void capture_what_free(struct capture_what *w);

/* The next of some calls of a traced process, captured by a second tracing of its own
 * (tracer/background.h), which ends with the call. */

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

/* What functions of the process do, changed: by a ditrace of its own (tracer/background.h), or by
 * the one that changes them already (tracer/intervene/intervene.h). */

enum { CHANGES_MAX = 16, CHANGE_NAME_MAX = 128 };

/* Zero-initialise. */
struct change {
	pid_t pid;
	bool running, stopping; /* the ditrace of its own */
	struct background_opts o;
	struct background background;
	struct {
		enum intervene_feature feature;
		char name[CHANGE_NAME_MAX];
	} done[CHANGES_MAX];
	unsigned n;
	char *text; /* what was told in all, once it has ended; NULL: not yet */
};

/* From its next call on the function `name` of `pid` is to do that; says so, or why not.
 * `reachable`: nothing keeps another ditrace from entering the process. */
void change_add(struct change *c, struct top *t, pid_t pid, bool reachable,
		enum intervene_feature feature, const char *name);

/* Take back the last of them; false when there is none. */
bool change_undo(struct change *c, struct top *t);

/* Some times a second: say what has come. True when it has ended and c->text is new. */
bool change_tick(struct change *c, struct top *t);

/* Take all back, and free what there is. */
void change_close(struct change *c);

/* What all threads of a process do now, looked at by a process of its own: neither a slow look nor
 * a stopped thread keeps the screen up, and ending it lets all threads go. */

/* Zero-initialise. */
struct stacks {
	pid_t child; /* that looks; 0: none does */
	int out;     /* file with what it says, while there is a child */
	char *text;  /* of the last look that ended: what ditrace stack prints, or why there is
			nothing; NULL: none yet */
};

/* Begin to look at `pid`; nothing happens while a look goes on. 0 or -errno. */
int stacks_look(struct stacks *s, pid_t pid);

/* Whether a look has ended since the last call, and s->text is new. */
bool stacks_came(struct stacks *s);

/* End a look that goes on, and free what there is. */
void stacks_close(struct stacks *s);

#endif
