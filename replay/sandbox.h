/* --sandbox: the Pythons that run captured ops, kept from the rest of the machine by bubblewrap. */
#ifndef REPLAY_SANDBOX_H
#define REPLAY_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Zero-initialised: none. */
struct sandbox {
	char **argv; /* what comes before the program and its arguments, NULL-terminated */
	size_t n, size;
	bool failed;
};

/* The words by which `bwrap` (bwrap(1)) starts a program that can write to no file and reach no
 * network and no other process: everything is read-only, /tmp and /run are empty and its own, of
 * devices there are those that ops run on. The current folder and the `n` folders are seen under
 * their names wherever they are, and so is the virtual environment of `python`. 0 or -ENOMEM;
 * sandbox_free. */
int sandbox_make(struct sandbox *s, const char *bwrap, const char *python, char *const *folders,
		 size_t n);

/* The same with the bwrap of the PATH. -ENOENT with a hint if there is none. */
int sandbox_open(struct sandbox *s, const char *python, char *const *folders, size_t n,
		 struct err *e);

void sandbox_free(struct sandbox *s);

#endif
