/* What the files of this folder share. */
#ifndef TUI_MODEL_INTERNAL_H
#define TUI_MODEL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "perf/report/aggregate.h"
#include "symbolizer/event/event.h"
#include "tui/model/view.h"

/* What threads do in no op: time between one outermost op and the next, told apart by whether the
 * thread has Python code on it, and whether it runs or waits by looks at its state meanwhile. */

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

/* What the parts of the view share: view.c takes events, view_rows.c chooses and sorts. */

enum { MADE = 65536, THREADS_MAX = 1024 };

struct view {
	struct grouping *all[GROUPING_GROUPS];
	struct grouping *going, *whole; /* intervals; NULL while none is shown, or is over */
	uint64_t going_first, going_last, whole_ns;
	struct off_op all_outside, going_outside, whole_outside; /* beside those */
	struct looks looks;
	enum grouping_by group;
	bool interval, reversed;
	enum view_column column;
	char filter[VIEW_FILTER_MAX];
	struct view_row *rows;
	size_t nrows, rows_room;

	struct view_thread {
		int32_t pid, tid;
		char name[32];
	} * threads;
	size_t nthreads, threads_room;

	/* The rows of the last forward events, at their id % MADE, for what the backward tells. */
	struct made {
		uint64_t id;
		uint32_t row;
	} * made;
	struct links {
		uint32_t forward[VIEW_LINKS];
		unsigned n;
	} * links; /* by row */
	size_t nlinks, links_room;

	struct trace_target target;
	struct arena strings; /* the target's */
	unsigned targets;
	struct trace_stats stats;
	bool has_stats;
	/* Time in probes, and in which threads were observed, when stats came: of what is counted,
	 * first (0 if all is counted), the last time but one, last. */
	struct cost {
		uint64_t probe_ns, observed_ns;
	} costs[3];
	bool cost_unknown; /* of what is counted, the first was not told yet */
	struct step_times steps;
	uint64_t lost, first_ns, last_ns;
	uint64_t now_ns; /* 0: not told */
	struct second {
		uint64_t from, ops;
	} second;
	double ops_per_s; /* of the last whole second, 0: none yet */
};

/* 0 or -ENOMEM. */
int view_begin_interval(struct view *v);

/* What is shown, and how long it is (of the trace's time). */
const struct grouping *view_shown(const struct view *v, uint64_t *ns);

/* The time in no op of that. */
const struct off_op *view_shown_outside(const struct view *v);

/* Looks at whether the threads of a process run. */

/* Zero-initialise. */
struct watch {
	pid_t tids[LOOKS_THREADS]; /* those with events that have not ended, the newest first */
	size_t n;
	uint64_t chosen_ns, looked_ns;
};

/* Tell `v` whether those of its threads that belong to `pid` run now; at most 25 times a second. 0
 * or -ENOMEM as view_add. */
int watch_look(struct watch *w, pid_t pid, struct view *v);

#endif
