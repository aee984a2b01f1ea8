/* Folders in which, and above which, only root and this user can write: nobody else decides what is
 * found at a path there. */
#ifndef BASE_HOME_H
#define BASE_HOME_H

#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/* What is wrong with each of the places tried, as text for the user. */
struct home_why {
	char text[400];
};

/* Append to it what ends a sentence that begins with the folder's name; or that it failed with this
 * code, a negative errno, which is returned. */
void home_say(struct home_why *why, const char *path, const char *what);
int home_refuse(struct home_why *why, const char *path, int code);

/* Whether somebody other than root and `user` decides what is in this folder: why, as the end of a
 * sentence that begins with its name; NULL: nobody does. */
const char *home_doubt(const struct stat *st, uid_t user);

/* Open a folder which, along with all above it, is without that doubt for this user; `path` becomes
 * its path without links. A descriptor (O_PATH) or -errno, -EPERM for a doubt, with *why extended.
 */
int home_open(char path[PATH_MAX], struct home_why *why);

/* Open the folder `base` and make, unless they are there, the folder `sub` in it (NULL: none), for
 * its owner alone, and below that the `names` (NULL behind the last), one in the other, which
 * others may read if they are root's. `path` becomes that of the last. As home_open; -ENOENT, too,
 * if `base` is NULL or empty. */
int home_make(const char *base, const char *sub, const char *const *names, char path[PATH_MAX],
	      struct home_why *why);

/* This user's folder ditrace/`name` for what can be made anew: in /var/cache (root), else in
 * $XDG_CACHE_HOME or $HOME/.cache. A descriptor (O_PATH) or -errno. */
int home_cache(const char *name);

/* A file of such a folder. */
struct home_file {
	const char *name;
	const void *bytes;
	size_t n;
	off_t size; /* behind the bytes are zeros */
};

/* Make the file as `name`, readable and executable for its owner; it must not be there. 0 or
 * -errno; a part of it may have been written. */
int home_write(int dir, const char *name, const struct home_file *f);

/* Make the file with this mode, unless it is there. One that differs is replaced and never written
 * to: a program may have it mapped. 0 or -errno. */
int home_keep(int dir, const struct home_file *f, mode_t mode);

/* Read such a file of this user's, of `n` bytes and with this mode. 0, or -ENOENT: there is none.
 */
int home_read(int dir, const char *name, mode_t mode, void *out, size_t n);

/* Remove files of the folder, those first that were written longest ago, until it has `most`. */
void home_limit(int dir, unsigned most);

#endif
