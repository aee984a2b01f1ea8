/* Sampling: what the threads of a tree of processes do, after every so much time that each has
 * spent on a processor. By perf_event_open(2); nothing is stopped for it. */
#ifndef TRACER_SAMPLE_SAMPLER_H
#define TRACER_SAMPLE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "perf/trace/trace_write.h"
#include "symbolizer/event/event.h"

/* Whom samples go to. */
struct sampler_sink {
	void *arg;
	/* In the order of time; what *s points to stays until `forget`. */
	void (*sample)(const struct sample *s, void *arg);
	void (*lost)(uint64_t time_ns, uint64_t count, void *arg);
	/* Of a file that native frames are of, before the first of them. */
	void (*build)(const char *file, const void *id, size_t len, void *arg);
	/* Stacks of a process that has ended are about to be freed. */
	void (*forget)(void *arg);
};

enum { SAMPLER_HZ = 99 }; /* where no other rate is asked for */

struct sampler_counts {
	uint64_t samples, lost;
	uint64_t python;     /* samples with a Python stack */
	uint64_t at_once;    /* of these, read by the kernel as the sample was taken */
	uint64_t mismatched; /* samples whose Python stack could not be read in time */
	uint64_t throttled;  /* times that the kernel held sampling back */
};

struct sampler;

/* Get ready to take `hz` samples in a second of each thread's time. 0 and *out (free with
 * sampler_close), or -errno with *e and a hint: not permitted, more than the kernel takes. `sink`
 * is copied. */
int sampler_open(uint64_t hz, const struct sampler_sink *sink, struct sampler **out, struct err *e);
void sampler_close(struct sampler *s); /* NULL allowed; calls sink.forget */

/* What is taken. */
const struct sampling *sampler_how(const struct sampler *s);

/* Sample a child that is still going to exec (spawn_prepare), from that exec on, with all threads
 * and processes that it makes. 0 or -errno with *e. */
int sampler_add_child(struct sampler *s, pid_t child, struct err *e);

/* Sample all threads of process `pid`, and those and the processes that it makes from now on. */
int sampler_add_process(struct sampler *s, pid_t pid, struct err *e);

/* A descriptor that polls readable when there are samples. Read them at once: Python frames are
 * read then. */
int sampler_fd(const struct sampler *s);

/* Hand over the samples taken until now. 0 or -ENOMEM. */
int sampler_read(struct sampler *s);

struct sampler_counts sampler_counts(const struct sampler *s);

/* Samples into a trace file. */

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
