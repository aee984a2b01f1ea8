/* What a tree of processes does that decides whether it is worth tracing: which processes there
 * are, and which files they map to execute. By records of perf_event_open(2), without ptrace and
 * without stopping anything. */
#ifndef TRACER_PROC_FOLLOW_H
#define TRACER_PROC_FOLLOW_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum follow_kind {
	FOLLOW_MAP,  /* `path` was mapped for execution */
	FOLLOW_FORK, /* process `pid` is new; `parent` made it, 0 when that is not known */
	FOLLOW_EXEC, /* `pid` runs another program now, called `path`; its mappings are gone */
	FOLLOW_EXIT, /* process `pid` has ended, all threads of it; its other events came before */
	FOLLOW_LEFT, /* of an engine: `pid`, a child of `parent`, could not be taken over */
	FOLLOW_LOST, /* events were lost, or may be: look at /proc for what they may have told */
};

struct follow_event {
	enum follow_kind kind;
	pid_t pid, tid; /* as ditrace's PID namespace counts them */
	pid_t parent;
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0 for FOLLOW_EXIT */
	const char *path; /* as the target sees it; "" if none; valid during the call */
};

/* In the order in which things happened. An event may come twice. */
typedef void follow_fn(const struct follow_event *ev, void *arg);

struct follow;

/* Returns 0 and *out (free with follow_free), or -errno. */
int follow_new(struct follow **out, struct err *e);

/* Follow a child that is still going to exec (spawn_prepare), from that exec on, and all that come
 * from it. 0; -EACCES with *e when perf_event_open is not permitted (kernel.perf_event_paranoid
 * above 2, seccomp). */
int follow_add_child(struct follow *f, pid_t child, struct err *e);

/* Follow process `pid` with the threads and processes it makes from now on; children that it has
 * already are not included. Where it has so many threads that one event for each on each CPU is too
 * much, everything on the machine is listened to and sorted out here, which needs CAP_PERFMON. 0 or
 * -errno with *e. */
int follow_add_process(struct follow *f, pid_t pid, struct err *e);

/* A descriptor that polls readable when follow_read has something to hand over. */
int follow_fd(const struct follow *f);

/* Call `fn` for what has happened since the last call; never blocks. Returns the number of calls or
 * -errno. `fn` may call follow_add_process. */
int follow_read(struct follow *f, follow_fn *fn, void *arg);

/* After FOLLOW_LOST: the processes that are followed, with children of theirs that /proc shows,
 * that no record told of and that are younger than `f`; these are followed from now on. Their
 * number, *out from malloc; or -errno. */
ssize_t follow_processes(struct follow *f, pid_t **out);

void follow_free(struct follow *f); /* NULL allowed */

#endif
