/* Actions of keys on the traced process: capture, change of functions, stacks. */
#ifndef TUI_ACTIONS_ACTIONS_H
#define TUI_ACTIONS_ACTIONS_H

#include <stdbool.h>
#include <sys/types.h>

#include "tracer/trace_loop.h"
#include "tui/model/top.h"

/* NULL without memory. */
struct actions *actions_new(void);

/* Perform the action of `key` on the selected row, with a message about the outcome. False if the
 * key has no action. */
bool actions_key(struct top *t, int key);

/* Make the change that was asked about, or not. */
void actions_answer(struct top *t, bool yes);

/* Poll for progress, several times a second. */
void actions_tick(struct top *t);

/* The output of the last action: stacks of all threads, or what the changed functions did; NULL:
 * none yet. */
const char *actions_text(const struct actions *a);

/* Stop everything in progress, and free `a` (may be NULL). */
void actions_free(struct actions *a);

/* The calls of a table row as options of a capture. */

struct capture_what {
	char *ops;	/* for --ops; NULL: all */
	char *when;	/* for --when; NULL: none */
	char text[192]; /* "aten::linear at train.py:12" */
};

/* The calls of a row of the view's grouping: op, source line, shapes or thread. False, with a
 * message, if options cannot select them. Free *out with capture_what_free either way. */
bool capture_row(struct top *t, const struct grouping_row *row, struct capture_what *out);

/* The last call of a row, valid until the next call of the player. False, with a message, if it is
 * unknown or the row is of something that no program calls. */
bool capture_row_op(struct top *t, const struct grouping_row *row, struct op_event *last);

void capture_what_free(struct capture_what *w);

/* Capturing the next of the selected calls, by a second tracer (tracer/background.c) that ends with
 * that call. */

enum { CAPTURE_DIR_MAX = 64 };

/* Zero-initialise. */
struct capture_next {
	enum capture_phase { CAPTURE_NONE, CAPTURE_BEGINS, CAPTURE_WAITS, CAPTURE_STOPS } phase;
	struct background_opts o;
	struct background background;
	struct capture_what what;
	char dir[CAPTURE_DIR_MAX];
	char last[TOP_MESSAGE_MAX]; /* last message of the tracer */
	unsigned files;		    /* number saved so far */
};

/* Wait for the next call of `what` (takes it over) with `engine` (enum engine_choice), and capture
 * it into a new folder in the current directory. Reports success or the reason of failure with a
 * message. */
void capture_next_begin(struct capture_next *c, struct top *t, pid_t pid, struct capture_what *what,
			int engine);

/* Poll for progress, several times a second; reports it with messages. */
void capture_next_tick(struct capture_next *c, struct top *t);

/* Stop waiting; false if it was not. */
bool capture_next_stop(struct capture_next *c, struct top *t);

/* Stop waiting, and return once all probes are removed. */
void capture_next_close(struct capture_next *c);

/* Changing what functions of the process do: by a ditrace of its own (tracer/background.c), or
 * through one that already changes functions there (tracer/intervene/intervene.h). */

enum { CHANGES_MAX = 16, CHANGE_NAME_MAX = 128 };

/* Zero-initialise. */
struct change {
	pid_t pid;
	bool running, stopping; /* state of the ditrace of its own */
	struct background_opts o;
	struct background background;
	struct {
		enum intervene_feature feature;
		char name[CHANGE_NAME_MAX];
	} done[CHANGES_MAX];
	unsigned n;
	char *text; /* its output, once it has ended; NULL before */
};

/* Whether functions of `pid` can be changed now; if not, a message says why. `reachable`: another
 * ditrace can attach to the process. */
bool change_can(const struct change *c, struct top *t, pid_t pid, bool reachable,
		enum intervene_feature feature);

/* Change the function `name` of `pid` from its next call on; reports success or failure with a
 * message. */
void change_add(struct change *c, struct top *t, pid_t pid, enum intervene_feature feature,
		const char *name);

/* Undo the last change; false if there is none. */
bool change_undo(struct change *c, struct top *t);

/* Poll for messages, several times a second. True once it has ended and c->text is new. */
bool change_tick(struct change *c, struct top *t);

/* Undo all changes, and free everything. */
void change_close(struct change *c);

#endif
