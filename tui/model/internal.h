/* Internal to tui/model: off-op time, and the state of the view. */
#ifndef TUI_MODEL_INTERNAL_H
#define TUI_MODEL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/map.h"
#include "perf/report/aggregate.h"
#include "symbolizer/event/event.h"
#include "tui/model/view.h"

/* Off-op time: the gaps between the outermost ops of a thread, with and without Python code on the
 * thread, divided into running and waiting by samples of the thread's state ("looks"). */

/* State samples of threads, kept until the events around them come. Zero-initialise. */
struct looks {
	struct looks_thread *threads;
	size_t n, room;
};

enum { LOOKS_KEPT = 512, LOOKS_THREADS = 64 };

/* Add a sample at `ns` (CLOCK_MONOTONIC, ascending for each thread): the thread ran or waited. With
 * LOOKS_KEPT samples of a thread, neighbours are merged in pairs; threads beyond LOOKS_THREADS are
 * ignored. 0 or -ENOMEM. */
int looks_add(struct looks *l, int32_t pid, int32_t tid, uint64_t ns, bool ran);

void looks_free(struct looks *l);

/* Zero-initialise. */
struct off_op {
	struct gaps gaps;
	struct off_op_part {
		uint64_t ns;	      /* of all threads together */
		uint64_t ran, waited; /* state samples */
	} python, other;	      /* threads with Python code, and without */
};

/* Process the next event; those of a thread come in the order in which they end. 1: an off-op gap
 * from *from to its start was added to *part, which is also where its samples belong. 0: no gap, or
 * not an outermost op. -ENOMEM. */
int off_op_see(struct off_op *o, const struct op_event *ev, struct off_op_part **part,
	       uint64_t *from);

/* Remove the thread's samples up to the end of `ev`, an outermost op; *out counts those between
 * `from` and its start (ran and waited only). */
void looks_take(struct looks *l, const struct op_event *ev, uint64_t from, struct off_op_part *out);

void off_op_reset(struct off_op *o);

/* State of the view: view.c processes events, view_rows.c filters and sorts. */

enum { MADE = 65536, THREADS_MAX = 1024 };

struct view {
	struct grouping *all[GROUPING_GROUPS];
	struct grouping *going, *whole; /* interval in progress and last complete one; NULL if there
					   is none, or none is shown */
	uint64_t going_first, going_last, whole_ns;
	struct off_op all_outside, going_outside, whole_outside; /* off-op time of each */
	struct looks looks;
	enum grouping_by group;
	bool interval, reversed, devices; /* devices: these did something */
	bool marks;			  /* are ops */
	enum view_column column;
	char filter[VIEW_FILTER_MAX];
	struct view_row *rows;
	size_t nrows, rows_room;

	struct view_tree {
		bool shown;
		enum grouping_by before; /* it was shown */
		struct intern paths;	 /* of the modules shown so far */
		bool *folded;		 /* by the id of the path */
		size_t room;
		struct module_tree *modules; /* that `rows` are of; or NULL */
	} tree;

	struct view_thread {
		int32_t pid, tid;
		char name[32];
	} * threads;
	size_t nthreads, threads_room;

	/* The rows of recent forward events, at id % MADE, to link backward rows to. */
	struct made {
		uint64_t id;
		uint32_t row;
	} * made;
	struct links {
		uint32_t forward[VIEW_LINKS];
		unsigned n;
	} * links; /* by backward row */
	size_t nlinks, links_room;

	struct trace_target target;
	struct arena strings; /* those of `target` */
	unsigned targets;
	struct trace_stats stats;
	bool has_stats;
	/* Probe time and CPU time at three statistics records: the first that counts (zero if
	 * everything counts), the last but one, and the last. */
	struct cost {
		uint64_t probe_ns, cpu_ns;
	} costs[3];
	bool cost_unknown; /* the first of them is still to come */
	struct step_times steps;
	uint64_t lost, summed, first_ns, last_ns;
	uint64_t now_ns; /* 0: unknown */
	struct second {
		uint64_t from, ops;
	} second;
	double ops_per_s; /* in the last full second; 0: none yet */
};

/* 0 or -ENOMEM. */
int view_begin_interval(struct view *v);

/* What is shown, and in *ns the trace time it covers. */
const struct grouping *view_shown(const struct view *v, uint64_t *ns);

/* Set the rows to those of the tree. 0 or -ENOMEM. */
int view_tree_rows(struct view *v);

void view_tree_free(struct view_tree *t);

/* Sampling the state of a process's threads. */

/* Zero-initialise. */
struct watch {
	pid_t tids[LOOKS_THREADS]; /* threads with events that have not exited, newest first */
	size_t n;
	uint64_t chosen_ns, looked_ns;
};

/* Sample which threads of `pid` are running, and give the samples to `v`; at most 25 times a
 * second. 0 or -ENOMEM as view_add. */
int watch_look(struct watch *w, pid_t pid, struct view *v);

#endif
