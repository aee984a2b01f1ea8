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

uint64_t in_u(struct in *in);

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

/* 0, -EBADMSG or -ENOMEM. Values are allocated from `values`. */
int trace_decode_event_payload(const struct trace_defs *d, const struct trace_raw_event *raw,
			       struct arena *values, struct op_event *out);

void trace_defs_free(struct trace_defs *d);

#endif
