/* Internal to tracer/observe. */
#ifndef TRACER_OBSERVE_INTERNAL_H
#define TRACER_OBSERVE_INTERNAL_H

#include "perf/trace/trace_write.h"
#include "tracer/proc/thread_facts.h"

/* What ranks' main threads got of processors, now and then (rank_usage.c). Zero-initialise. */
struct rank_usage {
	struct process_list ranks;
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
