/* The Python frames of samples, from an eBPF program that runs as each sample is taken. Needs
 * CAP_BPF and CAP_PERFMON; without, they are read afterwards (tracer/sample/sampler_process.h). */
#ifndef TRACER_SAMPLE_SAMPLE_FRAMES_H
#define TRACER_SAMPLE_SAMPLE_FRAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/python/pywalk.h"

struct sample_frames;

/* 0 and *out (free with sample_frames_close), or -errno. */
int sample_frames_open(struct sample_frames **out);
void sample_frames_close(struct sample_frames *f); /* NULL allowed */

/* The program for PERF_EVENT_IOC_SET_BPF of every event that takes samples. */
int sample_frames_program(const struct sample_frames *f);

/* How to walk process `pid`; NULL: not at all any more. 0 or -errno. */
int sample_frames_set(struct sample_frames *f, pid_t pid, const struct py_walk *walk);

/* What was sent of one sample. */
struct sampled_frames {
	struct py_top top;	       /* tstate 0: the thread runs no Python */
	uint64_t frames[PY_FRAMES][3]; /* code object, instruction, first local variable */
	int n;
	bool cut;
};

/* Of the sample that thread `tid` took at `time_ns`. False: there is nothing of it. */
bool sample_frames_take(struct sample_frames *f, pid_t tid, uint64_t time_ns,
			struct sampled_frames *out);

#endif
