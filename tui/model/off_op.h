/* What threads do in no op: time between one outermost op and the next, told apart by whether the
 * thread has Python code on it, and whether it runs or waits by looks at its state meanwhile. */
#ifndef TUI_MODEL_OFF_OP_H
#define TUI_MODEL_OFF_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/report/gaps.h"
#include "symbolizer/event/event.h"

/* Looks at threads whose events have not come yet. Zero-initialise. */
struct looks {
	struct looks_thread *threads;
	size_t n, room;
};

enum { LOOKS_KEPT = 512, LOOKS_THREADS = 64 };

/* At `ns` (CLOCK_MONOTONIC; ascending for a thread) the thread ran, or waited. A thread that has
 * LOOKS_KEPT of them has its looks merged by two, and of more than LOOKS_THREADS threads the rest
 * is left out. 0 or -ENOMEM. */
int looks_add(struct looks *l, int32_t pid, int32_t tid, uint64_t ns, bool ran);

void looks_free(struct looks *l);

/* Zero-initialise. */
struct off_op {
	struct gaps gaps;
	struct off_op_part {
		uint64_t ns;	      /* of all threads together */
		uint64_t ran, waited; /* looks */
	} python, other;	      /* threads with Python code, and those without */
};

/* The next event of its thread, in the order in which they end. Returns 1 when the thread was in no
 * op before it: since *from, and that time was added to *part, where the looks of it belong. 0: it
 * was not, or not an outermost op. -ENOMEM. */
int off_op_see(struct off_op *o, const struct op_event *ev, struct off_op_part **part,
	       uint64_t *from);

/* Take the thread's looks up to the end of `ev`, an outermost op, and count in *out (only ran and
 * waited) those between `from` and its start. */
void looks_take(struct looks *l, const struct op_event *ev, uint64_t from, struct off_op_part *out);

void off_op_reset(struct off_op *o);

#endif
