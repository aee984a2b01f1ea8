#define _GNU_SOURCE
#include "symbolizer/target/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/target/process.h"

/* Whether a list "cpu,cpuacct" has the word. */
static bool list_has(const char *list, size_t size, const char *word)
{
	const size_t len = strlen(word);
	for (const char *p = list, *end = list + size;;) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		const size_t n = (size_t)((comma ? comma : end) - p);
		if (n == len && !memcmp(p, word, n))
			return true;
		if (!comma)
			return false;
		p = comma + 1;
	}
}

/* Lines of "ID:CONTROLLERS:PATH". */
bool cgroup_in_list(const char *list, const char *controller, char group[PATH_MAX])
{
	for (const char *line = list; *line;) {
		const size_t n = strcspn(line, "\n");
		const char *names = memchr(line, ':', n),
			   *path = names ? memchr(names + 1, ':', n - (size_t)(names + 1 - line))
					 : NULL;
		const size_t len = path ? n - (size_t)(path + 1 - line) : 0;
		if (path && len < PATH_MAX &&
		    list_has(names + 1, (size_t)(path - names - 1), controller)) {
			memcpy(group, path + 1, len);
			group[len] = '\0';
			return true;
		}
		line += n + (line[n] == '\n');
	}
	return false;
}

bool cgroup_of(pid_t pid, const char *controller, char group[PATH_MAX])
{
	char list[8192];
	return process_file(pid, "cgroup", list, sizeof(list)) > 0 &&
	       cgroup_in_list(list, controller, group);
}

/* Where a mount begins at a group of a container, paths are below that group. */
bool cgroup_on_mount(const char *line, const char *controller, const char *group,
		     struct cgroup_place *out)
{
	char root[PATH_MAX], at[PATH_MAX], type[32], options[256];
	const char *rest = strstr(line, " - ");
	if (!rest || sscanf(rest, " - %31s %*s %255s", type, options) != 2 ||
	    strcmp(type, *controller ? "cgroup" : "cgroup2") != 0 ||
	    (*controller && !list_has(options, strlen(options), controller)) ||
	    sscanf(line, "%*s %*s %*s %4095s %4095s", root, at) != 2)
		return false;
	const size_t n = strcmp(root, "/") ? strlen(root) : 0;
	if (strncmp(group, root, n) != 0 || (group[n] && group[n] != '/') ||
	    strstr(group + n, "/.."))
		return false;
	out->top = strlen(at);
	out->is_whole = !n;
	return snprintf(out->folder, sizeof(out->folder), "%s%s", at,
			strcmp(group + n, "/") ? group + n : "") < (int)sizeof(out->folder);
}

bool cgroup_find(pid_t pid, const char *controller, const char *group, struct cgroup_place *out)
{
	char path[64] = "/proc/self/mountinfo", *line = NULL;
	size_t room = 0;
	bool is_found = false;
	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/mountinfo", pid);
	FILE *f = fopen(path, "re");
	while (f && !is_found && getline(&line, &room, f) > 0)
		is_found = cgroup_on_mount(line, controller, group, out);
	free(line);
	if (f)
		fclose(f);
	return is_found;
}
