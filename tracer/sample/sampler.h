/* Samples the stacks of threads in a tree of processes, at a given frequency of each one's CPU
 * time. By perf_event_open(2), without stopping anything. */
#ifndef TRACER_SAMPLE_SAMPLER_H
#define TRACER_SAMPLE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "perf/trace/trace_write.h"
#include "symbolizer/event/event.h"

/* The receiver of samples. */
struct sampler_sink {
	void *arg;
	/* In the order of time; what *s points to stays valid until `forget`. */
	void (*sample)(const struct sample *s, void *arg);
	void (*lost)(uint64_t time_ns, uint64_t count, void *arg);
	/* Build ID of a file, called before the first native frame in it. */
	void (*build)(const char *file, const void *id, size_t len, void *arg);
	/* Stacks are about to be freed, since their process has ended. */
	void (*forget)(void *arg);
};

enum { SAMPLER_HZ = 99 }; /* the default frequency */

struct sampler_counts {
	uint64_t samples, lost;
	uint64_t python;     /* samples with a Python stack */
	uint64_t at_once;    /* of these, read by the kernel as the sample was taken */
	uint64_t unnamed;    /* with a function that was freed before it was read */
	uint64_t mismatched; /* samples whose Python stack could not be read in time */
	uint64_t throttled;  /* times that the kernel throttled sampling */
};

struct sampler;

/* Prepare to take `hz` samples per second of each thread's CPU time. 0 and *out (free with
 * sampler_close), or -errno with *e and a hint. Above the kernel's limit it is that: see
 * sampler_how. `sink` is copied. */
int sampler_open(uint64_t hz, const struct sampler_sink *sink, struct sampler **out, struct err *e);
void sampler_close(struct sampler *s); /* NULL allowed; calls sink.forget */

/* The event and frequency in use. */
const struct sampling *sampler_how(const struct sampler *s);

/* Sample a child that has not called exec yet (spawn_prepare), from that exec on, with all threads
 * and processes that it creates. 0 or -errno with *e. */
int sampler_add_child(struct sampler *s, pid_t child, struct err *e);

/* Sample all threads of process `pid`, and threads and processes that it creates from now on. 0 or
 * -errno with *e. */
int sampler_add_process(struct sampler *s, pid_t pid, struct err *e);

/* A descriptor that polls readable when there are samples. Read them at once: Python frames are
 * read only then. */
int sampler_fd(const struct sampler *s);

/* Hand over the samples taken until now. 0 or -ENOMEM. */
int sampler_read(struct sampler *s);

/* Counts since sampler_open. */
struct sampler_counts sampler_counts(const struct sampler *s);

/* record_samples.c: samples into a trace file. */

enum { RECORD_NAMED = 1024 };

/* Zero-initialise, then set the writer, which stays the caller's. */
struct record_samples {
	struct trace_writer *writer;
	int32_t named[RECORD_NAMED]; /* a cache of threads whose names were written */
	int code;		     /* -errno of the first write that failed */
};

/* A sink that writes samples and the names of their threads. `r` must outlive the sampler. */
struct sampler_sink record_samples_sink(struct record_samples *r);

/* Say on stderr, if so, that the kernel permits fewer samples a second than `hz`. */
void record_samples_tell_rate(const struct sampler *s, uint64_t hz);

/* Print "1,234 samples of cpu-clock at 99 Hz, 3 lost, ..." to stderr. */
void record_samples_summary(const struct sampler *s);

#endif
