/* What the files of this folder share. */
#ifndef TRACER_SHIM_DEVICE_INTERNAL_H
#define TRACER_SHIM_DEVICE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracer/engine/shim/shim_share.h"

/* cupti.c: CUPTI, NVIDIA's library for tracing, which PyTorch's CUDA builds load for
 * torch.profiler. There is one client of it in a process: whoever registers its callbacks last. */

enum cupti_found {
	CUPTI_NONE,   /* the process has no CUDA in use, or not yet */
	CUPTI_ABSENT, /* it uses CUDA, and has not loaded CUPTI, or one that lacks what is needed */
	CUPTI_EARLY,  /* it has loaded CUPTI, and not initialised CUDA yet */
	CUPTI_LATE,   /* CUDA is in use */
};

/* Looks; initialises nothing. */
enum cupti_found cupti_find(void);

/* Have records made from now on; `early`: CUPTI_EARLY was found. 0, or the CUptiResult of what
 * failed. */
int cupti_start(bool early);

/* Hand over what is complete; `all`: also what is in buffers that are not full. */
void cupti_flush(bool all);

/* Have no more records made, and hand over all that there are. Its clock is the default one
 * again. */
void cupti_stop(void);

/* activities.c: called with each record, with `text` for RECORD_NAME alone, by any thread. Whether
 * there was room for it. */
bool activities_take(const struct shim_activity *a, const char *text);

/* So many were lost. */
void activities_lose(uint64_t n);

/* Whether records are wanted, so that CUPTI gets memory. */
bool activities_are_on(void);

#endif
