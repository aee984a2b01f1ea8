/* The tracing process of the engine ptrace. It lives in a session of its own and outlives ditrace
 * by the moment that it takes to leave the traced processes as they were. */
#ifndef TRACER_TRACER_MAIN_H
#define TRACER_TRACER_MAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct share; /* tracer/ptrace_share.h */

/* Whether a process has mapped all that its tracer looks for; asked when libraries have come. */
typedef bool interesting_fn(pid_t pid);

/* Serve the requests that come from `sock` until it is closed or SIGTERM comes, then leave.
 * `parent` is the process that forked this one; `nplans` is the most plans that will be set. Called
 * in a fresh child with no other thread; the caller ends the process after it. */
void tracer_main(struct share *share, int sock, pid_t parent, uint32_t nplans,
		 interesting_fn *interesting);

#endif
