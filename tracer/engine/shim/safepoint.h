/* Whether a thread that stands still could call dlopen(3) where it is: that takes locks of the
 * loader and of malloc, which are not to be taken twice by one thread. */
#ifndef TRACER_ENGINE_SHIM_SAFEPOINT_H
#define TRACER_ENGINE_SHIM_SAFEPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct safepoints;

/* Of process `pid` with what it has mapped now. 0 and *out (free with safepoints_free), or -errno
 * with *e. */
int safepoints_new(pid_t pid, struct safepoints **out, struct err *e);
void safepoints_free(struct safepoints *s); /* NULL allowed */

/* `regs`: the thread's, by enum arch_reg. Not when its stack is not known to the end, when the
 * loader or another malloc is on it, when something of the C library is that is not known to hold
 * no lock (a wait in the kernel, the beginning of the thread), or when its stack is small. */
bool safepoint(struct safepoints *s, pid_t tid, const uint64_t *regs);

#endif
