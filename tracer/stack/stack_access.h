/* Whether a process may be looked at, and what to do if not. */
#ifndef TRACER_STACK_STACK_ACCESS_H
#define TRACER_STACK_STACK_ACCESS_H

#include <sys/types.h>

#include "base/err.h"

/* 0 when the memory of `pid` can be read; else -errno with *e and a hint: -ESRCH, -EPERM (another
 * user's, Yama). */
int stack_access(pid_t pid, struct err *e);

/* Whether somebody traces it, so that its threads cannot be held: 0: nobody; else -EBUSY with *e
 * naming it. */
int stack_tracer(pid_t pid, struct err *e);

#endif
