#define _GNU_SOURCE
#include "tracer/proc/devices.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* `here` exists where there is a device, `used` is open in processes that compute on it; CUDA opens
 * nvidia-uvm, which what only asks for the state of a device (NVML) does not. */
static const struct device {
	const char *here, *used, *variable;
} devices[] = {
    {"/dev/nvidiactl", "/dev/nvidia-uvm", "CUDA_VISIBLE_DEVICES"},
    {"/dev/dxg", "/dev/dxg", "CUDA_VISIBLE_DEVICES"}, /* CUDA on WSL */
    {"/dev/kfd", "/dev/kfd", "HIP_VISIBLE_DEVICES"},
    {"/dev/davinci_manager", "/dev/davinci_manager", "ASCEND_RT_VISIBLE_DEVICES"},
};

enum { DEVICES = sizeof(devices) / sizeof(devices[0]) };

const char *devices_here(void)
{
	for (size_t i = 0; i < DEVICES; i++) {
		const char *visible = getenv(devices[i].variable);
		if ((!visible || (*visible && strcmp(visible, "-1") != 0)) &&
		    !access(devices[i].here, F_OK))
			return devices[i].here;
	}
	return NULL;
}

static const char *used_by(const char *link)
{
	for (size_t i = 0; i < DEVICES; i++)
		if (!strcmp(link, devices[i].used))
			return devices[i].used;
	return NULL;
}

const char *devices_of(pid_t pid)
{
	char path[64], link[PATH_MAX];
	const char *found = NULL;
	struct dirent *d;
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	DIR *dir = opendir(path);
	while (dir && !found && (d = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), d->d_name, link, sizeof(link) - 1);
		link[n < 0 ? 0 : n] = '\0';
		found = used_by(link);
	}
	if (dir)
		closedir(dir);
	return found;
}
