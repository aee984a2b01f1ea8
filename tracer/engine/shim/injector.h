/* Brings the library of the engine shim into a process that runs: one of its threads, at a place
 * where that is safe, is made to call dlopen(3) and then the library, by ptrace(2). Also finds the
 * library in a process and reads what it says of itself. */
#ifndef TRACER_ENGINE_SHIM_INJECTOR_H
#define TRACER_ENGINE_SHIM_INJECTOR_H

#include <sys/types.h>

#include "base/err.h"
#include "tracer/engine/shim/shim_share.h"

/* Where a process finds the library of the engine shim and the socket to call ditrace on: a private
 * directory that it can reach, in its own mount namespace and for its own user. */

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

/* What the library is to do there: each of the two is in use or not by itself. */
enum injector_part { INJECTOR_RECORDS, INJECTOR_MODES };

/* Whether process `pid` can be entered, as far as /proc and its files tell. 0 or -errno with *e:
 * -ESRCH, -EPERM, -EBUSY (somebody traces it, or is inside), -ENOTSUP (static, another C library, a
 * shadow stack, a seccomp filter of its own). */
int injector_check(pid_t pid, enum injector_part part, struct err *e);

/* Bring the library in, or, if it is inside and out of use, call it again; it will then connect to
 * `listener`. A process of its own does that and survives this one; while it holds a thread it may
 * be killed at any moment, too (tracer/engine/shim/internal.h). 0 or -errno with *e: as
 * injector_check; -EAGAIN: no thread was found at a safepoint; -ELIBACC: dlopen refuses, in its
 * words. */
int injector_enter(pid_t pid, enum injector_part part, struct shim_listener *listener,
		   struct err *e);

/* What the library in process `pid` says of itself; of several (from different builds of ditrace)
 * the one that is this build's. 0; -ENOENT: there is none; -EPROTO: of other builds alone; -errno.
 */
int injector_state(pid_t pid, struct shim_state *out, struct err *e);

/* Have it take itself out. 0 when it has; -ETIMEDOUT; -errno as injector_state. */
int injector_take_out(pid_t pid, struct err *e);

#endif
