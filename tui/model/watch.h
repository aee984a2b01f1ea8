/* Looks at whether the threads of a process run. */
#ifndef TUI_MODEL_WATCH_H
#define TUI_MODEL_WATCH_H

#include <sys/types.h>

#include "tui/model/off_op.h"
#include "tui/model/view.h"

/* Zero-initialise. */
struct watch {
	pid_t tids[LOOKS_THREADS]; /* those with events that have not ended, the newest first */
	size_t n;
	uint64_t chosen_ns, looked_ns;
};

/* Tell `v` whether those of its threads that belong to `pid` run now; at most 25 times a second. 0
 * or -ENOMEM as view_add. */
int watch_look(struct watch *w, pid_t pid, struct view *v);

#endif
