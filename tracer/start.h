/* How tracing begins: with a running process, or with a program that is started. */
#ifndef TRACER_START_H
#define TRACER_START_H

#include "tracer/proc/spawn.h"
#include "tracer/trace_loop.h"

/* Open a session (whose options `o` must outlive it) and begin to trace l->pid; with `wait` it may
 * load PyTorch later. l is ready for trace_loop_run, its session and follow are to be freed
 * whatever happens. 0 or -errno with *e. */
int start_attached(struct trace_loop *l, struct session_opts *o, bool wait, struct err *e);

/* Open a session (whose options `o` must outlive it) and start `argv` under it: l is ready for
 * trace_loop_run, its session and follow are to be freed whatever happens. 0; or -errno with *e,
 * and *status what ditrace run exits with. */
int start_program(struct trace_loop *l, const struct session_opts *o, char *const argv[],
		  const struct spawn_signals *signals, int *status, struct err *e);

#endif
