/* Making files and folders: nothing else in ditrace makes any (tests/layout). Files have mode 0600,
 * folders 0700, less the umask. None is made through a link that root may not trust: with effective
 * uid 0 links of root, of the real user and, under sudo(8), of SUDO_UID are followed, anywhere in a
 * path; as another user all are. Under sudo, what is made in a folder of SUDO_UID is given to that
 * user. */
#ifndef BASE_FILES_H
#define BASE_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

/* A file being made: NAME.part until it gets its name, so that the name is always of a whole file,
 * and who has the old one open keeps it. */
struct new_file {
	int fd;			 /* for reading and writing, locked (flock) */
	int folder;		 /* O_PATH; -1: it has its name, or is written in place */
	char name[NAME_MAX + 1]; /* in `folder` */
};

/* Begin the file `path`. A regular file there is replaced later, and so is a link that leads to one
 * or to nothing: the link is not followed. What is not a regular file (a FIFO, a device,
 * /dev/stdout) is opened and written in place, unless it is another user's and this is root;
 * `flags` (O_NONBLOCK or 0) are for that. A regular file must be writable, although it is replaced,
 * and locked by nobody. 0; or -errno with *e and a hint, of open(2), -EBUSY if another ditrace
 * writes it, -EPERM for a link that is not followed, -EINVAL for "-". */
int new_file_open(struct new_file *f, const char *path, int flags, struct err *e);

/* A stream onto the file, with a descriptor of its own, which keeps it locked; NULL with errno. */
FILE *new_file_stream(const struct new_file *f);

/* Give the file its name. 0, or -errno of rename(2): the file is as before. f->fd stays open. */
int new_file_name(struct new_file *f);

/* The same, and a regular file of that name is kept as NAME.old, which replaces what has that name,
 * without following it: *kept. */
int new_file_name_keep(struct new_file *f, bool *kept);

/* Close the file; remove it if it has not got its name. */
void new_file_close(struct new_file *f);

/* new_file_name if `r` is 0, and new_file_close. `r`, or -errno of the former. */
int new_file_end(struct new_file *f, int r);

/* A file that others may read as it grows: open, named at once. A descriptor for writing, locked
 * until it is closed, or -errno as of new_file_open. */
int file_replace(const char *path, struct err *e);

/* The same as a stream; NULL with *e. */
FILE *file_replace_stream(const char *path, struct err *e);

/* In a forked child: close regular files that are locked, each of which would otherwise be locked
 * until the child has ended, too. The locks are those of /proc/PID/fdinfo (Linux 4.1, fs/locks.c,
 * show_fd_locks). */
void files_let_go(void);

/* A file without a name, in P_tmpdir. NULL with errno. */
FILE *file_unnamed(void);

/* Make the folder `path` and those above it, if they are not there. 0, or -errno with *e. */
int folders_make(const char *path, struct err *e);

/* Make a folder that takes the name of the regular file `path`, at once; the file gets the name
 * `name` in it, or is removed if that is NULL. 0, or -errno and the file is as before: -EINVAL if
 * it is not a regular file. */
int folder_replace_file(const char *path, const char *name);

/* Rename the regular files in the folder `path` whose names are `chosen` to NAME.old, which
 * replaces what has that name: *kept says whether there were any. None is renamed if any of them is
 * locked, as those are that are being written. 0, or -errno with *e. */
int folder_keep_old(const char *path, bool (*chosen)(const char *name), bool *kept, struct err *e);

/* Make the folder `path`. 0, or -errno of mkdir(2) with *e: -EEXIST if anything is there. */
int folder_new(const char *path, struct err *e);

/* Give the file `from` the name `to` on the same file system. 0 or -errno: -EEXIST if something has
 * that name, which is replaced only if `replace`. */
int file_move(const char *from, const char *to, bool replace);

/* Reading and writing by descriptors. */

/* Write all `len` bytes, retrying on EINTR and short writes. 0 or -errno of write(2); -EIO when it
 * writes 0 bytes. */
int io_write_all(int fd, const void *buf, size_t len);

/* At most `most` bytes from the start of a file, NUL-terminated, from malloc; "" when it cannot be
 * read. NULL when out of memory. */
char *io_text(int fd, size_t most);

#endif
