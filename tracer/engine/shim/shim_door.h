/* Where a process finds the library of the engine shim and the socket to call ditrace on: a private
 * directory that it can reach, in its own mount namespace and for its own user. */
#ifndef TRACER_ENGINE_SHIM_SHIM_DOOR_H
#define TRACER_ENGINE_SHIM_SHIM_DOOR_H

#include <sys/types.h>

#include "base/err.h"
#include "tracer/engine/shim/shim_share.h"

struct shim_door {
	struct shim_door *next;
	int parent, dir, listener; /* descriptors; the last does not block */
	char name[32];		   /* of the directory */
	/* As the process sees them. */
	char library[SHIM_DOOR], socket[SHIM_DOOR];
};

/* For process `pid`; 0: for those that this process will start. 0 and *out, or -errno with *e:
 * -EPERM when its files cannot be reached, -ENOENT when there is no directory whose files may be
 * executed. */
int shim_door_open(pid_t pid, struct shim_door **out, struct err *e);

/* Set for what this process starts LD_PRELOAD, and `variable` to the path of the socket. 0 or
 * -errno with *e. */
int shim_door_environment(const struct shim_door *d, const char *variable, struct err *e);

/* The library has been loaded: its file goes. */
void shim_door_loaded(struct shim_door *d);

/* Remove everything; NULL allowed. */
void shim_door_close(struct shim_door *d);

/* The library's bytes. */
const void *shim_library(size_t *size);

#endif
