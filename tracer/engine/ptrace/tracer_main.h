/* The tracing process of the engine ptrace. It lives in a session of its own and outlives ditrace
 * by the moment that it takes to leave the traced processes as they were. */
#ifndef TRACER_ENGINE_PTRACE_TRACER_MAIN_H
#define TRACER_ENGINE_PTRACE_TRACER_MAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tracer/engine/engine.h"

struct share; /* tracer/engine/ptrace/ptrace_share.h */

/* Serve the requests that come from `sock` until it is closed or SIGTERM comes, then leave.
 * `parent` is the process that forked this one; `nplans` is the most plans that will be set. Called
 * in a fresh child with no other thread; the caller ends the process after it. */
void tracer_main(struct share *share, int sock, pid_t parent, uint32_t nplans,
		 interesting_fn *interesting);

#endif
