/* How much one clock differs from another, from what collectives say of it. */
#ifndef PERF_COLLECTIVES_CLOCK_FIT_H
#define PERF_COLLECTIVES_CLOCK_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* On no rank a collective ends before all have started it. So what is to be added to the other
 * clock is at least the last start by the first clock minus the end by the other, and at most the
 * end by the first minus the last start by the other. ns, below CLOCK_SHIFT_MOST. */
struct clock_bound {
	uint64_t at_ns; /* by the other clock */
	int64_t low, high;
	int64_t ends; /* the end by the first minus the end by the other */
};

#define CLOCK_SHIFT_MOST (INT64_C(1) << 60)

enum { CLOCK_DRIFT_MOST = 1000 }; /* ppm: the kernel corrects a clock by 500 (adjtimex(2)) */

/* At time t of the other clock shift_ns + drift * (t - at_ns) is to be added. */
struct clock_fit {
	int64_t shift_ns;
	double drift; /* 0 where the bounds and the ends allow it */
	uint64_t at_ns;
	uint64_t known_ns;  /* at no time of the bounds is it further off, as they allow no more for
			       a drift up to CLOCK_DRIFT_MOST */
	uint64_t spread_ns; /* of half of the collectives the ends are as near as this to each other
			     */
	size_t against;	    /* bounds that it violates; they are fewer than half */
};

/* It satisfies most bounds, and is the median of `ends` where they allow that: on all ranks a
 * collective ends at about the same time. 0; -ENODATA without bounds, -ERANGE if no value satisfies
 * more than half of them, or -ENOMEM. */
int clock_fit(const struct clock_bound *bounds, size_t n, struct clock_fit *out);

#endif
