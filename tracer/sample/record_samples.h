/* Samples into a trace file. */
#ifndef TRACER_SAMPLE_RECORD_SAMPLES_H
#define TRACER_SAMPLE_RECORD_SAMPLES_H

#include "perf/trace/trace_write.h"
#include "tracer/sample/sampler.h"

enum { RECORD_NAMED = 1024 };

/* Zero-initialise but for the writer, which is the caller's. */
struct record_samples {
	struct trace_writer *writer;
	int32_t named[RECORD_NAMED]; /* threads whose names were written, by their numbers */
	int code;		     /* -errno of the first write that failed */
};

/* Where to give samples to: writes them, with the names of their threads. `r` must outlive the
 * sampler. */
struct sampler_sink record_samples_sink(struct record_samples *r);

/* "1,234 samples of cpu-clock at 99 Hz, 3 lost, ..." on stderr. */
void record_samples_summary(const struct sampler *s);

#endif
