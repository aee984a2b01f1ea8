/* What the commands run, attach and doctor share. */
#ifndef TRACER_INTERNAL_H
#define TRACER_INTERNAL_H

#include <sys/types.h>

#include "tracer/doctor/checks.h"
#include "tracer/intervene/intervene_rules.h"
#include "tracer/proc/spawn.h"
#include "tracer/session/session.h"
#include "tracer/trace_loop.h"

/* start.c: begins to trace a running process, or a program that it starts. */

/* Open a session (whose options `o` must outlive it) and begin to trace l->pid; with `wait` it may
 * load PyTorch later. l is ready for trace_loop_run then. The caller frees its session and follow
 * even on an error. 0 or -errno with *e. */
int start_attached(struct trace_loop *l, struct session_opts *o, bool wait, struct err *e);

/* Open a session (whose options `o` must outlive it) and start `argv` under it. l is ready for
 * trace_loop_run then. The caller frees its session and follow even on an error. 0; or -errno with
 * *e, and *status the exit status of ditrace run. */
int start_program(struct trace_loop *l, const struct session_opts *o, char *const argv[],
		  const struct spawn_signals *signals, int *status, struct err *e);

/* intervene_run.c: run and attach with interventions; nothing is traced then. */

/* Whether interventions are asked for, by `change` or by the capture options in `o`. Both are
 * options of one command; what `change` needs of `o` is copied into it. */
bool intervene_run_wanted(struct intervene_opts *change, const struct session_opts *o);

/* Start argv (NULL-terminated) and wait for its end. Tracing options in `o` that do not go together
 * with `change` are refused; its lists of ops are used as lists of functions. Returns the exit
 * status of the command. */
int intervene_run(struct intervene_opts *change, const struct session_opts *o, char **argv,
		  const struct spawn_signals *signals);

/* The same for the running process `pid`, which runs on when this ends: at a signal, after
 * o->for_ns, or with the process. `wait`: wait until it has a libtorch. Returns EXIT_GOOD or
 * EXIT_FAILED. */
int intervene_attach(struct intervene_opts *change, const struct session_opts *o, pid_t pid,
		     bool wait);

/* cmd_doctor.c: append checks of process `pid`, which has loaded PyTorch and may be traced, by
 * tracing it for a moment: its Python, its ops, the layout of its tensors, and the share of its ops
 * that the probes see. */
void doctor_target(pid_t pid, struct checks *c);

#endif
