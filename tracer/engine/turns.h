/* What tracing costs, measured: in turns, ops are recorded and left out, and the CPU time that an
 * op takes is compared. */
#ifndef TRACER_ENGINE_TURNS_H
#define TRACER_ENGINE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

enum {
	PAIRS_LEAST = 6,      /* of turns, for a figure */
	TURN_OPS_LEAST = 100, /* ops in a turn that counts */
	TURNS_MAX = 64,
	/* After those that are counted, one in which nothing is recorded, so that no op is open
	 * when recording begins for good, in turn 0. */
	TURNS_LAST = TURNS_MAX + 2,
};

/* Whether ops are left out in turn `n`. Of each two, 1 and 2, 3 and 4, ..., they are in one, which
 * is now the second, now the first, so that what changes steadily does so for both. */
static inline bool turn_rests(uint32_t n)
{
	return n & 2;
}

/* What all threads that enter ops have spent in a turn: CPU time, and the number of those ops. */
struct turn_spent {
	uint64_t cpu_ns, ops;
	uint64_t idle_ns; /* of it in jumps at ops that were left out */
	uint64_t entered; /* ops so far, also of threads that are in the turn */
};

/* Of an engine whose probes at the ends of ops stay where they are while ops are left out, as these
 * count them: what the programs take, ns, of a probe at an entry and an exit, and of one at an exit
 * while nothing is recorded. */
struct turn_programs {
	double entry, exit, rest;
};

#endif
