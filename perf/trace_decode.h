/* From the bytes of a record to what they mean; the reader's other half. Every length, count and
 * number is checked. */
#ifndef PERF_TRACE_DECODE_H
#define PERF_TRACE_DECODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "perf/trace_read.h"

/* A payload being read; once `bad` everything reads as 0. */
struct in {
	const uint8_t *p, *end;
	bool bad;
};

uint8_t in_b(struct in *in);
uint64_t in_u(struct in *in);
int64_t in_s(struct in *in);
double in_f(struct in *in);

/* A number below `limit`, at most 2^32. */
uint32_t in_below(struct in *in, uint64_t limit);

/* The bytes of a str; *len of them, without a NUL. */
const char *in_str(struct in *in, uint32_t *len);

/* The statistics behind the values of an event (perf/trace_stats.c). NULL without any, and when
 * they make no sense, or without memory: then in->bad is set. */
const struct event_stats *trace_decode_stats(struct in *in, struct arena *a);

struct trace_thread_def {
	int32_t pid, tid;
};

/* What the file has defined so far. Zero-initialise. */
struct trace_defs {
	struct arena arena;
	size_t
	    bytes; /* taken from the arena; limited, so that a small file cannot fill the memory */
	char **strings;
	struct op_desc **ops;
	struct tensor_meta **metas;
	struct py_frame **frames;
	struct py_stack **stacks;
	struct trace_thread_def **threads;
	uint32_t nstrings, nops, nmetas, nframes, nstacks, nthreads;
};

/* Take in a definition (STRING, OP, META, FRAME, TEXT, STACK). 0 (also for types not known),
 * -EBADMSG or -ENOMEM. */
int trace_decode_definition(struct trace_defs *d, uint16_t type, struct in *in);

/* 1, -EBADMSG or -ENOMEM. The strings live as long as `d`. */
int trace_decode_target(struct trace_defs *d, struct in *in, struct trace_target *out);
int trace_decode_thread(struct trace_defs *d, struct in *in, int32_t *pid, int32_t *tid,
			const char **name);

/* 0, -EBADMSG or -ENOMEM. Values are allocated from `values`; NULL: they are passed over, and
 * *out has none; -EAGAIN then when it has statistics, for which there has to be such an arena. */
int trace_decode_event_payload(const struct trace_defs *d, const struct trace_raw_event *raw,
			       struct arena *values, struct op_event *out);

/* A SAMPLE; last_ns: the time of the one before in its block. 1 or -EBADMSG. */
int trace_decode_sample(const struct trace_defs *d, struct in *in, uint64_t last_ns,
			struct sample *out);

/* 1, -EBADMSG or -ENOMEM. The strings live as long as `d`. */
int trace_decode_sampling(struct trace_defs *d, struct in *in, struct sampling *out);
int trace_decode_build(struct trace_defs *d, struct in *in, struct trace_build *out);

void trace_defs_free(struct trace_defs *d);

#endif
