#define _GNU_SOURCE
#include "tracer/engine/shim/injector.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/io.h"
#include "symbolizer/target/process.h"

#define LIBRARY "libditrace_shim.so"
#define SOCKET "socket"

extern const char _binary_libditrace_shim_so_start[], _binary_libditrace_shim_so_end[];

const void *shim_library(size_t *size)
{
	/* cppcheck-suppress comparePointers; the linker puts both around the same bytes */
	*size = (size_t)(_binary_libditrace_shim_so_end - _binary_libditrace_shim_so_start);
	return _binary_libditrace_shim_so_start;
}

/* Make a directory in `place`, which the process sees and which is below `root` here. 0 or -errno.
 */
static int make_dir(struct shim_listener *d, const char *root, const char *place)
{
	char path[128];
	struct statvfs fs;
	int n = snprintf(path, sizeof(path), "%s%s/ditrace-XXXXXX", root, place);
	if (n < 0 || n >= (int)sizeof(path))
		return -ENAMETOOLONG;
	if (!mkdtemp(path))
		return -errno;
	char *slash = strrchr(path, '/');
	snprintf(d->name, sizeof(d->name), "%s", slash + 1);
	*slash = '\0';
	d->parent = open(*path ? path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	*slash = '/';
	d->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (d->parent < 0 || d->dir < 0 || fstatvfs(d->dir, &fs) || fs.f_flag & ST_NOEXEC) {
		int r = d->parent < 0 || d->dir < 0 ? -errno : -EACCES;
		rmdir(path);
		return r;
	}
	n = snprintf(d->library, sizeof(d->library), "%s/%s/" LIBRARY, place, d->name);
	snprintf(d->socket, sizeof(d->socket), "%s/%s/" SOCKET, place, d->name);
	return n < (int)sizeof(d->library) ? 0 : -ENAMETOOLONG;
}

static void close_dirs(struct shim_listener *d)
{
	if (d->dir >= 0)
		close(d->dir);
	if (d->parent >= 0)
		close(d->parent);
	d->dir = d->parent = -1;
}

static int find_dir(struct shim_listener *d, pid_t pid, struct err *e)
{
	const char *places[] = {pid ? NULL : getenv("XDG_RUNTIME_DIR"),
				pid ? NULL : getenv("TMPDIR"), "/tmp", "/dev/shm", "/var/tmp"};
	char root[32] = "";
	int r = -ENOENT;
	if (pid)
		snprintf(root, sizeof(root), "/proc/%d/root", pid);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && r; i++) {
		if (!places[i] || places[i][0] != '/')
			continue;
		r = make_dir(d, root, places[i]);
		if (r)
			close_dirs(d);
	}
	if (!r)
		return 0;
	if (pid) {
		err_set(e, r, "no directory of process %d for the library that goes into it: %s",
			pid, strerror(-r));
		return err_hint(e, "mount a /tmp, /dev/shm or /var/tmp there that can be written "
				   "and is not noexec");
	}
	err_set(e, r, "no directory for the library that goes into the program: %s", strerror(-r));
	return err_hint(e, "set TMPDIR to one that can be written and is not mounted noexec");
}

static int write_library(const struct shim_listener *d)
{
	size_t n;
	const void *bytes = shim_library(&n);
	int fd = openat(d->dir, LIBRARY, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0500);
	if (fd < 0)
		return -errno;
	int r = io_write_all(fd, bytes, n);
	return close(fd) && !r ? -errno : r;
}

static int start_listening(struct shim_listener *d)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/" SOCKET, d->dir);
	d->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (d->sock < 0 || bind(d->sock, (struct sockaddr *)&a, sizeof(a)) ||
	    listen(d->sock, SOMAXCONN))
		return -errno;
	return 0;
}

/* As root, make the process's user the owner: it could not open root's files. */
static int give_to(const struct shim_listener *d, pid_t pid)
{
	struct process p;
	if (!pid || geteuid())
		return 0;
	if (process_read(pid, &p, NULL))
		return -ESRCH;
	if (!p.status.uid)
		return 0;
	return fchownat(d->dir, LIBRARY, p.status.uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) ||
		       fchownat(d->dir, SOCKET, p.status.uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) ||
		       fchown(d->dir, p.status.uid, (gid_t)-1)
		   ? -errno
		   : 0;
}

int shim_listener_open(pid_t pid, struct shim_listener **out, struct err *e)
{
	struct shim_listener *d = calloc(1, sizeof(*d));
	if (!d)
		return err_set(e, -ENOMEM, "no memory");
	d->dir = d->parent = d->sock = -1;
	int r = find_dir(d, pid, e);
	if (!r) {
		r = write_library(d);
		r = r ? r : start_listening(d);
		r = r ? r : give_to(d, pid);
		if (r)
			err_set(e, r, "cannot prepare %s: %s", d->library, strerror(-r));
	}
	if (r) {
		shim_listener_close(d);
		return r;
	}
	*out = d;
	return 0;
}

static int set_environment(const struct shim_listener *d, const char *variable)
{
	char preload[4096];
	const char *was = getenv("LD_PRELOAD");
	int n = snprintf(preload, sizeof(preload), "%s%s%s", d->library, was && *was ? ":" : "",
			 was ? was : "");
	if (n < 0 || n >= (int)sizeof(preload))
		return -E2BIG;
	return setenv("LD_PRELOAD", preload, 1) || setenv(variable, d->socket, 1) ? -errno : 0;
}

int shim_listener_environment(const struct shim_listener *d, const char *variable, struct err *e)
{
	int r = set_environment(d, variable);
	return r ? err_set(e, r, "cannot prepare the environment: %s", strerror(-r)) : 0;
}

void shim_listener_loaded(struct shim_listener *d)
{
	unlinkat(d->dir, LIBRARY, 0);
}

void shim_listener_close(struct shim_listener *d)
{
	if (!d)
		return;
	if (d->sock >= 0)
		close(d->sock);
	if (d->dir >= 0) {
		unlinkat(d->dir, SOCKET, 0);
		unlinkat(d->dir, LIBRARY, 0);
		unlinkat(d->parent, d->name, AT_REMOVEDIR);
	}
	close_dirs(d);
	free(d);
}
