/* Brings the library of the engine shim into a running process: by ptrace(2), a thread at a
 * safepoint is made to call dlopen(3) and then the library. Also finds the library in a process and
 * reads its state. */
#ifndef TRACER_ENGINE_SHIM_INJECTOR_H
#define TRACER_ENGINE_SHIM_INJECTOR_H

#include <sys/types.h>

#include "base/err.h"
#include "tracer/engine/shim/shim_share.h"

/* The listener: a private directory with the library's file and the socket to connect to, reachable
 * in the process's own mount namespace and by its user. */

struct shim_listener {
	struct shim_listener *next;
	int parent, dir, sock; /* descriptors; sock is non-blocking */
	char name[32];	       /* of the directory */
	/* Paths as the process sees them. */
	char library[SHIM_PATH], socket[SHIM_PATH];
};

/* Make one for process `pid`; 0: for those that this process will start. 0 and *out, or -errno with
 * *e: -EPERM when the process's files cannot be reached, -ENOENT when no directory allows
 * executable files. */
int shim_listener_open(pid_t pid, struct shim_listener **out, struct err *e);

/* Set LD_PRELOAD in this process's environment for what it starts, and `variable` to the socket's
 * path. 0 or -errno with *e. */
int shim_listener_environment(const struct shim_listener *d, const char *variable, struct err *e);

/* The library has been loaded: remove its file. */
void shim_listener_loaded(struct shim_listener *d);

/* Remove everything and free `d`; NULL allowed. */
void shim_listener_close(struct shim_listener *d);

/* The library's bytes, static, and their number. */
const void *shim_library(size_t *size);

/* What the library is to do in the process; each part is in use independently of the other. */
enum injector_part { INJECTOR_RECORDS, INJECTOR_MODES };

/* Whether process `pid` can be injected, as far as /proc and its files tell. 0 or -errno with *e:
 * -ESRCH, -EPERM, -EBUSY (traced, or the part is in use already), -ENOTSUP (static, another C
 * library, a shadow stack, a seccomp filter of its own). */
int injector_check(pid_t pid, enum injector_part part, struct err *e);

/* Load the library, or, if it is loaded and out of use, call it again; it then connects to
 * `listener`. A helper process does that and survives this one; even if it is killed while it holds
 * a thread, the target survives (tracer/engine/shim/internal.h). 0 or -errno with *e: as
 * injector_check; -EAGAIN: no thread was found at a safepoint; -ELIBACC: dlopen failed, with its
 * message. */
int injector_enter(pid_t pid, enum injector_part part, struct shim_listener *listener,
		   struct err *e);

/* The state of the library in process `pid`; of several (from different builds of ditrace) that of
 * this build's. 0; -ENOENT: none; -EPROTO: only of other builds; -errno. */
int injector_state(pid_t pid, struct shim_state *out, struct err *e);

/* Have the library leave. 0 when it has; -ETIMEDOUT; -errno as injector_state. */
int injector_take_out(pid_t pid, struct err *e);

#endif
