/* What functions of the process do, changed: by a ditrace of its own (tracer/background.h), or by
 * the one that changes them already (tracer/intervene/intervene_ctl.h). */
#ifndef TUI_ACTIONS_CHANGE_H
#define TUI_ACTIONS_CHANGE_H

#include "tracer/background.h"
#include "tui/model/top.h"

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

#endif
