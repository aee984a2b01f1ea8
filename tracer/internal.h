/* Shared by the commands run, attach and doctor. */
#ifndef TRACER_INTERNAL_H
#define TRACER_INTERNAL_H

#include <sys/types.h>

#include "tracer/doctor/checks.h"
#include "tracer/intervene/intervene_rules.h"
#include "tracer/proc/spawn.h"
#include "tracer/session/session.h"
#include "tracer/trace_loop.h"

/* start.c: begin to trace a running process, or a program that ditrace starts. */

/* Open a session, whose options `o` must outlive it, and begin to trace l->pid and l->others; with
 * `wait`, the process may load PyTorch later. l is then ready for trace_loop_run. The caller frees
 * its session and follow even after an error. 0 or -errno with *e. */
int start_attached(struct trace_loop *l, struct session_opts *o, bool wait, struct err *e);

/* Open a session, whose options `o` must outlive it, and start `argv` under it. l is then ready for
 * trace_loop_run. The caller frees its session and follow even after an error. 0; or -errno with
 * *e, and in *status the exit status of ditrace run. */
int start_program(struct trace_loop *l, const struct session_opts *o, char *const argv[],
		  const struct spawn_caller *caller, int *status, struct err *e);

/* check_options.c: whether the command line of run or attach makes sense, as far as that can be
 * said without the program: syntax, and options that do nothing without another. `changes`: what
 * intervene_run_wanted returned. 0, -EINVAL or -ENOMEM with *e. */
int check_options(const struct session_opts *o, const struct intervene_opts *change, bool changes,
		  struct err *e);

/* intervene_run.c: run and attach with interventions. */

/* Whether options of run or attach, before trace_default_output, ask for a trace, too. */
bool intervene_traces(const struct session_opts *o);

/* Whether `change`, or the capture options in `o`, ask for interventions. Both are the options of
 * one command; of those that both know, `change` takes its own from `o`: all unless `o` `traces`,
 * else --sample 1/N, --capture with the engine shim, and --ops and --not-ops where what is changed
 * has no list of its own. */
bool intervene_run_wanted(struct intervene_opts *change, struct session_opts *o, bool traces);

/* Check what does not go together, and read `change` into *rules, to be freed by the caller.
 * Buffers stderr, so that a table is written in one piece amid the program's output. 0 or -errno
 * with *e. */
int intervene_prepare(struct intervene_opts *change, const struct session_opts *o,
		      struct intervene_rules *rules, struct err *e);

/* With `wait`, wait until process l->pid has loaded libtorch. 0, or -ENOENT with *e: it has not. */
int intervene_await_torch(struct trace_loop *l, bool wait, struct err *e);

/* Start argv (NULL-terminated) and wait until it exits, without tracing. Returns the exit status of
 * the command. */
int intervene_run(struct intervene_opts *change, const struct session_opts *o, char **argv,
		  const struct spawn_caller *caller);

/* The same for the running process `pid`. Returns on a signal, after o->for_ns, or when the process
 * exits; the process runs on. `wait`: wait until it has loaded libtorch. Returns EXIT_GOOD or
 * EXIT_FAILED. */
int intervene_attach(struct intervene_opts *change, const struct session_opts *o, pid_t pid,
		     bool wait);

/* intervene_beside.c: interventions beside a trace. */

struct intervene_beside;

/* Begin to intervene in process `pid`, or (0) in what this process will start. The caller closes
 * *out, NULL or not, even after an error. 0 or -errno with *e. */
int intervene_beside_open(struct intervene_opts *change, const struct session_opts *o, pid_t pid,
			  struct intervene_beside **out, struct err *e);

/* As intervene_set_away; returns when it is done. NULL allowed. */
void intervene_beside_set_away(struct intervene_beside *b, bool away);

/* Have what runs on compute unchanged, print the summary, and free `b`; NULL allowed. */
void intervene_beside_close(struct intervene_beside *b);

/* cmd_doctor.c: check process `pid`, which has loaded PyTorch and may be traced, by tracing it
 * briefly; append checks of its Python, its ops, the layout of its tensors, and the share of its
 * ops that the probes see. */
void doctor_target(pid_t pid, struct checks *c);

#endif
