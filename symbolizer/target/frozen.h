/* Processes in a frozen control group (cgroups(7)), which no signal reaches and of which no thread
 * can be stopped. */
#ifndef SYMBOLIZER_TARGET_FROZEN_H
#define SYMBOLIZER_TARGET_FROZEN_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* Who froze it: the file of the group that is frozen, its own or one above, and the word that thaws
 * it: cgroup.freeze and "0" (Documentation/admin-guide/cgroup-v2.rst), freezer.state and "THAWED"
 * (cgroup-v1/freezer-subsystem.rst). */
struct frozen {
	char file[PATH_MAX];
	const char *word;
};

/* Whether the process is in a frozen group, as far as the groups can be seen here. */
bool frozen_find(pid_t pid, struct frozen *out);

/* "process PID is frozen", what that means for `what` ("it is traced when it is thawed"), and how
 * to thaw it. Returns -EAGAIN. */
int frozen_error(pid_t pid, const struct frozen *f, const char *what, struct err *e);

#endif
