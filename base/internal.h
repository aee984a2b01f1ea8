/* Shared by the files of this folder. */
#ifndef BASE_INTERNAL_H
#define BASE_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* A path being walked, a component at a time: each is opened by its name in the folder before, so
 * nobody can change what was judged. Zero-initialise. */
struct path_walk {
	int folder; /* O_PATH: where it has got to */
	bool make;  /* make folders that are missing */
	unsigned links;
	char refused[NAME_MAX + 1]; /* the link that was not followed, "": none */
	uid_t owner;		    /* of that link */
};

/* Whether what belongs to `owner` may redirect what this process writes. */
bool walk_trusts(uid_t owner);

/* Go to the folder that leads to the last component of `path`, from w->folder, which is replaced;
 * of an absolute path it may be AT_FDCWD. `name` is that component. 0; or -errno, and w->folder is
 * closed: -EISDIR if there is none, -EPERM if a link was refused. */
int walk_to_name(struct path_walk *w, const char *path, char name[NAME_MAX + 1]);

/* The path that the link `fd` (O_PATH) in w->folder has, in `path`. 0; 1 if it is one of proc(5),
 * which leads elsewhere than its text says; or -errno: -EPERM if it is refused, -ELOOP after 40. */
int walk_link(struct path_walk *w, int fd, const char *name, char path[PATH_MAX]);

/* Report that `path` could not be made, "cannot VERB PATH: ...". Returns `code`. */
int walk_failed(const struct path_walk *w, int code, const char *verb, const char *path,
		struct err *e);

/* Under sudo: give `fd`, which was just made in `folder`, to the user if the folder is that user's.
 */
void walk_give(int folder, int fd);

#endif
