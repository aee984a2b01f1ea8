/* What a trace file defines once: from the bytes of its records to things with numbers. Every
 * length, count and number is checked. */
#ifndef PERF_TRACE_TRACE_DEFS_H
#define PERF_TRACE_TRACE_DEFS_H

#include "base/arena.h"
#include "perf/trace/trace_in.h"
#include "perf/trace/trace_read.h"

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
int trace_decode_sampling(struct trace_defs *d, struct in *in, struct sampling *out);
int trace_decode_build(struct trace_defs *d, struct in *in, struct trace_build *out);

/* A META payload: all but shape and stride, then these, to `dims` (2 * ndim of them), which *m
 * points to from then on. Look at in->bad after each. */
void trace_meta_head(struct in *in, struct tensor_meta *m);
void trace_meta_dims(struct in *in, struct tensor_meta *m, int64_t *dims);

void trace_defs_free(struct trace_defs *d);

#endif
