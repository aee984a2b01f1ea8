/* Whose turn it is when only a share of the time may be spent on calls. No clock, no Python: the
 * caller says what time it is. */
#ifndef TRACER_BUDGET_H
#define TRACER_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BUDGET_CALLS = 1 << 13 }; /* slots, a power of two; half of them are used */

/* A function at a line of the program. */
struct budget_call {
	const void *what, *code; /* `what` is not NULL */
	long line;
	uint64_t turn; /* when it was taken last */
};

/* Zero-initialise, then set share. */
struct budget {
	double share;	/* of the time; 0: any */
	double account; /* nanoseconds spent, or lost since nobody spent them */
	uint64_t since; /* nanoseconds; 0: nothing was asked yet */
	uint64_t turns, ncalls;
	struct budget_call calls[BUDGET_CALLS];
};

/* Whether this call is taken at the time `now_ns`: always the first of each function at each line;
 * when there is time, one since whose turn all others had theirs; the more time there is to spare,
 * the fewer others will do. Of more calls than there are slots, those that are
 * not known share one turn. */
bool budget_decide(struct budget *b, const void *what, const void *code, long line,
		   uint64_t now_ns);

/* The calls that were taken took so long. */
void budget_spend(struct budget *b, uint64_t ns);

/* Another share; all calls are new. */
void budget_begin(struct budget *b, double share);

#endif
