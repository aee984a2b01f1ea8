/* Where the library lies for programs that `run` starts. Whatever they leave running loads it again
 * by its path, so nobody else may ever be able to make that path: each folder of it belongs to root
 * or to this user and is writable by its owner alone, and the library is never removed. Not even a
 * folder with the sticky bit will do, as /tmp is: what has been removed from there, by age or at
 * boot, anyone can make again. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/files.h"
#include "tracer/engine/shim/internal.h"
#include "tracer/engine/shim/jumps.h"

enum { PRIVATE = 0700, PUBLIC = 0755, LIBRARY_MODE = 0555 };

const char *shim_home_doubt(const struct stat *st, uid_t user)
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

void shim_home_say(struct shim_home_why *why, const char *path, const char *what)
{
	size_t n = strlen(why->text);
	snprintf(why->text + n, sizeof(why->text) - n, "%s%s %s", n ? "; " : "", path, what);
}

int shim_home_refuse(struct shim_home_why *why, const char *path, int r)
{
	char text[128];
	snprintf(text, sizeof(text), "cannot be used: %s", strerror(-r));
	shim_home_say(why, path, text);
	return r;
}

/* Open the folder `path`, without links, from the root on. */
static int walk_folders(char *path, struct shim_home_why *why)
{
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int at = open("/", flags), r = 0;
	for (char *end = path; at >= 0;) {
		char kept = *end, *next = end + 1;
		struct stat st;
		*end = '\0';
		const char *name = *path ? path : "/",
			   *doubt =
			       fstat(at, &st) ? "cannot be seen" : shim_home_doubt(&st, geteuid());
		if (doubt)
			shim_home_say(why, name, doubt);
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
		r = below < 0 ? shim_home_refuse(why, path, -errno) : 0;
		*end = kept;
		close(at);
		at = below;
	}
	return r ? r : -EIO;
}

int shim_home_open(char path[PATH_MAX], struct shim_home_why *why)
{
	char real[PATH_MAX];
	if (path[0] != '/') {
		shim_home_say(why, path, "does not begin at the root");
		return -EINVAL;
	}
	if (!realpath(path, real))
		return shim_home_refuse(why, path, -errno);
	memcpy(path, real, sizeof(real));
	return walk_folders(path, why);
}

/* Make and open the folder `name` of the folder `in`, which is `path`, and extend `path`. */
static int enter(char path[PATH_MAX], int in, const char *name, mode_t mode,
		 struct shim_home_why *why)
{
	char below[PATH_MAX];
	int n = snprintf(below, sizeof(below), "%s/%s", path, name);
	int r = n >= (int)sizeof(below) ? -ENAMETOOLONG : 0;
	/* Whatever the umask is. */
	if (!r && (mkdirat(in, name, mode) || fchmodat(in, name, mode, 0)) && errno != EEXIST)
		r = -errno;
	close(in);
	memcpy(path, below, sizeof(below));
	return r ? shim_home_refuse(why, path, r) : shim_home_open(path, why);
}

/* A file of the folder. */
struct home_file {
	const char *name;
	const void *bytes;
	size_t n;
	off_t size; /* behind the bytes are zeros */
};

enum { HOME_FILES = 2 };

static struct home_file home_file(unsigned i, struct stub_image *image)
{
	struct home_file f = {.name = SHIM_LIBRARY};
	if (i) {
		stub_image_make(image, 0, STUB_IMAGE_MOST);
		return (struct home_file){STUB_IMAGE_FILE, image, sizeof(*image), STUB_IMAGE_MOST};
	}
	f.bytes = shim_library(&f.n);
	f.size = (off_t)f.n;
	return f;
}

static bool is_there(int dir, const struct home_file *f)
{
	struct stat st;
	int fd = openat(dir, f->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool good = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
		    (st.st_mode & 07777) == LIBRARY_MODE && st.st_size == f->size;
	char *found = good ? malloc(f->n) : NULL;
	good =
	    found && pread(fd, found, f->n, 0) == (ssize_t)f->n && !memcmp(found, f->bytes, f->n);
	free(found);
	if (fd >= 0)
		close(fd);
	return good;
}

static int write_file(int dir, const char *name, const struct home_file *f)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0500);
	if (fd < 0)
		return -errno;
	int r = io_write_all(fd, f->bytes, f->n);
	if (!r && ftruncate(fd, f->size))
		r = -errno;
	return close(fd) && !r ? -errno : r;
}

int shim_home_write(int dir)
{
	struct stub_image image;
	int r = 0;
	for (unsigned i = 0; i < HOME_FILES && !r; i++) {
		const struct home_file f = home_file(i, &image);
		r = write_file(dir, f.name, &f);
	}
	return r;
}

/* A running program may have the one that is there mapped: it is replaced, never written to. */
static int ensure(int dir, const struct home_file *f)
{
	char name[32];
	uint32_t number;
	if (is_there(dir, f))
		return 0;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	snprintf(name, sizeof(name), ".new-%08x", number);
	int r = write_file(dir, name, f);
	if (!r && (fchmodat(dir, name, LIBRARY_MODE, 0) || renameat(dir, name, dir, f->name)))
		r = -errno;
	if (r)
		unlinkat(dir, name, 0);
	return r;
}

static int ensure_all(int dir)
{
	struct stub_image image;
	int r = 0;
	for (unsigned i = 0; i < HOME_FILES && !r; i++) {
		const struct home_file f = home_file(i, &image);
		r = ensure(dir, &f);
	}
	return r;
}

/* What ld.so(8) would not take for one path in LD_PRELOAD. */
static bool is_loadable(const char *path)
{
	return !path[strcspn(path, " :$")];
}

/* The library's folder below `base`/`sub` (NULL: `base`): its path; a descriptor or -errno. */
static int folder(const char *base, const char *sub, char path[PATH_MAX], struct shim_home_why *why)
{
	char name[32];
	size_t n;
	const mode_t mode = geteuid() ? PRIVATE : PUBLIC;
	const void *bytes = shim_library(&n);
	if (!base || !*base)
		return -ENOENT;
	snprintf(path, PATH_MAX, "%s", base);
	snprintf(name, sizeof(name), "%016llx", (unsigned long long)XXH3_64bits(bytes, n));
	int at = shim_home_open(path, why);
	if (at >= 0 && sub)
		at = enter(path, at, sub, PRIVATE, why);
	const char *const names[] = {"ditrace", "shim", name};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && at >= 0; i++)
		at = enter(path, at, names[i], mode, why);
	return at;
}

/* LD_PRELOAD names the library below $LIB, which glibc alone replaces, by one of these: other
 * dynamic linkers find nothing there, and would end the program if they found a library of glibc's.
 */
static int link_names(int dir)
{
	static const char *const names[] = {"lib", "lib64", "x86_64-linux-gnu"};
	int r = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !r; i++)
		r = symlinkat(".", dir, names[i]) && errno != EEXIST ? -errno : 0;
	return r;
}

static int fit(int dir, const char *path, struct shim_home_why *why)
{
	struct statvfs fs;
	if (fstatvfs(dir, &fs) || fs.f_flag & ST_NOEXEC)
		shim_home_say(why, path, "is mounted noexec");
	else if (!is_loadable(path))
		shim_home_say(why, path, "has a blank, a colon or a $ in its name");
	else {
		int r = ensure_all(dir);
		r = r ? r : link_names(dir);
		return r ? shim_home_refuse(why, path, r) : 0;
	}
	return -EACCES;
}

int shim_home(char path[PATH_MAX], bool for_other, struct err *e)
{
	const struct {
		const char *base, *sub;
	} places[] = {
	    {geteuid() ? NULL : "/var/lib", NULL},
	    {for_other ? NULL : getenv("XDG_CACHE_HOME"), NULL},
	    {for_other ? NULL : getenv("HOME"), ".cache"},
	};
	struct shim_home_why why = {0};
	int r = -ENOENT;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int dir = folder(places[i].base, places[i].sub, path, &why);
		r = dir < 0 ? dir : fit(dir, path, &why);
		if (!r)
			return dir;
		if (dir >= 0)
			close(dir);
	}
	err_set(e, r, "no folder for the library that goes into the program: %s",
		*why.text ? why.text : "neither HOME nor XDG_CACHE_HOME is set");
	if (for_other)
		return err_hint(e, "make /var/lib one in which and above which only root can "
				   "write, not mounted noexec; or trace with --engine bpf or "
				   "ptrace");
	return err_hint(e, "set XDG_CACHE_HOME to a folder of yours, not mounted noexec, in which "
			   "and above which only you and root can write; or trace with --engine "
			   "ptrace");
}
