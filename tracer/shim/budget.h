/* Whose turn it is when only a share of the time may be spent on calls. No clock, no Python: the
 * caller says what time it is. */
#ifndef TRACER_SHIM_BUDGET_H
#define TRACER_SHIM_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BUDGET_CALLS = 1 << 13 }; /* slots, a power of two; half of them are used */

/* A function at a place of the program. */
struct budget_call {
	const void *what; /* not NULL */
	uint64_t place;
	uint64_t turn;		  /* when it was taken last; 0: never */
	uint64_t taken, judged;	  /* calls, and backwards of them */
	uint64_t coming;	  /* backwards that are to come */
	double forward, backward; /* nanoseconds for them */
	double reserved;	  /* nanoseconds for those that are to come */
};

/* Zero-initialise, then budget_begin. */
struct budget {
	double share;	 /* of the time; 0: any */
	double account;	 /* nanoseconds spent, or lost since nobody spent them */
	double reserved; /* nanoseconds for backwards that are to come */
	double spent;	 /* nanoseconds, of `taken` calls */
	double dearest;	 /* nanoseconds that a call was expected to take lately, at most */
	uint64_t taken;
	uint64_t since; /* nanoseconds; 0: nothing was asked yet */
	uint64_t turns, ncalls, begun;
	struct budget_call calls[BUDGET_CALLS];
};

/* Whether this call is taken at the time `now_ns`: 0 if not, else a number for what follows. It is
 * when what it is expected to take, backward and all, is left of the share of the time so far, and
 * all others had a turn since its last; the more time there is to spare, the fewer others will do.
 * A call that was not taken yet is expected to take what others do in the mean, and ten
 * milliseconds at least, for PyTorch does much at the first call. So that share is
 * exceeded by no more than one call takes longer than expected. Of more calls than there are slots,
 * those that are not known share one turn. */
uint64_t budget_decide(struct budget *b, const void *what, uint64_t place, uint64_t now_ns);

/* For the forward, or the backward, of the call with that number so many nanoseconds were spent. A
 * number of before budget_begin, and 0, are of no call. */
void budget_spend(struct budget *b, uint64_t number, bool backward, uint64_t ns);

/* Its backward is to come; it was judged, or (false) never will be. */
void budget_await(struct budget *b, uint64_t number);
void budget_came(struct budget *b, uint64_t number, bool judged);

/* Another share; all calls are new. */
void budget_begin(struct budget *b, double share);

#endif
