#ifndef TRACER_CMD_RUN_H
#define TRACER_CMD_RUN_H

#include "tracer/proc/spawn.h"
#include "tracer/trace_loop.h"

/* ditrace run: start a program under trace. Returns the program's exit status, or that of a
 * failure. */
int cmd_run(int argc, char **argv);

/* Open a session (whose options `o` must outlive it) and start `argv` under it: l is ready for
 * trace_loop_run, its session and follow are to be freed whatever happens. 0; or -errno with *e,
 * and *status what ditrace run exits with. */
int run_start(struct trace_loop *l, const struct session_opts *o, char *const argv[],
	      const struct spawn_signals *signals, int *status, struct err *e);

#endif
