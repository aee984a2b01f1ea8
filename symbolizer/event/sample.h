/* A sample: what one thread did at one moment, taken after every so much time on a processor.
 * Beside the op event what the trace file holds. */
#ifndef SYMBOLIZER_EVENT_SAMPLE_H
#define SYMBOLIZER_EVENT_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/event/event.h"

struct sample {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t weight;  /* what it stands for: ns on a processor, or cycles (struct sampling) */
	int32_t pid, tid; /* as the caller of ditrace sees them */
	const struct op_desc *op;      /* the op or backward node; NULL: see sample_op_name */
	const struct py_stack *python; /* NULL: it ran no Python, or see `mismatched` */
	/* file: that holds the code; function: demangled, or the address in the file; line 0. NULL:
	 * not known. */
	const struct py_stack *native;
	uint8_t phase;	 /* enum op_phase */
	bool mismatched; /* it ran Python, but had moved on before the frames could be read */
	bool in_kernel;
};

/* How samples were taken. */
struct sampling {
	uint64_t frequency; /* a second of each thread's time */
	const char *event;  /* "cpu-clock": weights are ns; "cycles" */
	bool kernel;	    /* time in the kernel was sampled, too */
};

/* The name of its op; "(in no op)" where the whole native stack has none; "(op not known)" where
 * the way to the outermost frames was not found. */
const char *sample_op_name(const struct sample *s);

/* The sample as an event of its op (named as above) that lasts for its weight, for what sums up
 * events. *out points to what *s does. */
void sample_as_event(const struct sample *s, struct op_event *out);

/* The file that native frames in no file have: "[anon PID BOOT]", of which BOOT tells this boot of
 * this machine from others. 32 bytes are enough. */
void sample_anon_file(int32_t pid, char *out, size_t size);

#endif
