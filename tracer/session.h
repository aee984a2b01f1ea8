/* A tracing session: processes, an engine, the decoder, and where the events go. What run and
 * attach share. */
#ifndef TRACER_SESSION_H
#define TRACER_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/event.h"

#define SESSION_ALL_LEVELS UINT64_MAX

enum session_phase { SESSION_ALL, SESSION_FORWARD, SESSION_BACKWARD };

struct session_opts {
	const char *ops, *not_ops; /* lists for filter_compile, NULL: all ops, none left out */
	const char *when;	   /* condition for when_compile, NULL: none */
	const char *output;	   /* trace file; NULL: none */
	uint64_t depth;		   /* outermost levels to record, or SESSION_ALL_LEVELS */
	int phase;		   /* enum session_phase */
	uint64_t for_ns, count;	   /* limits; 0: none */
	bool print;		   /* events as text on stdout */
};

struct session;

/* Open the outputs, and begin to open the engine. `o` must outlive the session. 0 or -errno. */
int session_open(const struct session_opts *o, struct session **out, struct err *e);

/* Wait until the engine is open; the calls below do so themselves. 0 or -errno. */
int session_ready(struct session *s, struct err *e);

/* Whether process `pid` maps a libtorch. */
bool session_has_torch(pid_t pid);

/* Start tracing `pid`, which maps a libtorch; nothing happens when it is traced already. 0 or
 * -errno: -ENODATA when it has no libtorch. */
int session_add(struct session *s, pid_t pid, struct err *e);

/* The process has ended, or has become another program: what is open of it ends. */
void session_remove(struct session *s, pid_t pid);

/* Take what has come, for at most a few milliseconds' worth; call it every millisecond. Returns 0;
 * 1 when a limit of the options is reached; -errno when the session cannot go on. A failing output
 * (disk full) is no failure of the session: it goes on without, and *e is set once. */
int session_step(struct session *s, struct err *e);

/* How many processes are traced now, and have ever been. */
unsigned session_live(const struct session *s);
unsigned session_total(const struct session *s);

/* Detach from everything, finish the outputs and print the summary on stderr (the traced program
 * owns stdout). 0 or -errno with *e when an output could not be finished. */
int session_finish(struct session *s, struct err *e);

void session_close(struct session *s);

#endif
