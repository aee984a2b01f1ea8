/* Where a process finds the library of the engine shim and the socket to call ditrace on: a private
 * directory that it can reach, in its own mount namespace and for its own user. */
#ifndef TRACER_ENGINE_SHIM_SHIM_LISTENER_H
#define TRACER_ENGINE_SHIM_SHIM_LISTENER_H

#include <sys/types.h>

#include "base/err.h"
#include "tracer/engine/shim/shim_share.h"

struct shim_listener {
	struct shim_listener *next;
	int parent, dir, sock; /* descriptors; the last does not block */
	char name[32];	       /* of the directory */
	/* As the process sees them. */
	char library[SHIM_PATH], socket[SHIM_PATH];
};

/* For process `pid`; 0: for those that this process will start. 0 and *out, or -errno with *e:
 * -EPERM when its files cannot be reached, -ENOENT when there is no directory whose files may be
 * executed. */
int shim_listener_open(pid_t pid, struct shim_listener **out, struct err *e);

/* Set for what this process starts LD_PRELOAD, and `variable` to the path of the socket. 0 or
 * -errno with *e. */
int shim_listener_environment(const struct shim_listener *d, const char *variable, struct err *e);

/* The library has been loaded: its file goes. */
void shim_listener_loaded(struct shim_listener *d);

/* Remove everything; NULL allowed. */
void shim_listener_close(struct shim_listener *d);

/* The library's bytes. */
const void *shim_library(size_t *size);

#endif
