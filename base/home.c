#define _GNU_SOURCE
#include "base/home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/files.h"

enum { PRIVATE = 0700, PUBLIC = 0755 };

const char *home_doubt(const struct stat *st, uid_t user)
{
	if (!S_ISDIR(st->st_mode))
		return "is not a folder";
	if (st->st_uid && st->st_uid != user)
		return "belongs to another user";
	/* With an access control list the group's bits are its mask (acl(5)). */
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return "can be written by others";
	return NULL;
}

void home_say(struct home_why *why, const char *path, const char *what)
{
	size_t n = strlen(why->text);
	snprintf(why->text + n, sizeof(why->text) - n, "%s%s %s", n ? "; " : "", path, what);
}

int home_refuse(struct home_why *why, const char *path, int r)
{
	char text[128];
	snprintf(text, sizeof(text), "cannot be used: %s", strerror(-r));
	home_say(why, path, text);
	return r;
}

/* Open the folder `path`, without links, from the root on. */
static int walk_folders(char *path, struct home_why *why)
{
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int at = open("/", flags), r = 0;
	for (char *end = path; at >= 0;) {
		char kept = *end, *next = end + 1;
		struct stat st;
		*end = '\0';
		const char *name = *path ? path : "/",
			   *doubt = fstat(at, &st) ? "cannot be seen" : home_doubt(&st, geteuid());
		if (doubt)
			home_say(why, name, doubt);
		*end = kept;
		if (doubt) {
			close(at);
			return -EPERM;
		}
		if (!kept || !*next)
			return at;
		end = strchrnul(next, '/');
		kept = *end;
		*end = '\0';
		int below = openat(at, next, flags);
		r = below < 0 ? home_refuse(why, path, -errno) : 0;
		*end = kept;
		close(at);
		at = below;
	}
	return r ? r : -EIO;
}

int home_open(char path[PATH_MAX], struct home_why *why)
{
	char real[PATH_MAX];
	if (path[0] != '/') {
		home_say(why, path, "does not begin at the root");
		return -EINVAL;
	}
	if (!realpath(path, real))
		return home_refuse(why, path, -errno);
	memcpy(path, real, sizeof(real));
	return walk_folders(path, why);
}

/* Make and open the folder `name` of the folder `in`, which is `path`, and extend `path`. */
static int enter(char path[PATH_MAX], int in, const char *name, mode_t mode, struct home_why *why)
{
	char below[PATH_MAX];
	int n = snprintf(below, sizeof(below), "%s/%s", path, name);
	int r = n >= (int)sizeof(below) ? -ENAMETOOLONG : 0;
	/* Whatever the umask is. */
	if (!r && (mkdirat(in, name, mode) || fchmodat(in, name, mode, 0)) && errno != EEXIST)
		r = -errno;
	close(in);
	memcpy(path, below, sizeof(below));
	return r ? home_refuse(why, path, r) : home_open(path, why);
}

int home_make(const char *base, const char *sub, const char *const *names, char path[PATH_MAX],
	      struct home_why *why)
{
	const mode_t mode = geteuid() ? PRIVATE : PUBLIC;
	if (!base || !*base)
		return -ENOENT;
	snprintf(path, PATH_MAX, "%s", base);
	int at = home_open(path, why);
	if (at >= 0 && sub)
		at = enter(path, at, sub, PRIVATE, why);
	for (; *names && at >= 0; names++)
		at = enter(path, at, *names, mode, why);
	return at;
}

/* Read `n` bytes of a regular file of this user's, of that size and mode. */
static bool read_own(int dir, const char *name, mode_t mode, off_t size, void *out, size_t n)
{
	struct stat st;
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool good = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
		    (st.st_mode & 07777) == mode && st.st_size == size &&
		    pread(fd, out, n, 0) == (ssize_t)n;
	if (fd >= 0)
		close(fd);
	return good;
}

int home_read(int dir, const char *name, mode_t mode, void *out, size_t n)
{
	return read_own(dir, name, mode, (off_t)n, out, n) ? 0 : -ENOENT;
}

static bool is_there(int dir, const struct home_file *f, mode_t mode)
{
	char *found = malloc(f->n);
	bool good = found && read_own(dir, f->name, mode, f->size, found, f->n) &&
		    !memcmp(found, f->bytes, f->n);
	free(found);
	return good;
}

int home_write(int dir, const char *name, const struct home_file *f)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0500);
	if (fd < 0)
		return -errno;
	int r = io_write_all(fd, f->bytes, f->n);
	if (!r && ftruncate(fd, f->size))
		r = -errno;
	return close(fd) && !r ? -errno : r;
}

/* A running program may have the one that is there mapped: it is replaced, never written to. */
int home_keep(int dir, const struct home_file *f, mode_t mode)
{
	char name[32];
	uint32_t number;
	if (is_there(dir, f, mode))
		return 0;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	snprintf(name, sizeof(name), ".new-%08x", number);
	int r = home_write(dir, name, f);
	if (!r && (fchmodat(dir, name, mode, 0) || renameat(dir, name, dir, f->name)))
		r = -errno;
	if (r)
		unlinkat(dir, name, 0);
	return r;
}

/* The file of the folder that was written longest ago; the number of files. */
static unsigned oldest(DIR *d, char name[NAME_MAX + 1])
{
	struct timespec first = {0};
	unsigned n = 0;
	rewinddir(d);
	for (const struct dirent *e; (e = readdir(d));) {
		struct stat st;
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || S_ISDIR(st.st_mode))
			continue;
		if (!n++ || st.st_mtim.tv_sec < first.tv_sec ||
		    (st.st_mtim.tv_sec == first.tv_sec && st.st_mtim.tv_nsec < first.tv_nsec)) {
			first = st.st_mtim;
			snprintf(name, NAME_MAX + 1, "%s", e->d_name);
		}
	}
	return n;
}

void home_limit(int dir, unsigned most)
{
	char name[NAME_MAX + 1];
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d && fd >= 0)
		close(fd);
	while (d && oldest(d, name) > most && !unlinkat(fd, name, 0))
		;
	if (d)
		closedir(d);
}

int home_cache(const char *name)
{
	const struct {
		const char *base, *sub;
	} places[] = {
	    {geteuid() ? NULL : "/var/cache", NULL},
	    {getenv("XDG_CACHE_HOME"), NULL},
	    {getenv("HOME"), ".cache"},
	};
	const char *const names[] = {"ditrace", name, NULL};
	int r = -ENOENT;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && r < 0; i++) {
		char path[PATH_MAX];
		struct home_why why = {0};
		r = home_make(places[i].base, places[i].sub, names, path, &why);
	}
	return r;
}
