/* A tracing session: processes, an engine, the decoder, and where the events go. What run and
 * attach share. */
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
#include "tracer/capture/tensor_stats.h"
#include "tracer/proc/follow.h"

/* The ops of the libtorch that a process has mapped. */

/* Read them from the files `l` of process `pid`, l->torch not NULL. As op_table_load,
 * with `lazy` as op_table_load_lazy. */
int load_ops(pid_t pid, const struct libraries *l, bool lazy, struct op_table **out, struct err *e);

#define SESSION_ALL_LEVELS UINT64_MAX

enum session_phase { SESSION_ALL, SESSION_FORWARD, SESSION_BACKWARD };

struct session_opts {
	const char *ops, *not_ops; /* lists for filter_compile, NULL: all ops, none left out */
	const char *when;	   /* condition for when_compile, NULL: none */
	const char *output;	   /* trace file; NULL: none */
	const char *sample;	   /* samples a second, "": the usual; NULL: none */
	uint64_t depth;		   /* outermost levels to record, or SESSION_ALL_LEVELS */
	int phase;		   /* enum session_phase */
	uint64_t for_ns, count;	   /* limits; 0: none */
	bool print;		   /* events as text on stdout */
	bool quiet;		   /* no summary at the end */
	struct capture_opts capture;
	struct stats_opts measure;
	pid_t pid;    /* the process that will be added first; 0: not known */
	pid_t attach; /* what is to be traced runs already; 0: it will be started */
	int engine;   /* enum engine_choice (tracer/engine/engine.h) */
};

struct session;

/* Open the engine and the outputs. `o` must outlive the session. 0 or -errno. */
int session_open(const struct session_opts *o, struct session **out, struct err *e);

/* Which engine was taken in place of the first choice and why, one line; NULL when there is nothing
 * to tell. */
const char *session_note(const struct session *s);

/* Where events are written, until session_finish; NULL: nowhere. */
struct trace_writer *session_writer(struct session *s);

/* Readable when session_step should not be put off; -1: it always can be, for a millisecond. */
int session_wake(const struct session *s);

/* The process that traces in place of ditrace, 0: none. */
pid_t session_tracer(const struct session *s);

/* Whether the engine follows processes by itself, so that the two below are to be used in place of
 * follow.h and freeze.h; they are those of struct engine. */
bool session_follows(const struct session *s);
int session_watch(struct session *s, pid_t pid, struct err *e);
int session_follow(struct session *s, follow_fn *fn, void *arg);

/* Whether process `pid` maps a libtorch. */
bool session_has_torch(pid_t pid);

/* Whether it maps all that tracing needs: libtorch and what that is linked to. */
bool session_is_complete(pid_t pid);

/* Start tracing `pid`, which maps a libtorch; nothing happens when it is traced already. 0 or
 * -errno: -ENODATA when it has no libtorch. */
int session_add(struct session *s, pid_t pid, struct err *e);

/* The process has ended, or has become another program: what is open of it ends. */
void session_remove(struct session *s, pid_t pid);

/* Take what has come, for at most a few milliseconds' worth; call it every millisecond. Returns 0;
 * 1 when a limit of the options is reached; -errno when the session cannot go on. A failing output
 * (disk full) is no failure of the session: it goes on without, and *e is set once. */
int session_step(struct session *s, struct err *e);

/* How many processes have been traced, those that have ended included. */
unsigned session_total(const struct session *s);

/* Detach from everything, finish the outputs and print the summary on stderr (the traced program
 * owns stdout). 0 or -errno when an output failed, with *e unless session_step has told it. */
int session_finish(struct session *s, struct err *e);

void session_close(struct session *s);

#endif
