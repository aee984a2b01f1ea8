/* Inside of the sampler: one process of which samples come. */
#ifndef TRACER_SAMPLE_SAMPLER_PROCESS_H
#define TRACER_SAMPLE_SAMPLER_PROCESS_H

#include "symbolizer/event/sample.h"
#include "symbolizer/native/native_op.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/native/native_symbols.h"
#include "symbolizer/native/perf_map.h"
#include "symbolizer/python/pywalk.h"
#include "symbolizer/target/mem.h"
#include "tracer/sample/known_maps.h"
#include "tracer/sample/perf_sample.h"
#include "tracer/sample/sample_check.h"
#include "tracer/sample/sample_frames.h"
#include "tracer/sample/sample_names.h"
#include "tracer/sample/sampler.h"

enum { SAMPLED_FRAMES = 128, SAMPLED_PYTHON = 256, SAMPLED_MORE = 256 << 10 };

/* A sample that was taken from the buffer, with what was read of the process right then. */
struct taken_sample {
	struct perf_sample sample;
	/* Its stack, and the same read afterwards, `now_len` bytes, which may be more. From malloc,
	 * with room for SAMPLED_MORE behind the largest stack of a sample. */
	uint8_t *then, *now;
	size_t now_len;
	bool python_known; /* the process runs Python; those below are set */
	bool at_once;	   /* what follows was read by the kernel as the sample was taken */
	struct py_top top;
	uint64_t locals[SAMPLED_PYTHON]; /* with at_once: the first local variables */
	uint64_t pairs[SAMPLED_PYTHON][2];
	int npairs;
	bool cut;
	uint64_t code_start, code_end;
};

struct sampler_process;

/* A process that may have ended already. NULL without memory. */
struct sampler_process *sampler_process_new(pid_t pid);
void sampler_process_free(struct sampler_process *p); /* NULL allowed */
pid_t sampler_process_pid(const struct sampler_process *p);

/* It was forked by `from`. */
void sampler_process_forked(struct sampler_process *p, const struct sampler_process *from);

/* It has mapped something to execute, by a record; true: at the place of something else, so that
 * samples from before must be resolved before the call of sampler_process_map. */
bool sampler_process_replaces(const struct sampler_process *p, const struct mapping *m);
void sampler_process_map(struct sampler_process *p, const struct mapping *m);

/* Records of what it has mapped may be missing. */
void sampler_process_missed(struct sampler_process *p);

/* Read what will have changed in a moment: the Python frames of the thread where `frames` (NULL:
 * there are none) has not got them, and its stack. */
void sampler_process_catch(struct sampler_process *p, struct taken_sample *t,
			   struct sample_frames *frames);

/* What the sampler has for all processes. */
struct sampler_shared {
	struct sample_names names;
	struct native_symbols symbols;
	struct sampler_sink sink;
	struct sample_frames *frames; /* NULL: the kernel does not read them */
};

/* Make *out of a sample that was caught. */
void sampler_process_resolve(struct sampler_process *p, struct taken_sample *t,
			     struct sampler_shared *all, struct sample *out);

#endif
