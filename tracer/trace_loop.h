/* Shared by run and attach: their options, and the main loop of a session. */
#ifndef TRACER_TRACE_LOOP_H
#define TRACER_TRACE_LOOP_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/options.h"
#include "tracer/engine/engine.h"
#include "tracer/proc/follow.h"
#include "tracer/session/session.h"

/* Samples in addition to a session's events, in the same file: --sample of run and attach. */

struct trace_samples;

/* Start sampling at `hz`, the argument of --sample; NULL: do not sample, *out is NULL; "": 99 per
 * second. The caller keeps the session. 0 or -errno with *e; free with trace_samples_finish. */
int trace_samples_open(const char *hz, struct session *session, struct trace_samples **out,
		       struct err *e);

/* Whether `hz` is such an argument. 0, or -EINVAL with *e. */
int trace_samples_check(const char *hz, struct err *e);

/* Like sampler_add_child and sampler_add_process; `s` may be NULL in these and the following
 * functions. */
int trace_samples_add_child(struct trace_samples *s, pid_t child, struct err *e);
int trace_samples_add_process(struct trace_samples *s, pid_t pid, struct err *e);

/* A descriptor to poll; -1: none. */
int trace_samples_fd(const struct trace_samples *s);

/* Write the samples taken so far. 0 or -errno with *e. */
int trace_samples_read(struct trace_samples *s, struct err *e);

/* Write the last samples, print their number on stderr, and free `s`. Call it before session_finish
 * and session_close. */
void trace_samples_finish(struct trace_samples *s);

/* Where events go that no option sends anywhere: ditrace.data, unless they are printed; samples
 * need it always. */
void trace_default_output(struct session_opts *o);

extern const char *const trace_phases[]; /* words of --phase, in the order of enum session_phase */

/* The options of both; `o` is a struct session_opts. */
#define TRACE_OPTIONS(o)                                                                           \
	{'o',                                                                                      \
	 "output",                                                                                 \
	 OPTION_STRING,                                                                            \
	 &(o).output,                                                                              \
	 "FILE",                                                                                   \
	 "record to FILE, or into a folder, DIR/ (default ditrace.data; with --print none)",       \
	 NULL},                                                                                    \
	    {0,	  "print", OPTION_FLAG, &(o).print, NULL, "print each event on standard output",   \
	     NULL},                                                                                \
	    {0,		  "sample", OPTION_DEFAULTED,                                              \
	     &(o).sample, "HZ",	    "take samples, too: 99 a second, or HZ",                       \
	     NULL},                                                                                \
	    {0, "ops", OPTION_STRING, &(o).ops, "LIST", "trace these ops only", NULL},             \
	    {0, "not-ops", OPTION_STRING, &(o).not_ops, "LIST", "leave these ops out", NULL},      \
	    {0,		"when", OPTION_STRING,                                                     \
	     &(o).when, "EXPR", "record only calls for which EXPR holds: 'self.dim() == 2'",       \
	     NULL},                                                                                \
	    {0,		 "depth", OPTION_COUNT,                                                    \
	     &(o).depth, "N",	  "trace the outermost N levels of ops only",                      \
	     NULL},                                                                                \
	    {0,                                                                                    \
	     "phase",                                                                              \
	     OPTION_CHOICE,                                                                        \
	     &(o).phase,                                                                           \
	     "all|forward|backward|recompute",                                                     \
	     "trace one phase only",                                                               \
	     trace_phases},                                                                        \
	    {0,		  "no-loss",                                                               \
	     OPTION_FLAG, &(o).no_loss,                                                            \
	     NULL,	  "engine shim: wait for room, sum nothing up",                            \
	     NULL},                                                                                \
	    {0,		  "buffer", OPTION_SIZE,                                                   \
	     &(o).buffer, "SIZE",   "engine shim: records of a thread that may wait, up to 64M",   \
	     NULL},                                                                                \
	{                                                                                          \
		0, "engine", OPTION_CHOICE, &(o).engine, "auto|bpf|ptrace|shim", "how to trace",   \
		    engine_names                                                                   \
	}

/* When they detach, though the program runs on. */
#define LIMIT_OPTIONS(o)                                                                           \
	{0, "for", OPTION_DURATION, &(o).for_ns, "TIME", "detach after TIME (10s, 500ms)", NULL},  \
	{                                                                                          \
		0, "count", OPTION_POSITIVE, &(o).count, "N", "detach after N events", NULL        \
	}

/* Whether the arguments of session options are well-formed. 0, -EINVAL or -ENOMEM with *e. */
int trace_options_check(const struct session_opts *o, struct err *e);

/* status_line.c: a line on the terminal of stderr, rewritten while tracing goes on.
 * Zero-initialise.
 */
struct status_line {
	bool on;    /* stderr is a terminal, and the line was asked for */
	bool shown; /* there is one to clear */
	uint64_t begun_ns, next_ns;
};

void status_line_open(struct status_line *l);

/* Whether it is time to show it again: twice a second. */
bool status_line_due(struct status_line *l);

/* "0:12  34,567 ops  1.2 MiB  0 lost": time since it was opened, `n` of `what`, size of the file,
 * how much was lost. */
void status_line_show(struct status_line *l, const char *what, uint64_t n, uint64_t bytes,
		      uint64_t lost);

/* Clear it, before anything else is printed there. */
void status_line_clear(struct status_line *l);

struct intervene_beside;

struct trace_loop {
	struct session *session;
	struct intervene_beside *change; /* NULL: nothing is changed */
	struct status_line progress;
	struct trace_samples *samples; /* NULL: none are taken */
	struct follow *follow;	       /* NULL: processes are not followed */
	pid_t pid;		       /* the process started or attached to */
	const pid_t *others;	       /* more that are attached to */
	size_t nothers;
	bool is_child;	       /* it is our child: wait for it */
	bool gone;	       /* it has ended, and the others have */
	int status;	       /* from waitpid, when is_child */
	int killed_by;	       /* the signal that ended it, until that was told; 0: none */
	bool dumped;	       /* and a core was written */
	bool lost, told_lost;  /* `follow` lost records; this was reported */
	struct strays *strays; /* of an engine that has to be brought in; NULL: none were seen */
	uint64_t forks,
	    forks_ran_ns;   /* forked processes that ran without probes, the longest time */
	struct err trouble; /* the last process that could not be traced, and why; code 0: none */
};

/* From now on, SIGINT, SIGTERM and SIGHUP end the loop. While there is a child, SIGINT is left to
 * it (the terminal sends it to both), and the others are passed on to it. SIGPIPE is ignored.
 * SIGTSTP, unless it was ignored, and ENGINE_HALTS (engine.h) are for trace_loop_halt. */
void trace_loop_signals(struct trace_loop *l);

/* Whether SIGTSTP or ENGINE_HALTS has arrived, and no SIGCONT of another process since. Let go of
 * all that waits for this process, then call trace_loop_halt, which stops it until SIGCONT comes
 * and reports on stderr that it did; `missed`: what that means for what happened meanwhile. */
bool trace_loop_halts(void);
void trace_loop_halt(const char *missed);

/* Print on stderr which engine is used, and what follows if it is not the first choice. */
void trace_loop_note(const struct trace_loop *l);

/* Print there what cannot be shown because this kernel opens no files of processes
 * (target_files_check). */
void trace_loop_note_files(void);

/* While the process l->pid is frozen, wait, having said so, until it is thawed, or a signal that
 * ends the loop arrives: -EAGAIN with *e then. 0 also when it has ended. */
int trace_loop_await_thaw(const struct trace_loop *l, struct err *e);

/* Run until the process exits, a limit is reached or a signal arrives. 0 or -errno with *e. Prints
 * errors that do not end tracing. */
int trace_loop_run(struct trace_loop *l, struct err *e);

/* Whether a signal that ends the loop has arrived. */
bool trace_loop_stopped(void);

/* Check, without blocking, whether the process has exited; sets l->gone. */
void trace_loop_look(struct trace_loop *l);

/* Print on stderr, once, which signal has ended the child; nothing for SIGINT and SIGPIPE, as a
 * shell does. */
void trace_loop_tell_end(struct trace_loop *l);

/* Wait until the child exits, regardless of signals, and set l->status; when all that it named has
 * been read, as its PID is free then. 0 or -errno. */
int trace_loop_wait(struct trace_loop *l);

#endif
