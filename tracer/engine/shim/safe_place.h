/* Whether a thread that stands still could call dlopen(3) where it is: that takes locks of the
 * loader and of malloc, which are not to be taken twice by one thread. */
#ifndef TRACER_ENGINE_SHIM_SAFE_PLACE_H
#define TRACER_ENGINE_SHIM_SAFE_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct safe_places;

/* Of process `pid` with what it has mapped now. 0 and *out (free with safe_places_free), or -errno
 * with *e. */
int safe_places_new(pid_t pid, struct safe_places **out, struct err *e);
void safe_places_free(struct safe_places *s); /* NULL allowed */

/* `regs`: the thread's, by enum arch_reg. Not when its stack is not known to the end, when the
 * loader or another malloc is on it, when something of the C library is that is not known to hold
 * no lock (a wait in the kernel, the beginning of the thread), or when its stack is small. */
bool safe_place(struct safe_places *s, pid_t tid, const uint64_t *regs);

#endif
