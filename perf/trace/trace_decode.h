/* Events and samples: from the bytes of a record to what they mean. Every length, count and number
 * is checked. */
#ifndef PERF_TRACE_TRACE_DECODE_H
#define PERF_TRACE_TRACE_DECODE_H

#include "base/arena.h"
#include "perf/trace/trace_in.h"
#include "perf/trace/trace_read.h"

struct trace_defs;

/* The statistics behind the values of an event (perf/trace/trace_stats.c). NULL without any, and
 * when they make no sense, or without memory: then in->bad is set. */
const struct event_stats *trace_decode_stats(struct in *in, struct arena *a);

/* 0, -EBADMSG or -ENOMEM. Values are allocated from `values`; NULL: they are passed over, and
 * *out has none; -EAGAIN then when it has statistics, for which there has to be such an arena. */
int trace_decode_event_payload(const struct trace_defs *d, const struct trace_raw_event *raw,
			       struct arena *values, struct op_event *out);

/* A SAMPLE; last_ns: the time of the one before in its block. 1 or -EBADMSG. */
int trace_decode_sample(const struct trace_defs *d, struct in *in, uint64_t last_ns,
			struct sample *out);

#endif
