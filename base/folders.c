#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/internal.h"
#include "base/text.h"

enum { MOST_LINKS = 40 }; /* as in the kernel: path_resolution(7) */

static const uid_t NOBODY = (uid_t)-1;

/* SUDO_UID or SUDO_GID; only root's environment is to be believed. -1 without. */
static uid_t sudo_id(const char *variable)
{
	const char *text = getuid() == 0 ? getenv(variable) : NULL;
	uint64_t n;
	return text && text_number(text, &n) && n < NOBODY ? (uid_t)n : NOBODY;
}

bool walk_trusts(uid_t owner)
{
	return geteuid() != 0 || owner == 0 || owner == getuid() || owner == sudo_id("SUDO_UID");
}

void walk_give(int folder, int fd)
{
	uid_t user = sudo_id("SUDO_UID");
	struct stat st;
	if (user == NOBODY || user == 0 || fstat(folder, &st) || st.st_uid != user)
		return;
	/* Where that is impossible, as on some network file systems, it stays root's. */
	if (fchownat(fd, "", user, sudo_id("SUDO_GID"), AT_EMPTY_PATH))
		return;
}

static int folder_make_at(int at, const char *name)
{
	if (mkdirat(at, name, 0700))
		return -errno;
	int fd = openat(at, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	walk_give(at, fd);
	close(fd);
	return 0;
}

int walk_link(struct path_walk *w, int fd, const char *name, char path[PATH_MAX])
{
	struct stat st;
	struct statfs fs;
	if (fstat(fd, &st) || fstatfs(w->folder, &fs))
		return -errno;
	if (!walk_trusts(st.st_uid)) {
		strcpy(w->refused, name);
		w->owner = st.st_uid;
		return -EPERM;
	}
	if (++w->links > MOST_LINKS)
		return -ELOOP;
	if (fs.f_type == PROC_SUPER_MAGIC)
		return 1;
	ssize_t n = readlinkat(fd, "", path, PATH_MAX);
	if (n < 0 || n == PATH_MAX)
		return n < 0 ? -errno : -ENAMETOOLONG;
	path[n] = '\0';
	return 0;
}

/* Go on at the folder `fd`. */
static int walk_enter(struct path_walk *w, int fd)
{
	if (fd < 0)
		return -errno;
	if (w->folder >= 0)
		close(w->folder);
	w->folder = fd;
	return 0;
}

static int walk_path(struct path_walk *w, const char *path);

static int walk_through_link(struct path_walk *w, int fd, const char *name)
{
	char path[PATH_MAX];
	int r = walk_link(w, fd, name, path);
	if (r == 1)
		return walk_enter(w, openat(w->folder, name, O_PATH | O_DIRECTORY | O_CLOEXEC));
	return r ? r : walk_path(w, path);
}

static int walk_step(struct path_walk *w, const char *name)
{
	enum { FLAGS = O_PATH | O_NOFOLLOW | O_CLOEXEC };
	struct stat st;
	int r = 0, fd = openat(w->folder, name, FLAGS);
	if (fd < 0 && errno == ENOENT && w->make) {
		r = folder_make_at(w->folder, name);
		if (r && r != -EEXIST)
			return r;
		fd = openat(w->folder, name, FLAGS);
	}
	if (fd < 0 || fstat(fd, &st))
		r = -errno;
	else if (S_ISLNK(st.st_mode))
		r = walk_through_link(w, fd, name);
	else if (S_ISDIR(st.st_mode))
		return walk_enter(w, fd);
	else
		r = -ENOTDIR;
	if (fd >= 0)
		close(fd);
	return r;
}

/* The next component of *path, moving behind it. 1, 0 at the end, or -ENAMETOOLONG. */
static int next_component(const char **path, char name[NAME_MAX + 1])
{
	const char *from = *path + strspn(*path, "/");
	size_t n = strcspn(from, "/");
	if (n > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, from, n);
	name[n] = '\0';
	*path = from + n;
	return n > 0;
}

/* Recursion is limited by MOST_LINKS. */
static int walk_path(struct path_walk *w, const char *path)
{
	char name[NAME_MAX + 1];
	int more, r = 0;
	if (!*path)
		return -ENOENT;
	if (*path == '/')
		r = walk_enter(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
	while (!r && (more = next_component(&path, name)) != 0)
		r = more < 0 ? more : walk_step(w, name);
	return r;
}

static int walk_to_folder(struct path_walk *w, const char *path)
{
	int r =
	    w->folder == AT_FDCWD ? walk_enter(w, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)) : 0;
	r = r ? r : walk_path(w, path);
	if (r && w->folder >= 0)
		close(w->folder);
	return r;
}

int walk_to_name(struct path_walk *w, const char *path, char name[NAME_MAX + 1])
{
	const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
	char above[PATH_MAX];
	size_t n = (size_t)(last - path);
	int r = n >= sizeof(above) || strlen(last) > NAME_MAX	      ? -ENAMETOOLONG
		: !*path					      ? -ENOENT
		: !*last || !strcmp(last, ".") || !strcmp(last, "..") ? -EISDIR
								      : 0;
	if (r && w->folder >= 0)
		close(w->folder);
	if (r)
		return r;
	strcpy(name, last);
	memcpy(above, path, n);
	strcpy(above + n, ".");
	return walk_to_folder(w, above);
}

int walk_failed(const struct path_walk *w, int code, const char *verb, const char *path,
		struct err *e)
{
	if (w->refused[0]) {
		err_set(e, code, "cannot %s %s: on its way, %s is a link of user %u", verb, path,
			w->refused, (unsigned)w->owner);
		return err_hint(e, "root follows no link of another user: remove it, or name the "
				   "folder that it leads to");
	}
	err_set(e, code, "cannot %s %s: %s", verb, path, strerror(-code));
	return err_hint(e, "choose a folder with room where you may write");
}

int folders_make(const char *path, struct err *e)
{
	struct path_walk w = {.folder = AT_FDCWD, .make = true};
	int r = walk_to_folder(&w, path);
	if (r)
		return walk_failed(&w, r, "make the folder", path, e);
	close(w.folder);
	return 0;
}

int folder_new(const char *path, struct err *e)
{
	struct path_walk w = {.folder = AT_FDCWD};
	char name[NAME_MAX + 1];
	int r = walk_to_name(&w, path, name);
	if (!r) {
		r = folder_make_at(w.folder, name);
		close(w.folder);
	}
	return r ? walk_failed(&w, r, "make the folder", path, e) : 0;
}

int file_move(const char *from, const char *to, bool replace)
{
	/* Not all file systems know RENAME_NOREPLACE, NFS among them. */
	int r = renameat2(AT_FDCWD, from, AT_FDCWD, to, replace ? 0 : RENAME_NOREPLACE);
	if (!r || replace || errno != EINVAL)
		return r ? -errno : 0;
	if (link(from, to))
		return -errno;
	return unlink(from) ? -errno : 0;
}

/* `part`: the new folder in `at`, which changes names with the file. */
static int change_places(int at, const char *part, const char *name, const char *inside)
{
	struct stat st;
	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (renameat2(at, part, at, name, RENAME_EXCHANGE))
		return -errno;
	int to = inside ? openat(at, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC) : -1;
	int r = inside ? renameat(at, part, to, inside) : unlinkat(at, part, 0);
	r = r ? -errno : 0;
	if (to >= 0)
		close(to);
	if (r)
		renameat2(at, part, at, name, RENAME_EXCHANGE);
	return r;
}

int folder_replace_file(const char *path, const char *name)
{
	struct path_walk w = {.folder = AT_FDCWD};
	char last[NAME_MAX + 1], part[NAME_MAX + 16];
	int r = walk_to_name(&w, path, last);
	if (r)
		return r;
	snprintf(part, sizeof(part), "%s.part", last);
	r = folder_make_at(w.folder, part);
	if (!r) {
		r = change_places(w.folder, part, last, name);
		if (r)
			unlinkat(w.folder, part, AT_REMOVEDIR);
	}
	close(w.folder);
	return r;
}

/* A file system without locks, as Lustre without -o flock, does not tell who writes, on another
 * host perhaps: what was written to of late may still be. */
static bool is_written(int fd)
{
	enum { RECENT_S = 120 };
	struct stat st;
	if (!flock(fd, LOCK_SH | LOCK_NB))
		return false;
	return errno == EWOULDBLOCK || (!fstat(fd, &st) && st.st_mtime + RECENT_S > time(NULL));
}

static bool is_locked(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	bool locked = fd >= 0 && is_written(fd);
	if (fd >= 0)
		close(fd);
	return locked;
}

static bool is_old(int folder, const char *name, bool (*chosen)(const char *name))
{
	struct stat st;
	return chosen(name) && !fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) &&
	       S_ISREG(st.st_mode);
}

static int keep_old_files(DIR *d, bool (*chosen)(const char *name), bool *kept)
{
	int folder = dirfd(d), r = 0;
	const struct dirent *entry;
	char old[NAME_MAX + 16];
	while ((entry = readdir(d)))
		if (is_old(folder, entry->d_name, chosen) && is_locked(folder, entry->d_name))
			return 0;
	rewinddir(d);
	while ((entry = readdir(d)) && !r) {
		if (!is_old(folder, entry->d_name, chosen))
			continue;
		snprintf(old, sizeof(old), "%s.old", entry->d_name);
		r = renameat(folder, entry->d_name, folder, old) && errno != ENOENT ? -errno : 0;
		*kept |= !r;
	}
	return r;
}

int folder_keep_old(const char *path, bool (*chosen)(const char *name), bool *kept, struct err *e)
{
	struct path_walk w = {.folder = AT_FDCWD};
	*kept = false;
	int r = walk_to_folder(&w, path);
	if (r)
		return walk_failed(&w, r, "write into", path, e);
	int fd = openat(w.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	r = d ? keep_old_files(d, chosen, kept) : -errno;
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	close(w.folder);
	return r ? walk_failed(&w, r, "write into", path, e) : 0;
}
