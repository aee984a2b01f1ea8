#ifndef TRACER_CMD_ATTACH_H
#define TRACER_CMD_ATTACH_H

#include "tracer/trace_loop.h"

/* ditrace attach: trace a running process. Returns the exit status. */
int cmd_attach(int argc, char **argv);

/* Open a session (whose options `o` must outlive it) and begin to trace l->pid; with `wait` it may
 * load PyTorch later. l is ready for trace_loop_run, its session and follow are to be freed
 * whatever happens. 0 or -errno with *e. */
int attach_start(struct trace_loop *l, struct session_opts *o, bool wait, struct err *e);

#endif
