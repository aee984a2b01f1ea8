/* A PERF_RECORD_SAMPLE of perf_event_open(2) with what the sampler asks for. */
#ifndef TRACER_SAMPLE_PERF_SAMPLE_H
#define TRACER_SAMPLE_PERF_SAMPLE_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "symbolizer/code/arch_x86_64.h"

struct perf_sample {
	pid_t pid, tid; /* 0: it is ending */
	uint64_t time;	/* CLOCK_MONOTONIC ns */
	uint64_t period;
	bool in_kernel;
	bool has_regs; /* else it has no stack either: no user space, or 32-bit code */
	uint64_t regs[ARCH_REGS];
	const uint8_t *stack; /* from regs[ARCH_SP] upwards, `len` bytes of the record */
	size_t len;
};

/* What such a sample holds: sample_type, sample_regs_user and sample_stack_user of *attr. */
void perf_sample_ask(struct perf_event_attr *attr);

/* Take the record apart: `h` and h->size - sizeof(*h) bytes behind it, any bytes. False: it is no
 * such record, or shorter than it says. */
bool perf_sample_parse(const struct perf_event_header *h, struct perf_sample *out);

#endif
