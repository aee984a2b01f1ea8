/* A tracing session: processes, an engine, the decoder, and observers of the events. Shared by run
 * and attach. */
#ifndef TRACER_SESSION_SESSION_H
#define TRACER_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/event/event.h"
#include "symbolizer/ops/ops.h"
#include "symbolizer/target/maps.h"
#include "tracer/capture/capture.h"
#include "tracer/proc/follow.h"
#include "tracer/proc/spawn.h"

/* The ops of the libtorch that a process has mapped. */

/* Read them from the files `l` of process `pid`; l->torch must not be NULL. Like op_table_load, or
 * op_table_load_lazy with `lazy`. */
int load_ops(pid_t pid, const struct libraries *l, enum ops_kind kind, struct op_table **out,
	     struct err *e);

#define SESSION_ALL_LEVELS UINT64_MAX

enum session_phase { SESSION_ALL, SESSION_FORWARD, SESSION_BACKWARD, SESSION_RECOMPUTE };

struct session_opts {
	const char *ops, *not_ops; /* lists for filter_compile; NULL: all ops, none excluded */
	const char *when;	   /* condition for when_compile; NULL: none */
	const char *output;	   /* trace file; NULL: none */
	const char *prometheus;	   /* [HOST:]PORT where metrics are served; NULL: nowhere */
	const char *sample;	   /* samples per second, "": the default rate; NULL: none */
	uint64_t depth;		   /* outermost levels to record, or SESSION_ALL_LEVELS */
	int phase;		   /* enum session_phase */
	uint64_t for_ns, count;	   /* limits; 0: none */
	const char *turns; /* by how many the overhead is measured, "": 24; NULL: it is not */
	bool one_file;	   /* the trace is one file, whatever ranks are traced */
	bool print;	   /* events as text on stdout */
	bool quiet;	   /* no summary at the end */
	bool shared;	   /* another session may trace the processes meanwhile */
	bool no_loss;	   /* threads wait while there is no room for their records */
	bool no_devices;   /* what devices do is not recorded */
	bool devices;	   /* it is, of running processes, too */
	bool memory;	   /* what is done with memory is recorded */
	bool native_stack; /* the C++ callers of ops that have a Python frame, too */
	uint64_t buffer;   /* bytes of records that may wait; 0: the engine's own */
	struct capture_opts capture;
	struct stats_opts measure;
	pid_t pid;		       /* the process that will be added first; 0: unknown */
	pid_t attach;		       /* the running process to trace; 0: it will be started */
	int engine;		       /* enum engine_choice (tracer/engine/engine.h) */
	const struct spawn_user *user; /* of the program that will be started; NULL: ditrace's */
};

struct session;

/* Parse options.turns. 0 or -EINVAL. */
int session_turns_parse(const char *text, uint32_t *turns, struct err *e);

/* Open the engine and the outputs. `o` must outlive the session. 0 or -errno. */
int session_open(const struct session_opts *o, struct session **out, struct err *e);

/* What the user is to know of the engine that was chosen, in one line: why it is not the first
 * choice, or what it does to a running process; NULL: nothing. */
const char *session_note(const struct session *s);

/* The engine's name. */
const char *session_engine(const struct session *s);

/* Whether no summary is asked for: options.quiet. */
bool session_is_quiet(const struct session *s);

/* How many ops of the table the options select; 0 before the first process is added. */
unsigned session_ops(const struct session *s);

/* So far: ops that ended, size of the trace file, records lost. */
void session_progress(struct session *s, uint64_t *ops, uint64_t *bytes, uint64_t *lost);

/* The first exit status of the observers that isn't EXIT_GOOD. */
int session_status(const struct session *s);

/* The writer of the trace file, until session_finish; NULL: none. */
struct trace_writer *session_writer(struct session *s);

/* Readable when session_step should be called at once; -1: it can always wait a millisecond. */
int session_wake(const struct session *s);

/* The process that traces on behalf of ditrace, 0: none. */
pid_t session_tracer(const struct session *s);

/* Whether the engine follows processes by itself. Then use the two functions below instead of
 * follow.h and seize.h; they are those of struct engine. */
bool session_follows(const struct session *s);
int session_watch(struct session *s, pid_t pid, struct err *e);
int session_follow(struct session *s, follow_fn *fn, void *arg);

/* Before this process stops itself (`away`), and when it goes on. No thread is stopped or waits for
 * it in between, once some rounds of session_follow and session_step have handled those that did.
 */
void session_set_away(struct session *s, bool away);

/* Start tracing `pid`, which maps a libtorch; does nothing if it is already traced. 0 or -errno:
 * -ENODATA if it has no libtorch. */
int session_add(struct session *s, pid_t pid, struct err *e);

/* Whether the engine brings something into processes: what they start follows by itself unless it
 * is started without that. Whether `pid` was: it could be traced, and has nothing of the engine. */
bool session_enters(const struct session *s);
bool session_is_stray(struct session *s, pid_t pid);

/* Process `pid` has mapped a library that is ditrace's own (injector_is_library): what it computes
 * for ditrace itself is not recorded from now on. Does nothing if it is not traced. */
void session_library_came(struct session *s, pid_t pid);

/* `pid`, a running process like that of the options, will be added next. */
void session_expect(struct session *s, pid_t pid);

/* From now on, rather than from the first process on, the time counts that limits tracing. */
void session_start_time(struct session *s);

/* The process has exited or called exec: its open ops end. */
void session_remove(struct session *s, pid_t pid);

/* Consume what has arrived, at most a few milliseconds' worth; call it every millisecond, or
 * after session_pause. Returns 0; 1 when a limit of the options is reached; -errno when the session
 * cannot go on. A failing output (disk full) does not fail the session: it goes on without that
 * output, and *e is set once.
 */
int session_step(struct session *s, struct err *e);

/* How many milliseconds until the next session_step. */
int session_pause(const struct session *s);

/* The process whose libtorch does not have what the options name (--ops, --not-ops, --when), so
 * that nothing can be traced: session_step has failed. 0: none. */
pid_t session_refused(const struct session *s);

/* Number of processes traced so far, including exited ones. */
unsigned session_total(const struct session *s);

/* Number of processes with PyTorch that could not be traced, as ditrace was stopped or had no
 * processor when they loaded it; that was told. */
unsigned session_missed(const struct session *s);

/* Detach from everything, complete the outputs and print the summary on stderr (the traced program
 * owns stdout). 0, or -errno if an output failed, with *e unless session_step has reported it. */
int session_finish(struct session *s, struct err *e);

void session_close(struct session *s);

#endif
