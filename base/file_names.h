/* Names of files for a table: as short as tells them apart. */
#ifndef BASE_FILE_NAMES_H
#define BASE_FILE_NAMES_H

#include "base/intern.h"

/* Zero-initialise. */
struct file_names {
	struct intern paths, ends; /* ends: of all paths, each from behind a '/' */
	uint32_t *shared;	   /* by end: the number of paths that have it */
	size_t room;
};

/* Add a path, copied; NULL and one that is there add nothing. 0 or -ENOMEM. */
int file_names_add(struct file_names *n, const char *path);

/* The shortest end of the path, from its base name on, that no other path added has; its base name
 * if it was not added, or `n` is NULL. Points into `path`. */
const char *file_names_short(const struct file_names *n, const char *path);

void file_names_free(struct file_names *n);

#endif
