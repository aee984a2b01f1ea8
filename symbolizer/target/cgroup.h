/* The control groups of processes (cgroups(7)). */
#ifndef SYMBOLIZER_TARGET_CGROUP_H
#define SYMBOLIZER_TARGET_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Where a group is seen. */
struct cgroup_place {
	char folder[PATH_MAX];
	size_t top; /* the length of the mount, with which it begins; above that nothing is seen */
	bool is_whole; /* as far as the mount tells, that is the root of all groups */
};

/* The group of process `pid` that `controller` ("freezer", "cpu") acts on in version 1, or, with
 * "", its group in version 2. False if there is none. */
bool cgroup_of(pid_t pid, const char *controller, char group[PATH_MAX]);

/* The same from the text of /proc/PID/cgroup. */
bool cgroup_in_list(const char *list, const char *controller, char group[PATH_MAX]);

/* Where that group is seen below the mounts of process `pid`; 0: of ditrace itself. False if it is
 * not. */
bool cgroup_find(pid_t pid, const char *controller, const char *group, struct cgroup_place *out);

/* The same by one line of /proc/PID/mountinfo (proc_pid_mountinfo(5)). */
bool cgroup_on_mount(const char *line, const char *controller, const char *group,
		     struct cgroup_place *out);

#endif
