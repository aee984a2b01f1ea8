/* Shared by run, attach, doctor and the live view: options, how tracing begins, and its main loop,
 * here or in a process in the background. */
#ifndef TRACER_TRACE_LOOP_H
#define TRACER_TRACE_LOOP_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/options.h"
#include "tracer/doctor/checks.h"
#include "tracer/engine/engine.h"
#include "tracer/intervene/intervene.h"
#include "tracer/proc/follow.h"
#include "tracer/proc/spawn.h"
#include "tracer/proc/thread_facts.h"
#include "tracer/session/session.h"

/* start.c: samples in addition to a session's events, in the same file: --sample of run and
 * attach. */

struct trace_samples;

/* A descriptor to poll; -1: none. */
int trace_samples_fd(const struct trace_samples *s);

/* Write the samples taken so far. 0 or -errno with *e. */
int trace_samples_read(struct trace_samples *s, struct err *e);

/* Write the last samples, print their number on stderr, and free `s`. Call it before session_finish
 * and session_close. */
void trace_samples_finish(struct trace_samples *s);

/* Where events go that no option sends anywhere: ditrace.data, unless they are printed or served as
 * metrics; samples need it always. */
void trace_default_output(struct session_opts *o);

extern const char *const trace_phases[]; /* words of --phase, in the order of enum session_phase */

/* The options of both; `o` is a struct session_opts. */
#define TRACE_OPTIONS(o)                                                                             \
	{'o',                                                                                        \
	 "output",                                                                                   \
	 OPTION_STRING,                                                                              \
	 &(o).output,                                                                                \
	 "FILE",                                                                                     \
	 "record to FILE, or into a folder, DIR/ (default ditrace.data; with --print none)",         \
	 NULL},                                                                                      \
	    {0,	  "print", OPTION_FLAG, &(o).print, NULL, "print each event on standard output",     \
	     NULL},                                                                                  \
	    {0,                                                                                      \
	     "prometheus",                                                                           \
	     OPTION_STRING,                                                                          \
	     &(o).prometheus,                                                                        \
	     "[HOST:]PORT",                                                                          \
	     "serve metrics for Prometheus there; no file, unless with -o",                          \
	     NULL},                                                                                  \
	    {0,		  "sample", OPTION_DEFAULTED,                                                \
	     &(o).sample, "HZ",	    "take samples, too: 99 a second, or HZ",                         \
	     NULL},                                                                                  \
	    {0, "ops", OPTION_LIST, &(o).ops, "LIST", "trace these ops only", NULL},                 \
	    {0, "not-ops", OPTION_LIST, &(o).not_ops, "LIST", "leave these ops out", NULL},          \
	    {0,		"when", OPTION_ONCE,                                                         \
	     &(o).when, "EXPR", "record only calls for which EXPR holds: 'self.dim() == 2'",         \
	     NULL},                                                                                  \
	    {0,		 "depth", OPTION_COUNT,                                                      \
	     &(o).depth, "N",	  "trace the outermost N levels of ops only",                        \
	     NULL},                                                                                  \
	    {0,                                                                                      \
	     "phase",                                                                                \
	     OPTION_CHOICE,                                                                          \
	     &(o).phase,                                                                             \
	     "all|forward|backward|recompute",                                                       \
	     "trace one phase only",                                                                 \
	     trace_phases},                                                                          \
	    {0,		  "devices",                                                                 \
	     OPTION_FLAG, &(o).devices,                                                              \
	     NULL,	  "engine shim: record what GPUs do, of running programs, too",              \
	     NULL},                                                                                  \
	    {0,		  "no-devices",                                                              \
	     OPTION_FLAG, &(o).no_devices,                                                           \
	     NULL,	  "engine shim: do not record what GPUs do",                                 \
	     NULL},                                                                                  \
	    {0,		  "memory", OPTION_FLAG,                                                     \
	     &(o).memory, NULL,	    "engine shim: record what ops allocate and free",                \
	     NULL},                                                                                  \
	    {0,		  "native-stack",                                                            \
	     OPTION_FLAG, &(o).native_stack,                                                         \
	     NULL,	  "engine shim: record the C++ callers of ops below their Python line, too", \
	     NULL},                                                                                  \
	    {0,                                                                                      \
	     "measure-overhead",                                                                     \
	     OPTION_DEFAULTED,                                                                       \
	     &(o).turns,                                                                             \
	     "TURNS",                                                                                \
	     "engines shim, bpf: first measure what recording costs",                                \
	     NULL},                                                                                  \
	    {0,		  "no-loss",                                                                 \
	     OPTION_FLAG, &(o).no_loss,                                                              \
	     NULL,	  "engine shim: wait for room, sum nothing up",                              \
	     NULL},                                                                                  \
	    {0,		  "buffer", OPTION_SIZE,                                                     \
	     &(o).buffer, "SIZE",   "records that may wait to be read, 512k to 64M",                 \
	     NULL},                                                                                  \
	{                                                                                            \
		0, "engine", OPTION_CHOICE, &(o).engine, "auto|bpf|ptrace|shim", "how to trace",     \
		    engine_names                                                                     \
	}

/* When they detach, though the program runs on. */
#define LIMIT_OPTIONS(o)                                                                           \
	{0, "for", OPTION_DURATION, &(o).for_ns, "TIME", "detach after TIME (10s, 500ms)", NULL},  \
	{                                                                                          \
		0, "count", OPTION_POSITIVE, &(o).count, "N", "detach after N events", NULL        \
	}

/* Whether the arguments of session options are well-formed. 0, -EINVAL or -ENOMEM with *e. */
int trace_options_check(const struct session_opts *o, struct err *e);

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

/* trace_signals.c. From now on, SIGINT, SIGTERM and SIGHUP end the loop. While there is a child,
 * SIGINT is left to it (the terminal sends it to both), and the others are passed on to it. SIGPIPE
 * is ignored. SIGTSTP, unless it was ignored, and ENGINE_HALTS (engine.h) are for trace_loop_halt.
 */
void trace_loop_signals(struct trace_loop *l);

/* The child has ended: there is none to pass signals on to. */
void trace_loop_child_ended(void);

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

/* Processes below a traced one that were started without what the engine shim brings in: with
 * another environment (sudo, env -i), from another mount namespace, or by a process to which
 * ditrace has attached. They are entered once they have loaded PyTorch. */

struct strays;

/* Process `pid` has forked or mapped something: remember it in *s, made at need, if it is one. */
void strays_see(struct strays **s, struct session *session, pid_t pid);

/* Enter those whose time has come: threads that load a library are at no place where another could
 * be loaded. `s` may be NULL. *e, unless it has something already: which ones could not be traced,
 * or, once, that first ops are missing. */
void strays_enter(struct strays *s, struct session *session, struct err *e);

void strays_free(struct strays *s); /* NULL allowed */

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

/* cmd_attach.c: tracing of running processes from the first to the last. */

/* Parse `n` PIDs, and with `tree` add what they have started. The first of them is then one that
 * has PyTorch, if any has: it decides what is traced. The caller frees *out even after an error. 0,
 * -EINVAL or -ENOMEM with *e. */
int attach_pids(char **words, int n, bool tree, struct process_list *out, struct err *e);

/* Trace them until all have ended or there is a signal; `change` may be NULL. Returns the exit
 * status of the command. */
int attach_run(const struct process_list *pids, struct session_opts *o,
	       struct intervene_opts *change, bool wait);

/* start.c: whether the command line of run or attach makes sense, as far as that can be
 * said without the program: syntax, and options that do nothing without another. `changes`: what
 * intervene_run_wanted returned. 0, -EINVAL or -ENOMEM with *e. */
int check_options(const struct session_opts *o, const struct intervene_opts *change, bool changes,
		  struct err *e);

/* intervene_run.c: run and attach with interventions. */

/* Before all else: have --first-nan and --capture done from inside of the process, where a device
 * is in use in `pid` (0: here, by a program to be started) and the other options permit it, with a
 * message; --first-nan with --engine shim always. They move from `o` to `change`. */
void intervene_choose_inside(struct intervene_opts *change, struct session_opts *o, pid_t pid);

/* Whether options of run or attach, before trace_default_output, ask for a trace, too. */
bool intervene_traces(const struct session_opts *o);

/* Whether `change`, or the capture options in `o`, ask for interventions. Both are the options of
 * one command; of those that both know, `change` takes its own from `o`: all unless `o` `traces`,
 * else --sample 1/N, --capture with the engine shim, and --ops and --not-ops where what is changed
 * has no list of its own. */
bool intervene_run_wanted(struct intervene_opts *change, struct session_opts *o, bool traces);

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

/* Interventions beside a trace. */

struct intervene_beside;

/* Begin to intervene in process `pid`, or (0) in what this process will start. The caller closes
 * *out, NULL or not, even after an error. 0 or -errno with *e. */
int intervene_beside_open(struct intervene_opts *change, const struct session_opts *o, pid_t pid,
			  struct intervene_beside **out, struct err *e);

/* As intervene_set_away; returns when it is done. NULL allowed. */
void intervene_beside_set_away(struct intervene_beside *b, bool away);

/* Have what runs on compute unchanged, print the summary, and free `b`; NULL allowed. Whether a
 * process does not have what was to be changed (intervene_refused). */
bool intervene_beside_close(struct intervene_beside *b);

/* Tracing in a separate process, to a file that the caller reads meanwhile: nothing the caller does
 * with its terminal can delay tracing. */

struct background_opts {
	struct session_opts session; /* its output is the file to write */
	pid_t pid;		     /* to attach to; 0: start argv */
	char *const *argv;	     /* NULL-terminated */
	const char *program_output;  /* file for standard output and error of argv */
	struct spawn_caller caller;
	/* Interventions in `pid`; if any are given, this process does not trace. */
	struct intervene_opts change;
};

struct background {
	pid_t tracer; /* 0: it has ended */
	int messages; /* file with its messages to the user, one per line; -1: none */
	size_t read;  /* bytes of it already read */
	int ready; /* pipe that reports the start of tracing; -1: reported, or it never will be */
};

/* Start it; background_ready reports when it traces. However the caller dies, the tracer detaches,
 * completes the file and exits; the traced program runs on. Its standard input is /dev/null, and it
 * is in a process group of its own, as is argv. `o` is copied, but what it points to must stay
 * valid. 0, or -errno with *e. */
int background_start(const struct background_opts *o, struct background *b, struct err *e);

/* Whether it is tracing; with `wait`, wait until it is. 1; 0: not yet; or -errno with *e (its own
 * message), after which `b` has been freed. */
int background_ready(struct background *b, bool wait, struct err *e);

/* The next complete line of its messages, without the newline, truncated to `size`. False if there
 * is none. */
bool background_message(struct background *b, char *out, size_t size);

/* Make it detach and complete the file; background_ended reports when that is done. */
void background_stop(struct background *b);

/* Whether it has exited; with `wait`, wait until it has. */
bool background_ended(struct background *b, bool wait);

void background_free(struct background *b);

#endif
