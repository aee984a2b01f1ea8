#define _GNU_SOURCE
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/internal.h"

enum {
	PART_SIZE = NAME_MAX + sizeof(".part"),
	MOST_TRIES = 100, /* others that begin the same file at the same moment */
};

/* False if another has it. A file system without locks has none to heed. */
static bool file_lock(int fd, int how)
{
	return !flock(fd, how | LOCK_NB) || errno != EWOULDBLOCK;
}

static const char *part_name(const struct new_file *f, char out[PART_SIZE])
{
	snprintf(out, PART_SIZE, "%s.part", f->name);
	return out;
}

static bool is_named(int fd, int folder, const char *name)
{
	struct stat a, b;
	return !fstat(fd, &a) && !fstatat(folder, name, &b, AT_SYMLINK_NOFOLLOW) &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Remove what has the name of the new file: left by a ditrace that was killed, or no file of a
 * ditrace. -EBUSY if one is writing it. It is opened without following, and nothing is written. */
static int part_clear(const struct new_file *f, const char *part)
{
	int r = 0,
	    fd = openat(f->folder, part, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return -errno;
	if (fd >= 0 && !file_lock(fd, LOCK_EX))
		r = -EBUSY;
	else if (fd < 0 || is_named(fd, f->folder, part))
		r = unlinkat(f->folder, part, 0) && errno != ENOENT ? -errno : 0;
	if (fd >= 0)
		close(fd);
	return r;
}

/* The locked NAME.part is what lets only one ditrace begin a file of that name. */
static int part_make(struct new_file *f)
{
	char part[PART_SIZE];
	part_name(f, part);
	for (int i = 0; i < MOST_TRIES; i++) {
		f->fd = openat(f->folder, part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			       0600);
		if (f->fd >= 0 && file_lock(f->fd, LOCK_EX) && is_named(f->fd, f->folder, part)) {
			walk_give(f->folder, f->fd);
			return 0;
		}
		int r = f->fd >= 0 ? 0 : errno == EEXIST ? part_clear(f, part) : -errno;
		if (f->fd >= 0)
			close(f->fd);
		f->fd = -1;
		if (r)
			return r;
	}
	return -EBUSY;
}

/* Whether the file that is there may be replaced. A reader's lock does not matter. */
static int old_check(const struct new_file *f)
{
	int fd =
	    openat(f->folder, f->name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) /* nothing, a link, another's FIFO */
		return errno == ENOENT || errno == ELOOP || errno == ENXIO ? 0 : -errno;
	int r = file_lock(fd, LOCK_SH) ? 0 : -EBUSY;
	close(fd);
	return r;
}

/* Open the inode of `there` (O_PATH), whatever has its name by now. */
static int open_there(int there, int flags)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", there);
	int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC | flags);
	return fd < 0 ? -errno : fd;
}

/* A file that the shell opened, by its name in /proc/self/fd. */
static int open_passed(int folder, const char *name, int flags)
{
	struct stat st;
	int there = openat(folder, name, O_PATH | O_CLOEXEC);
	int fd = there < 0 ? -errno : open_there(there, flags);
	if (there >= 0)
		close(there);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return fd;
	int r = !file_lock(fd, LOCK_EX) ? -EBUSY : ftruncate(fd, 0) ? -errno : 0;
	if (r)
		close(fd);
	return r ? r : fd;
}

/* A descriptor, or -errno: -ENOENT if it is not to be written in place. */
static int open_special(int there, const struct stat *st, int flags)
{
	if (S_ISREG(st->st_mode) || !walk_trusts(st->st_uid))
		return -ENOENT;
	return open_there(there, flags);
}

/* 1: `name` in w->folder is a link to `path`; 0: *fd is as of open_special. */
static int look_at_name(struct path_walk *w, const char *name, int flags, char path[PATH_MAX],
			int *fd)
{
	struct stat st;
	int r = 0, there = openat(w->folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (there < 0)
		return *fd = -errno, 0;
	if (fstat(there, &st)) {
		*fd = -errno;
	} else if (!S_ISLNK(st.st_mode)) {
		*fd = open_special(there, &st, flags);
	} else {
		r = walk_link(w, there, name, path);
		*fd = r == 1 ? open_passed(w->folder, name, flags) : -ENOENT;
		r = r == 0;
	}
	close(there);
	return r;
}

/* As open_special: what f->name leads to. */
static int open_in_place(const struct new_file *f, int flags)
{
	struct path_walk w = {.folder = fcntl(f->folder, F_DUPFD_CLOEXEC, 0)};
	char name[NAME_MAX + 1], path[PATH_MAX];
	int fd;
	if (w.folder < 0)
		return -errno;
	strcpy(name, f->name);
	while (look_at_name(&w, name, flags, path, &fd)) {
		int r = walk_to_name(&w, path, name);
		if (r)
			return r == -EISDIR ? r : -ENOENT;
	}
	close(w.folder);
	return fd;
}

static int new_file_begin(struct new_file *f, int flags)
{
	int r = open_in_place(f, flags);
	if (r >= 0) {
		close(f->folder);
		f->folder = -1;
		f->fd = r;
		return 0;
	}
	r = r == -ENOENT ? part_make(f) : r;
	return r ? r : old_check(f);
}

int new_file_open(struct new_file *f, const char *path, int flags, struct err *e)
{
	struct path_walk w = {.folder = AT_FDCWD};
	*f = (struct new_file){.fd = -1, .folder = -1};
	if (!strcmp(path, "-")) {
		err_set(e, -EINVAL, "cannot write to \"-\": it could be a file or standard output");
		return err_hint(e, "for a file of that name: ./-; standard output: /dev/stdout");
	}
	int r = walk_to_name(&w, path, f->name);
	if (!r) {
		f->folder = w.folder;
		r = new_file_begin(f, flags);
	}
	if (!r)
		return 0;
	new_file_close(f);
	if (r != -EBUSY)
		return walk_failed(&w, r, "write", path, e);
	err_set(e, r, "%s is being written by another ditrace", path);
	return err_hint(e, "wait for it, or name another file: -o FILE; ditrace on several hosts "
			   "may write into one folder: -o DIR/");
}

FILE *new_file_stream(const struct new_file *f)
{
	int fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
	FILE *stream = fd < 0 ? NULL : fdopen(fd, "w");
	if (fd >= 0 && !stream)
		close(fd);
	return stream;
}

int new_file_name(struct new_file *f)
{
	char part[PART_SIZE];
	if (f->folder < 0)
		return 0;
	if (renameat(f->folder, part_name(f, part), f->folder, f->name))
		return -errno;
	close(f->folder);
	f->folder = -1;
	return 0;
}

/* The new file and the one with its name change names, so that the name is never without a file. */
static bool keep_old(const struct new_file *f, const char *part)
{
	char old[NAME_MAX + 1];
	struct stat st;
	int n = snprintf(old, sizeof(old), "%s.old", f->name);
	if ((size_t)n >= sizeof(old) || fstatat(f->folder, f->name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode) || renameat2(f->folder, part, f->folder, f->name, RENAME_EXCHANGE))
		return false;
	if (!renameat(f->folder, part, f->folder, old))
		return true;
	unlinkat(f->folder, part, 0);
	return false;
}

int new_file_name_keep(struct new_file *f, bool *kept)
{
	char part[PART_SIZE];
	*kept = f->folder >= 0 && keep_old(f, part_name(f, part));
	if (f->folder < 0 || !is_named(f->fd, f->folder, f->name))
		return new_file_name(f);
	close(f->folder);
	f->folder = -1;
	return 0;
}

void new_file_close(struct new_file *f)
{
	char part[PART_SIZE];
	if (f->folder >= 0 && f->fd >= 0)
		unlinkat(f->folder, part_name(f, part), 0);
	if (f->folder >= 0)
		close(f->folder);
	if (f->fd >= 0)
		close(f->fd);
	f->folder = f->fd = -1;
}

static bool is_locked_file(int self, int fd)
{
	char path[32], text[1024];
	struct stat st;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return false;
	snprintf(path, sizeof(path), "fdinfo/%d", fd);
	int info = openat(self, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = info < 0 ? 0 : read(info, text, sizeof(text));
	if (info >= 0)
		close(info);
	return n > 0 && memmem(text, (size_t)n, "FLOCK", 5);
}

void files_let_go(void)
{
	_Alignas(struct dirent64) char buf[4096];
	int self = open("/proc/self", O_PATH | O_CLOEXEC);
	int fds = self < 0 ? -1 : openat(self, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Not readdir(3): other threads may have had malloc's locks at the fork. */
	for (ssize_t n; fds >= 0 && (n = getdents64(fds, buf, sizeof(buf))) > 0;)
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *d = (const void *)(buf + at);
			if (*d->d_name != '.' && is_locked_file(self, atoi(d->d_name)))
				close(atoi(d->d_name));
			at += d->d_reclen;
		}
	if (fds >= 0)
		close(fds);
	if (self >= 0)
		close(self);
}

int new_file_end(struct new_file *f, int r)
{
	int again = r ? -1 : fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
	if (again >= 0 && close(again)) /* NFS tells only here that it could not write */
		r = -errno;
	r = r ? r : new_file_name(f);
	new_file_close(f);
	return r;
}

int file_replace(const char *path, struct err *e)
{
	struct new_file f;
	int r = new_file_open(&f, path, 0, e);
	if (r)
		return r;
	r = new_file_name(&f);
	if (!r)
		return f.fd;
	new_file_close(&f);
	return walk_failed(&(struct path_walk){0}, r, "write", path, e);
}

FILE *file_replace_stream(const char *path, struct err *e)
{
	int fd = file_replace(path, e);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	if (fd >= 0 && !f) {
		walk_failed(&(struct path_walk){0}, -errno, "write", path, e);
		close(fd);
	}
	return f;
}

FILE *file_unnamed(void)
{
	return tmpfile();
}

int io_write_all(int fd, const void *buf, size_t len)
{
	for (const char *p = buf; len;) {
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

char *io_text(int fd, size_t most)
{
	struct stat st;
	size_t size = fstat(fd, &st) ? 0 : (size_t)st.st_size;
	size = size < most ? size : most;
	char *text = malloc(size + 1);
	ssize_t n = text ? pread(fd, text, size, 0) : 0;
	if (text)
		text[n > 0 ? n : 0] = '\0';
	return text;
}
