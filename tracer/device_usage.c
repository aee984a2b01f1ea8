#define _GNU_SOURCE
#include "tracer/device_usage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

extern char **environ;

static const char tool[] = "nvidia-smi";

enum { OUTPUT_MOST = 1 << 16, PATIENCE_MS = 10000 };

bool device_usage_there(void)
{
	const char *path = getenv("PATH");
	char file[4096];
	for (size_t n; path && *path; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		snprintf(file, sizeof(file), "%.*s/%s", (int)n, path, tool);
		if (n && !access(file, X_OK))
			return true;
	}
	return false;
}

int device_usage_parse(const char *text, pid_t pid, uint64_t *bytes)
{
	*bytes = 0;
	while (*text) {
		char *end;
		errno = 0;
		long who = strtol(text, &end, 10);
		if (end == text || *end != ',')
			return -EPROTO;
		const char *number = end + 1 + strspn(end + 1, " ");
		unsigned long long mib = strtoull(number, &end, 10);
		bool known = end != number && *number >= '0' && *number <= '9' && !errno;
		size_t rest = strcspn(end, "\n");
		if (known ? rest : who == pid)
			return -EPROTO;
		if (who == pid)
			*bytes += mib << 20;
		text = end + rest + (end[rest] == '\n');
	}
	return 0;
}

static int start(pid_t *child, int *out)
{
	static char *const argv[] = {(char *)tool, "--query-compute-apps=pid,used_memory",
				     "--format=csv,noheader,nounits", NULL};
	posix_spawn_file_actions_t act;
	int fd[2];
	if (pipe2(fd, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&act);
	posix_spawn_file_actions_addopen(&act, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&act, fd[1], 1);
	posix_spawn_file_actions_addopen(&act, 2, "/dev/null", O_WRONLY, 0);
	int r = posix_spawnp(child, tool, &act, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&act);
	close(fd[1]);
	*out = fd[0];
	if (r)
		close(fd[0]);
	return -r;
}

/* All that it prints, to its end. */
static int collect(int fd, char *text)
{
	const uint64_t end = clock_ns(CLOCK_MONOTONIC) + PATIENCE_MS * 1000000ull;
	size_t len = 0;
	ssize_t n = 1;
	while (n > 0 && len < OUTPUT_MOST - 1) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (now >= end)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)((end - now) / 1000000) + 1) < 1)
			continue;
		n = read(fd, text + len, OUTPUT_MOST - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	text[len] = '\0';
	return n ? -EPROTO : 0;
}

int device_usage_read(pid_t pid, uint64_t *bytes)
{
	pid_t child;
	int fd = -1, status = 0, r = start(&child, &fd);
	char *text = r ? NULL : malloc(OUTPUT_MOST);
	if (r)
		return r;
	r = text ? collect(fd, text) : -ENOMEM;
	close(fd);
	if (r)
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (!r)
		r = status ? -EPROTO : device_usage_parse(text, pid, bytes);
	free(text);
	return r;
}
