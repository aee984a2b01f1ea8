#define _GNU_SOURCE
#include "symbolizer/target/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The two kinds of control groups. */
struct cgroup_kind {
	const char *type, *option; /* of the file system's mount; NULL: any */
	const char *controller;	   /* in the process's list of groups */
	const char *state, *frozen;
	const char *own, *asked; /* the file that a group was frozen with, and what it has then */
	const char *thaw, *word;
};

static const struct cgroup_kind cgroup_kinds[] = {
    {"cgroup2", NULL, "", "cgroup.events", "frozen 1", "cgroup.freeze", "1", "cgroup.freeze", "0"},
    {"cgroup", "freezer", "freezer", "freezer.state", "FR", "freezer.self_freezing", "1",
     "freezer.state", "THAWED"},
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

/* The process's group in the list "ID:CONTROLLERS:PATH" (cgroups(7)), a line each; cuts the list.
 */
static const char *group_of(char *list, const struct cgroup_kind *k)
{
	for (char *line = list, *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		char *controllers = strchr(line, ':'),
		     *path = controllers ? strchr(++controllers, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		if (!strcmp(controllers, k->controller))
			return path;
	}
	return NULL;
}

/* Where that group is seen: below a mount of its kind (proc_pid_mountinfo(5)), which begins at the
 * group `root`. */
static bool group_folder(const struct cgroup_kind *k, const char *group, char folder[PATH_MAX])
{
	char *line = NULL;
	size_t room = 0;
	bool found = false;
	FILE *f = fopen("/proc/self/mountinfo", "re");
	while (f && !found && getline(&line, &room, f) > 0) {
		char root[PATH_MAX], at[PATH_MAX], type[32], options[256];
		const char *rest = strstr(line, " - ");
		if (!rest || sscanf(rest, " - %31s %*s %255s", type, options) != 2 ||
		    strcmp(type, k->type) != 0 || (k->option && !strstr(options, k->option)) ||
		    sscanf(line, "%*s %*s %*s %4095s %4095s", root, at) != 2)
			continue;
		size_t n = strcmp(root, "/") ? strlen(root) : 0;
		found = !strncmp(group, root, n) &&
			snprintf(folder, PATH_MAX, "%s%s", at, group + n) < PATH_MAX;
	}
	free(line);
	if (f)
		fclose(f);
	return found;
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
		char list[8192], folder[PATH_MAX];
		const char *group =
		    process_file(pid, "cgroup", list, sizeof(list)) > 0 ? group_of(list, k) : NULL;
		if (!group || !group_folder(k, group, folder) ||
		    !group_has(folder, k->state, k->frozen))
			continue;
		group_find_own(k, folder, out);
		return true;
	}
	return false;
}

int frozen_error(pid_t pid, const struct frozen *f, const char *what, struct err *e)
{
	err_set(e, -EAGAIN, "process %d is frozen, as its control group is: %s", pid, what);
	return err_hint(e, "thaw it: echo %s > %s", f->word, f->file);
}
