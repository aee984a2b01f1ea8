/* Internal to tracer/observe. */
#ifndef TRACER_OBSERVE_INTERNAL_H
#define TRACER_OBSERVE_INTERNAL_H

#include <limits.h>

#include "perf/trace/trace_write.h"
#include "tracer/proc/thread_facts.h"

/* For how long the control group of a process was kept from processors (throttle.c). */
enum { THROTTLE_FILES = 8 };
struct throttle {
	int fds[THROTTLE_FILES];
	size_t n;
	bool is_known;
	bool is_least; /* groups above these are not read */
	char group[PATH_MAX];
	uint64_t before_ns; /* what all together told last */
};

/* Open what tells it of process `pid`, unless that is open. Zero-initialise; free with
 * throttle_free. */
void throttle_find(struct throttle *t, pid_t pid);

/* Only what is about throttling, of *out, to whose time it adds that since the last time. */
void throttle_read(struct throttle *t, struct trace_usage *out);
void throttle_free(struct throttle *t);

/* The time in the text of a cpu.stat or cpu.stat.local of either version. */
bool throttle_in_text(const char *text, uint64_t *ns);

/* What ranks' main threads got of processors, now and then (rank_usage.c). Zero-initialise. */
struct rank_usage {
	struct rank_files {
		int schedstat, stat; /* opened once: of this process, whoever gets its ID */
		struct throttle throttle;
		struct trace_usage last;
		unsigned times;
	} * ranks;
	size_t n, room;
	uint64_t written_ns;
};

/* A process of the session: kept if it has a rank and is no helper of one. Without memory nothing
 * is told of it. */
void rank_usage_add(struct rank_usage *u, const struct trace_process *p);

/* Write what is due at `now_ns`; processes that have ended are forgotten. 0 or -errno of the
 * writer. */
int rank_usage_write(struct rank_usage *u, struct trace_writer *w, uint64_t now_ns);

void rank_usage_free(struct rank_usage *u);

#endif
