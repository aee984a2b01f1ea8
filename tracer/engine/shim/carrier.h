/* Brings the library of the engine shim into a process that runs: one of its threads, at a place
 * where that is safe, is made to call dlopen(3) and then the library, by ptrace(2). Also finds the
 * library in a process and reads what it says of itself. */
#ifndef TRACER_ENGINE_SHIM_CARRIER_H
#define TRACER_ENGINE_SHIM_CARRIER_H

#include <sys/types.h>

#include "base/err.h"
#include "tracer/engine/shim/shim_door.h"

/* What the library is to do there: each of the two is in use or not by itself. */
enum carrier_part { CARRIER_RECORDS, CARRIER_MODES };

/* Whether process `pid` can be entered, as far as /proc and its files tell. 0 or -errno with *e:
 * -ESRCH, -EPERM, -EBUSY (somebody traces it, or is inside), -ENOTSUP (static, another C library, a
 * shadow stack, a seccomp filter of its own). */
int carrier_check(pid_t pid, enum carrier_part part, struct err *e);

/* Bring the library in, or, if it is inside and out of use, call it again; it will then call at the
 * door. A process of its own does that and survives this one; while it holds a thread it may be
 * killed at any moment, too (tracer/engine/shim/remote_call.h). 0 or -errno with *e: as
 * carrier_check; -EAGAIN: no thread was found at a safe place; -ELIBACC: dlopen refuses, in its
 * words. */
int carrier_enter(pid_t pid, enum carrier_part part, struct shim_door *door, struct err *e);

/* What the library in process `pid` says of itself; of several (from different builds of ditrace)
 * the one that is this build's. 0; -ENOENT: there is none; -EPROTO: of other builds alone; -errno.
 */
int carrier_state(pid_t pid, struct shim_state *out, struct err *e);

/* Have it take itself out. 0 when it has; -ETIMEDOUT; -errno as carrier_state. */
int carrier_take_out(pid_t pid, struct err *e);

#endif
