/* How long the training's steps take: from the end of one call of the optimizer's step to the end
 * of the next (symbolizer/ops/steps.h says what is known of these). */
#ifndef TUI_MODEL_STEP_TIMES_H
#define TUI_MODEL_STEP_TIMES_H

#include <stdint.h>

#include "symbolizer/ops/steps.h"

enum { STEP_TIMES = 256, STEP_PROCESSES = 16 };

/* Zero-initialise. */
struct step_times {
	struct step_process {
		int32_t pid;
		struct steps steps;
		uint64_t seen, last_ns, ended_ns; /* steps that have ended; end of the last op in
						     the optimizer; end of the last step, 0: none */
	} processes[STEP_PROCESSES];
	int32_t pid;	/* whose steps are counted: the first that ended one; 0: none yet */
	uint64_t done;	/* steps that have ended */
	uint64_t timed; /* of them, those whose beginning was seen, too */
	uint64_t ns[STEP_TIMES]; /* of the last ones: that of step number i at i % STEP_TIMES */
};

/* One event that has ended, in the order of the file. */
void step_times_see(struct step_times *t, const struct op_event *ev);

/* The last n (at most STEP_TIMES) step times, oldest first, into out; returns how many there are.
 */
unsigned step_times_last(const struct step_times *t, uint64_t *out, unsigned n);

#endif
