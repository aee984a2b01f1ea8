#define _GNU_SOURCE
#include "base/run_python.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"

extern char **environ;

void python_drop_empty_folders(void)
{
	const char *path = getenv("PYTHONPATH");
	char *kept = path ? malloc(strlen(path) + 2) : NULL, *end = kept;
	for (const char *s = path; kept && *s;) {
		size_t n = strcspn(s, ":");
		if (n) {
			end = mempcpy(end, s, n);
			*end++ = ':';
		}
		s += n + (s[n] == ':');
	}
	if (!kept)
		return;
	if (end > kept) {
		end[-1] = '\0';
		setenv("PYTHONPATH", kept, 1);
	} else {
		unsetenv("PYTHONPATH");
	}
	free(kept);
}

/* With -c Python looks into the current folder first; sys is built in, and no module is imported
 * before that is over. */
bool python_has(const char *python, const char *module)
{
	static char script[] =
	    "import sys; sys.path[:] = [p for p in sys.path if p]; "
	    "import importlib.util as u; sys.exit(u.find_spec(sys.argv[1]) is None)";
	char *argv[] = {(char *)python, "-c", script, (char *)module, NULL};
	posix_spawn_file_actions_t quiet;
	pid_t pid;
	int status = 1;
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	if (!posix_spawn(&pid, python, &quiet, NULL, argv, environ))
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	posix_spawn_file_actions_destroy(&quiet);
	return !status;
}

static bool look_in(const char *dir, size_t len, const char *module, char *out, size_t size)
{
	static const char *const names[] = {"python3", "python"};
	for (int i = 0; i < 2; i++) {
		int n = snprintf(out, size, "%.*s/%s", (int)len, dir, names[i]);
		if (n > 0 && (size_t)n < size && !access(out, X_OK) && python_has(out, module))
			return true;
	}
	return false;
}

int python_find(const char *module, char *out, size_t size, struct err *e)
{
	const char *path = getenv("PATH");
	for (const char *s = path ? path : "/usr/bin"; *s;) {
		size_t n = strcspn(s, ":");
		if (n && look_in(s, n, module, out, size))
			return 0;
		s += n + (s[n] == ':');
	}
	return err_set(e, -ENOENT, "no python3 on the PATH imports %s", module);
}

int python_program(const char *start, const char *end)
{
	int fd = memfd_create("ditrace.py", MFD_CLOEXEC);
	int r =
	    fd < 0 ? -errno : io_write_all(fd, start, (size_t)((uintptr_t)end - (uintptr_t)start));
	if (!r || fd < 0)
		return r ? r : fd;
	close(fd);
	return r;
}
