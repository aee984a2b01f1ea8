/* What the parts of the view share: view.c takes events, view_rows.c chooses and sorts. */
#ifndef TUI_MODEL_VIEW_INTERNAL_H
#define TUI_MODEL_VIEW_INTERNAL_H

#include "base/arena.h"
#include "tui/model/off_op.h"
#include "tui/model/view.h"

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

#endif
