/* Brings the library of the engine shim into a running process: by ptrace(2), a thread at a
 * safepoint is made to call dlopen(3) and then the library. Also finds the library in a process and
 * reads its state. */
#ifndef TRACER_ENGINE_SHIM_INJECTOR_H
#define TRACER_ENGINE_SHIM_INJECTOR_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "tracer/engine/shim/shim_share.h"
#include "tracer/proc/spawn.h"

/* The listener: a private directory with the socket to connect to and, for a running process, the
 * library's file, reachable in the process's own mount namespace and by its user. Programs that are
 * started have the library in a place where it stays (shim_home in internal.h). */

struct shim_listener {
	struct shim_listener *next;
	int parent, dir, sock; /* descriptors; sock is non-blocking */
	int tidy;	       /* to the helper process that removes the directory, `tidier` */
	pid_t tidier;
	char name[32]; /* of the directory */
	uid_t user;    /* of the process; a running one's directory is his */
	/* Paths as the process sees them. */
	char library[PATH_MAX], socket[SHIM_PATH];
};

/* Make one for process `pid`; 0: for those that this process will start, as `user` (NULL: its own).
 * 0 and *out, or -errno with *e: the process's files cannot be reached, or there is no directory
 * that allows executable files and where only root and the process's user can write. */
int shim_listener_open(pid_t pid, const struct spawn_user *user, struct shim_listener **out,
		       struct err *e);

/* Set LD_PRELOAD in this process's environment for what it starts, and `variable` to the socket's
 * path. 0 or -errno with *e. */
int shim_listener_environment(const struct shim_listener *d, const char *variable, struct err *e);

/* Whether thread `tid` still acts as the user whose directory it is: one of another, as after
 * execve(2) of a set-user-ID program, is not to load from it. */
bool shim_listener_fits(const struct shim_listener *d, pid_t tid);

/* Remove the directory and free `d`; NULL allowed. */
void shim_listener_close(struct shim_listener *d);

/* The library's bytes, static, and their number. */
const void *shim_library(size_t *size);

/* What the library is to do in the process; each part is in use independently of the other. */
enum injector_part { INJECTOR_RECORDS, INJECTOR_MODES };

/* Whether process `pid` can be injected, as far as /proc and its files tell. 0 or -errno with *e:
 * -ESRCH, -EPERM, -EBUSY (traced; INJECTOR_MODES in use already; the library of a ditrace that was
 * killed has not left within half a minute), -EALREADY (INJECTOR_RECORDS in use),
 * -ENOTSUP (static, another C library, a shadow stack, a seccomp filter of its own), -EAGAIN (its
 * dynamic linker has not mapped the C library yet). */
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

/* Whether a file that a process maps has the library's name. */
bool injector_is_library(const char *path);

/* Where the library of this build in process `pid` has what proc_conf.own_work tells of
 * (symbolizer/plan/plan.h). 0 or -errno as injector_state. */
int injector_own_work(pid_t pid, uint64_t *out);

/* Have the library leave. 0 when it has; -ETIMEDOUT; -errno as injector_state. */
int injector_take_out(pid_t pid, struct err *e);

#endif
