/* What the files of this folder share. */
#ifndef TRACER_INTERNAL_H
#define TRACER_INTERNAL_H

#include <sys/types.h>

#include "tracer/doctor/checks.h"
#include "tracer/intervene/intervene_rules.h"
#include "tracer/proc/spawn.h"
#include "tracer/session/session.h"
#include "tracer/trace_loop.h"

/* How tracing begins: with a running process, or with a program that is started. */

/* Open a session (whose options `o` must outlive it) and begin to trace l->pid; with `wait` it may
 * load PyTorch later. l is ready for trace_loop_run, its session and follow are to be freed
 * whatever happens. 0 or -errno with *e. */
int start_attached(struct trace_loop *l, struct session_opts *o, bool wait, struct err *e);

/* Open a session (whose options `o` must outlive it) and start `argv` under it: l is ready for
 * trace_loop_run, its session and follow are to be freed whatever happens. 0; or -errno with *e,
 * and *status what ditrace run exits with. */
int start_program(struct trace_loop *l, const struct session_opts *o, char *const argv[],
		  const struct spawn_signals *signals, int *status, struct err *e);

/* run and attach, where functions of PyTorch are to do something else: nothing is traced. */

/* Is anything of it asked for, by `change` or by what `o` has of captures? Both belong to one
 * command; what is of both is taken over into `change`. */
bool intervene_run_wanted(struct intervene_opts *change, const struct session_opts *o);

/* Start argv (NULL-ended) and see it through. `o` has the options of tracing: those that do not go
 * together with `change` are refused, its lists of ops are taken for functions. Returns the exit
 * status of the command. */
int intervene_run(struct intervene_opts *change, const struct session_opts *o, char **argv,
		  const struct spawn_signals *signals);

/* The same for process `pid`, which runs and goes on when this ends: at a signal, after o->for_ns,
 * or with it. `wait`: until it has a libtorch. Returns EXIT_GOOD or EXIT_FAILED. */
int intervene_attach(struct intervene_opts *change, const struct session_opts *o, pid_t pid,
		     bool wait);

/* Appends checks of process `pid`, which has loaded PyTorch and may be traced, to c: its Python,
 * its ops, the layout of its tensors and what share of its ops the probes see, by tracing it for a
 * moment. */
void doctor_target(pid_t pid, struct checks *c);

#endif
