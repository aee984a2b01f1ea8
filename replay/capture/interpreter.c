#define _GNU_SOURCE
#include "replay/capture/capture_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbolizer/target/target_files.h"

enum { STRINGS_MAX = 256 * 1024 };

/* The strings of /proc/PID/NAME, NUL-terminated, and an empty one at the end; free() them. NULL:
 * unreadable. */
static char *strings_of(pid_t pid, const char *name)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = fd >= 0 ? calloc(1, STRINGS_MAX + 2) : NULL;
	ssize_t n;
	for (size_t at = 0; text && at < STRINGS_MAX; at += (size_t)n) {
		n = read(fd, text + at, STRINGS_MAX - at);
		if (n <= 0)
			break;
	}
	if (fd >= 0)
		close(fd);
	return text;
}

static const char *variable(const char *environment, const char *name)
{
	size_t n = strlen(name);
	for (const char *s = environment; s && *s; s += strlen(s) + 1)
		if (!strncmp(s, name, n) && s[n] == '=')
			return s + n + 1;
	return NULL;
}

static void describe(const struct stat *st, char *out, size_t size)
{
	snprintf(out, size, "%lld.%09ld", (long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

/* A program that embeds Python does not count: it may do anything when started. */
static bool is_python(const char *path)
{
	const char *last = strrchr(path, '/');
	last = last ? last + 1 : path;
	return !strncmp(last, "python", 6) || !strncmp(last, "pypy", 4);
}

/* Take FOLDER/NAME if it leads to the running file; `n` is the length of the folder, 0: NAME alone.
 */
static bool interpreter_accept(struct interpreter *out, const char *folder, size_t n,
			       const char *name)
{
	struct stat st;
	int len =
	    snprintf(out->path, sizeof(out->path), "%.*s%s%s", (int)n, folder, n ? "/" : "", name);
	if (len > 0 && (size_t)len < sizeof(out->path) && out->path[0] == '/' &&
	    is_python(out->path)) {
		struct target_files *files = target_files_new(out->pid);
		bool found = files && !target_files_stat(files, out->path, true, &st) &&
			     st.st_dev == out->dev && st.st_ino == out->ino &&
			     !target_files_stat(files, out->path, false, &st);
		target_files_free(files);
		if (found) {
			describe(&st, out->changed, sizeof(out->changed));
			return true;
		}
	}
	out->path[0] = '\0';
	return false;
}

static bool by_path(struct interpreter *out, const char *folders, const char *name)
{
	for (const char *s = folders; s && *s;) {
		size_t n = strcspn(s, ":");
		if (n && interpreter_accept(out, s, n, name))
			return true;
		s += n + (s[n] == ':');
	}
	return false;
}

static bool by_argument(struct interpreter *out, const char *name, const char *environment)
{
	char link[32], folder[PATH_MAX];
	const char *pwd = variable(environment, "PWD");
	if (!name || !*name)
		return false;
	if (*name == '/')
		return interpreter_accept(out, "", 0, name);
	if (!strchr(name, '/'))
		return by_path(out, variable(environment, "PATH"), name);
	snprintf(link, sizeof(link), "/proc/%d/cwd", (int)out->pid);
	ssize_t n = readlink(link, folder, sizeof(folder));
	return (pwd && interpreter_accept(out, pwd, strlen(pwd), name)) ||
	       (n > 0 && interpreter_accept(out, folder, (size_t)n, name));
}

static bool by_file(struct interpreter *out, const char *exe)
{
	char path[PATH_MAX];
	ssize_t n = readlink(exe, path, sizeof(path) - 1);
	if (n <= 0)
		return false;
	path[n] = '\0';
	return interpreter_accept(out, "", 0, path);
}

void interpreter_of(pid_t pid, struct interpreter *out)
{
	char exe[32];
	struct stat st;
	snprintf(exe, sizeof(exe), "/proc/%d/exe", (int)pid);
	if (stat(exe, &st)) {
		*out = (struct interpreter){0};
		return;
	}
	if (out->pid == pid && out->dev == st.st_dev && out->ino == st.st_ino)
		return;
	*out = (struct interpreter){.pid = pid, .dev = st.st_dev, .ino = st.st_ino};
	char *arguments = strings_of(pid, "cmdline"), *environment = strings_of(pid, "environ");
	if (!by_argument(out, arguments, environment))
		by_file(out, exe);
	free(arguments);
	free(environment);
}

bool interpreter_is_there(const char *path, const char *changed)
{
	struct interpreter now;
	struct stat st;
	if (*path != '/' || !is_python(path) || lstat(path, &st) ||
	    (st.st_uid != 0 && st.st_uid != geteuid()))
		return false;
	describe(&st, now.changed, sizeof(now.changed));
	return !strcmp(now.changed, changed) && !access(path, X_OK);
}
