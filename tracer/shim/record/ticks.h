/* CLOCK_MONOTONIC by the processor's own counter, which takes half as long to read. */
#ifndef TRACER_SHIM_RECORD_TICKS_H
#define TRACER_SHIM_RECORD_TICKS_H

#include <stdint.h>

#include "symbolizer/code/arch_x86_64.h"

/* Of one thread. Zero-initialise. */
struct ticks {
	uint64_t at, ns; /* the counter when the clock was read last, and what it showed */
	uint64_t good;	 /* for so many ticks from then on the counter will do; 0: it will not */
	uint64_t rate;	 /* ns a tick, in 1 / 2^32; 0: not known */
	uint64_t last;	 /* ns that were given out */
};

/* Find out whether the kernel itself keeps the time by the counter. */
void ticks_prepare(void);

/* Read the clock, and from time to time learn the counter's rate. */
uint64_t ticks_read_clock(struct ticks *t);

/* CLOCK_MONOTONIC in ns; never less than before. */
static inline uint64_t ticks_now(struct ticks *t)
{
	uint64_t past = arch_ticks() - t->at;
	if (past >= t->good)
		return ticks_read_clock(t);
	uint64_t ns = t->ns + (past * t->rate >> 32);
	if (ns > t->last)
		t->last = ns;
	return t->last;
}

#endif
