/* Follows a tree of processes to find those worth tracing: which processes exist, and which files
 * they map for execution. Uses records of perf_event_open(2), without ptrace and without stopping
 * anything. */
#ifndef TRACER_PROC_FOLLOW_H
#define TRACER_PROC_FOLLOW_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum follow_kind {
	FOLLOW_MAP,  /* `path` was mapped for execution */
	FOLLOW_FORK, /* process `pid` is new; its parent is `parent`, 0 if unknown */
	FOLLOW_EXEC, /* `pid` has called exec for the program `path`; its mappings are gone */
	FOLLOW_EXIT, /* process `pid` has exited with all its threads; always its last event */
	FOLLOW_LEFT, /* from an engine: `pid`, a child of `parent`, could not be taken over */
	FOLLOW_LOST, /* events may have been lost: check /proc for what they reported */
};

struct follow_event {
	enum follow_kind kind;
	pid_t pid, tid; /* in ditrace's PID namespace */
	pid_t parent;
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0 for FOLLOW_EXIT */
	const char *path; /* as the target sees it; "": none; valid during the call */
};

/* Called in the order of events. An event may be reported more than once. */
typedef void follow_fn(const struct follow_event *ev, void *arg);

struct follow;

/* 0 and *out (free with follow_free), or -errno with *e. */
int follow_new(struct follow **out, struct err *e);

/* Follow a child that has not called exec yet (spawn_prepare) from that exec on, with all its
 * descendants. 0; -EACCES with *e if perf_event_open is not permitted (kernel.perf_event_paranoid
 * above 2, seccomp); or -errno with *e. */
int follow_add_child(struct follow *f, pid_t child, struct err *e);

/* Follow process `pid` with the threads and processes that it creates from now on, but not its
 * existing children. If there are too many threads for one event per thread and CPU, events are
 * system-wide and filtered here, which needs CAP_PERFMON. 0 or -errno with *e. */
int follow_add_process(struct follow *f, pid_t pid, struct err *e);

/* A descriptor that becomes readable when follow_read has events. */
int follow_fd(const struct follow *f);

/* Call `fn` for the events since the last call; never blocks. Returns the number of calls or
 * -errno. `fn` may call follow_add_process. */
int follow_read(struct follow *f, follow_fn *fn, void *arg);

/* After FOLLOW_LOST: the followed processes, plus those children of theirs found in /proc that were
 * not reported and are younger than `f`; from now on these are followed, too. Returns their number,
 * with *out from malloc, or -errno. */
ssize_t follow_processes(struct follow *f, pid_t **out);

void follow_free(struct follow *f); /* NULL allowed */

#endif
