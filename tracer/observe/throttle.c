/* For how long the kernel kept a control group from processors, as it had used up its quota:
 * cpu.stat.local, from Linux 6.6, has that of groups above as well; cpu.stat only a group's own
 * (Documentation/admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "symbolizer/target/cgroup.h"
#include "symbolizer/target/target_files.h"
#include "tracer/observe/internal.h"

bool throttle_in_text(const char *text, uint64_t *ns)
{
	for (const char *line = text; line; line = (line = strchr(line, '\n')) ? line + 1 : NULL) {
		if (sscanf(line, "throttled_time %" SCNu64, ns) == 1)
			return true;
		if (sscanf(line, "throttled_usec %" SCNu64, ns) == 1) {
			*ns *= 1000;
			return true;
		}
	}
	return false;
}

static bool throttle_of(int fd, uint64_t *ns)
{
	char text[1024];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	return throttle_in_text(text, ns);
}

/* Hazard: a process may have mounted something else there, a read of which waits. */
static int check_group_file(int fd)
{
	struct statfs fs;
	if (fd >= 0 && !fstatfs(fd, &fs) &&
	    (fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* `files`: of the process whose mounts they are below; NULL: ditrace's own. */
static int open_in_group(struct target_files *files, const char *folder, const char *name)
{
	char path[PATH_MAX + 32];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return check_group_file(files ? target_files_open(files, path, false)
				      : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

/* Open a file of the group, if it tells. */
static bool throttle_open(struct throttle *t, struct target_files *files, const char *folder,
			  const char *name)
{
	uint64_t ns;
	int fd = t->n < THROTTLE_FILES ? open_in_group(files, folder, name) : -1;
	if (fd >= 0 && throttle_of(fd, &ns)) {
		t->fds[t->n++] = fd;
		return true;
	}
	if (fd >= 0)
		close(fd);
	return false;
}

static bool has_file(struct target_files *files, const char *folder, const char *name)
{
	int fd = open_in_group(files, folder, name);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Only the root of all groups has, of version 1, release_agent, and lacks, of version 2,
 * cgroup.type. Of a container, the mount may begin below it. */
static bool is_root(struct target_files *files, const char *folder, bool is_v1)
{
	return is_v1 ? has_file(files, folder, "release_agent")
		     : has_file(files, folder, "cgroup.procs") &&
			   !has_file(files, folder, "cgroup.type");
}

/* From the process's group upwards. A group without the controller is part of that above. */
static void open_groups(struct throttle *t, struct target_files *files, struct cgroup_place *at,
			bool is_v1)
{
	for (;;) {
		if (!t->n && throttle_open(t, files, at->folder, "cpu.stat.local")) {
			t->is_known = true;
			return;
		}
		throttle_open(t, files, at->folder, "cpu.stat");
		char *slash = strrchr(at->folder + at->top, '/');
		if (!slash)
			break;
		*slash = '\0';
	}
	t->is_least = t->n == THROTTLE_FILES || !at->is_whole || !is_root(files, at->folder, is_v1);
	t->is_known = t->n || !t->is_least;
}

static void open_below_mounts(struct throttle *t, pid_t pid, const char *group, bool is_v1,
			      bool of_target)
{
	struct cgroup_place at;
	struct target_files *files = NULL;
	if (!cgroup_find(of_target ? pid : 0, is_v1 ? "cpu" : "", group, &at) ||
	    (of_target && !(files = target_files_new(pid))))
		return;
	open_groups(t, files, &at, is_v1);
	target_files_free(files);
}

static bool throttle_sum(const struct throttle *t, uint64_t *ns)
{
	bool is_known = t->is_known;
	*ns = 0;
	for (size_t i = 0; i < t->n; i++) {
		uint64_t one = 0;
		is_known &= throttle_of(t->fds[i], &one);
		*ns += one;
	}
	return is_known;
}

/* A shell may put itself into a group before it becomes the rank: the count goes on. */
void throttle_find(struct throttle *t, pid_t pid)
{
	char group[PATH_MAX] = "";
	const bool is_v1 = cgroup_of(pid, "cpu", group);
	if ((!is_v1 && !cgroup_of(pid, "", group)) || !strcmp(group, t->group))
		return;
	throttle_free(t);
	strcpy(t->group, group);
	open_below_mounts(t, pid, group, is_v1, false);
	if (!t->is_known)
		open_below_mounts(t, pid, group, is_v1, true);
	throttle_sum(t, &t->before_ns);
}

void throttle_read(struct throttle *t, struct trace_usage *out)
{
	uint64_t ns;
	out->is_throttled_known = throttle_sum(t, &ns);
	out->throttled_is_least = t->is_least;
	if (!out->is_throttled_known)
		return;
	out->throttled_ns += ns > t->before_ns ? ns - t->before_ns : 0;
	t->before_ns = ns;
}

void throttle_free(struct throttle *t)
{
	for (size_t i = 0; i < t->n; i++)
		close(t->fds[i]);
	*t = (struct throttle){0};
}
