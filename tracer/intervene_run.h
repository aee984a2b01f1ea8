/* run and attach, where functions of PyTorch are to do something else: nothing is traced. */
#ifndef TRACER_INTERVENE_RUN_H
#define TRACER_INTERVENE_RUN_H

#include "tracer/intervene/intervene_rules.h"
#include "tracer/proc/spawn.h"
#include "tracer/session/session.h"

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

#endif
