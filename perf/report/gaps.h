/* The time in which a thread was in no op: between one outermost op and the next. */
#ifndef PERF_REPORT_GAPS_H
#define PERF_REPORT_GAPS_H

#include <stdbool.h>

#include "base/intern.h"
#include "symbolizer/event/event.h"

/* Zero-initialise. */
struct gaps {
	struct intern threads;
	uint64_t *ends; /* of each thread's outermost op before */
	size_t room;
};

/* See the next event of its thread, in the order in which they end. 1: *gap is the time since the
 * op before, as an event of the op "(in no op)", located where Python was when the gap ended; it
 * shares what ev points to. 0: there is no gap that ends with this event. -ENOMEM. */
int gaps_see(struct gaps *g, const struct op_event *ev, struct op_event *gap);

void gaps_free(struct gaps *g);

#endif
