#define _GNU_SOURCE
#include "symbolizer/target/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbolizer/target/cgroup.h"

/* The two kinds of control groups. */
struct cgroup_kind {
	const char *controller;
	const char *state, *frozen;
	const char *own, *asked; /* the file that a group was frozen with, and what it has then */
	const char *thaw, *word;
};

static const struct cgroup_kind cgroup_kinds[] = {
    {"", "cgroup.events", "frozen 1", "cgroup.freeze", "1", "cgroup.freeze", "0"},
    {"freezer", "freezer.state", "FR", "freezer.self_freezing", "1", "freezer.state", "THAWED"},
};

/* On a file system of the kernel's own: whoever names the groups can put no link there. */
static bool group_has(const char *folder, const char *name, const char *word)
{
	char path[PATH_MAX + 64], text[256];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = '\0';
	return strstr(text, word);
}

/* The group, of this one and those above, that was frozen itself. */
static void group_find_own(const struct cgroup_kind *k, char folder[PATH_MAX], struct frozen *out)
{
	char at[PATH_MAX];
	strcpy(at, folder);
	for (char *slash; !group_has(at, k->own, k->asked) && (slash = strrchr(at, '/'));)
		*slash = '\0';
	snprintf(out->file, sizeof(out->file), "%.*s/%s", PATH_MAX - 64, *at ? at : folder,
		 k->thaw);
	out->word = k->word;
}

bool frozen_find(pid_t pid, struct frozen *out)
{
	for (size_t i = 0; i < sizeof(cgroup_kinds) / sizeof(cgroup_kinds[0]); i++) {
		const struct cgroup_kind *k = &cgroup_kinds[i];
		char group[PATH_MAX];
		struct cgroup_place at;
		if (!cgroup_of(pid, k->controller, group) ||
		    !cgroup_find(0, k->controller, group, &at) ||
		    !group_has(at.folder, k->state, k->frozen))
			continue;
		group_find_own(k, at.folder, out);
		return true;
	}
	return false;
}

int frozen_error(pid_t pid, const struct frozen *f, const char *what, struct err *e)
{
	err_set(e, -EAGAIN, "process %d is frozen, as its control group is: %s", pid, what);
	return err_hint(e, "thaw it: echo %s > %s", f->word, f->file);
}
