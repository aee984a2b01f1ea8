/* The model of the live view: running totals of events, and the rows chosen, filtered and sorted.
 * Independent of target and terminal. */
#ifndef TUI_MODEL_VIEW_H
#define TUI_MODEL_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/report/aggregate.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/ops/filter.h"

/* Durations of training steps, from the end of one call of the optimizer's step to the end of the
 * next (how it is recognized: symbolizer/ops/filter.h). */

enum { STEP_TIMES = 256, STEP_PROCESSES = 16 };

/* Zero-initialise. */
struct step_times {
	struct step_process {
		int32_t pid;
		struct steps steps;
		uint64_t seen, last_ns, ended_ns; /* steps ended; end of the last op in the
						     optimizer; end of the last step, 0: none */
	} processes[STEP_PROCESSES];
	int32_t pid;		 /* process whose steps count: the first to end one; 0: none yet */
	uint64_t done;		 /* steps that have ended */
	uint64_t timed;		 /* those of known duration */
	uint64_t ns[STEP_TIMES]; /* the last ones: step number i at i % STEP_TIMES */
};

/* Process a finished event; in the order of the file. */
void step_times_see(struct step_times *t, const struct op_event *ev);

/* Copy the last n (at most STEP_TIMES) durations, in ns, oldest first; returns their number. */
unsigned step_times_last(const struct step_times *t, uint64_t *out, unsigned n);

/* Running totals for one way of grouping, with the last call of each row. Memory is bounded: beyond
 * GROUPING_ROWS rows, new ones go into a row "(other)". */

enum grouping_by {
	GROUPING_OP_LINE, /* op and source line, as in ditrace report */
	GROUPING_OP,
	GROUPING_LINE,	 /* source line with all its ops */
	GROUPING_MODULE, /* path of the nn.Module */
	GROUPING_THREAD,
	GROUPING_SHAPE, /* op and shapes of its tensors */
	GROUPING_GROUPS
};

extern const char *const grouping_names[GROUPING_GROUPS];

enum {
	GROUPING_ROWS = 4096,
	GROUPING_CALL_MAX = 4096, /* bytes; longer records of last calls are not kept */
};

/* A record of the trace file; size is 0 if it was too long to keep. */
struct grouping_call {
	uint64_t id, last_id, last_ns;
	uint8_t *bytes;
	uint32_t size, room;
};

struct grouping_row {
	uint32_t id;			 /* index, in order of the first call */
	const struct aggregate_row *sum; /* its `op` is the name of the row in this grouping */
	struct grouping_call last;
	uint64_t last_elements; /* of the tensor arguments with known shapes */
};

extern const char grouping_no_module[]; /* the name of the row of calls in none */

struct grouping;

/* `thread_name` returns the name of a thread, "" if unknown, valid during the call; `marks`: these
 * (op_mark) are ops. NULL without memory. */
struct grouping *grouping_new(enum grouping_by group, bool marks,
			      const char *(*thread_name)(void *arg, int32_t pid, int32_t tid),
			      void *arg);

/* Add an event, in the order of the file; `raw` is its record (copied if kept). *row is its row,
 * valid until grouping_free, or NULL if the event had not ended. 0 or -ENOMEM, after which the
 * grouping may only be freed. */
int grouping_add(struct grouping *t, const struct op_event *ev, const struct trace_raw_event *raw,
		 const struct grouping_row **row);

/* Add calls that were summed up. 0 or -ENOMEM. */
int grouping_add_sum(struct grouping *t, const struct op_sum *s);

/* Add what a device did, to the row of the op that launched it; to none by shapes, which are not
 * known. 0 or -ENOMEM. */
int grouping_add_activity(struct grouping *t, const struct activity *a);

/* All rows by id, valid until the next grouping_add. */
struct grouping_row *const *grouping_rows(const struct grouping *t, size_t *n);

const struct aggregate *grouping_sum(const struct grouping *t);

void grouping_free(struct grouping *t);

/* Shapes of the tensor arguments, "[384] [256,128]", "[?]" if unknown; cut with "..." to size.
 * Returns out. */
const char *grouping_shapes(char *out, size_t size, const struct op_event *ev);

enum view_column {
	VIEW_SELF,
	VIEW_TOTAL,
	VIEW_CALLS,
	VIEW_MEAN,
	VIEW_P99,
	VIEW_DEVICE, /* where devices did something, and not in the tree */
	VIEW_OP,
	VIEW_SHAPES,
	VIEW_WHERE,
	VIEW_COLUMNS
};

extern const char *const view_column_names[VIEW_COLUMNS + 1]; /* column headers, then NULL */

enum { VIEW_FILTER_MAX = 128, VIEW_LINKS = 4 };
enum { VIEW_INTERVAL_NS = 2000000000 }; /* length of an interval in trace time */

enum view_fold { VIEW_LEAF, VIEW_FOLDED, VIEW_OPEN };

/* A row of the table. */
struct view_row {
	const struct grouping_row *row; /* NULL in the tree, as is sum */
	const struct aggregate_row *sum;
	/* In the tree: the module's name below the one that contains it, how many do, and what
	 * view_fold takes. */
	const char *name;
	unsigned depth;
	enum view_fold fold;
	int64_t module_id;
	uint64_t mean_ns, p99_ns;
	double self_percent, total_percent; /* of the observed time of the threads */
	double device_percent;		    /* of the time in which devices did something */
	double calls_per_s;		    /* per second of trace time */
};

/* The figures above the table, of the interval if the view shows one. */
struct view_head {
	const struct trace_target *target; /* the first; NULL: unknown yet */
	unsigned targets;
	const struct trace_stats *stats; /* NULL: unknown yet */
	struct aggregate_totals totals;
	uint64_t wall_ns; /* from the first event to the last */
	uint64_t lost;	  /* in all, not in the interval */
	uint64_t summed;  /* the same of calls of which there are sums only */
	double ops_per_s; /* in the last full second of the trace, or since its start */
	double in_ops,
	    outside; /* percent of the time in which threads were observed; -1: none was */
	/* `outside` for threads with Python code, and without. */
	double python, other;
	/* The same divided by state samples: running with and without Python, and waiting; -1: too
	 * few samples. */
	double python_ran, other_ran, waited;
	double probes;	       /* report_slowdown, from the last statistics; -1: unknown */
	bool probes_are_least; /* it is the least */
	bool probes_most;      /* they took most of the time; how much slower that is, is unknown */
	const struct step_times *steps;
};

struct view;

/* NULL without memory. */
struct view *view_new(void);

/* From now on, with all forgotten, marks (op_mark) are ops: they were asked for. 0 or -ENOMEM, as
 * above. */
int view_show_marks(struct view *v);

/* Process an item of a trace, in the order of the file; copies what it keeps. 0 or -ENOMEM, after
 * which the view may only be freed. */
int view_add(struct view *v, const struct trace_item *item);

/* Thread number i of those with events; false: there are no more. */
bool view_thread(const struct view *v, size_t i, int32_t *pid, int32_t *tid);

/* A state sample: at `ns` in trace time the thread ran, or waited. 0 or -ENOMEM as above. */
int view_look(struct view *v, int32_t pid, int32_t tid, uint64_t ns, bool ran);

/* Set the present trace time, so that rates fall when no events come. */
void view_now(struct view *v, uint64_t ns);

/* Count from zero; targets, lost events and settings stay. 0 or -ENOMEM as above. */
int view_reset(struct view *v);

/* As view_reset, when items of a new file follow, whose statistics start from zero as well. */
int view_new_file(struct view *v);

/* Set the grouping; starts a new interval. 0 or -ENOMEM. */
int view_set_group(struct view *v, enum grouping_by group);
enum grouping_by view_group(const struct view *v);

/* Show the last complete interval instead of everything; until there is one, the part so far. 0 or
 * -ENOMEM. */
int view_set_interval(struct view *v, bool interval);
bool view_interval(const struct view *v);

/* Show modules as a tree, each below the one that contains it: self time is its own, total time and
 * calls are with all that is below. The grouping becomes GROUPING_MODULE, and another one ends the
 * tree; without it, it is the one from before. 0 or -ENOMEM. */
int view_set_tree(struct view *v, bool tree);
bool view_is_tree(const struct view *v);

/* Fold the module with that view_id, or unfold it, which it is at first. Without a tree, nothing.
 */
void view_fold(struct view *v, int64_t id, enum view_fold fold);
bool view_is_folded(const struct view *v, int64_t id);

/* Sort by a column, numbers largest first; the same column again reverses the order. */
void view_sort(struct view *v, enum view_column column);
enum view_column view_sorted(const struct view *v, bool *reversed);

/* Show only rows with `text` in op, file, function or source line, ignoring case (of ASCII). Cut to
 * VIEW_FILTER_MAX - 1 bytes. */
void view_set_filter(struct view *v, const char *text);
const char *view_filter(const struct view *v);

/* The rows to show, in order; valid until the next call of a function other than the getters.
 * Without memory NULL, with *n 0. */
const struct view_row *view_rows(struct view *v, size_t *n);

void view_head(const struct view *v, struct view_head *out);

/* Whether rows have a column: shapes always, VIEW_DEVICE only of some. */
bool view_has(const struct view *v, enum view_column column);

/* All rows of a grouping by id; valid until view_add. */
struct grouping_row *const *view_all(const struct view *v, enum grouping_by group, size_t *n);

/* The id, in view_all of its grouping, of a row that is shown and may be of an interval; -1: none.
 * In the tree, an id of the module. */
int64_t view_id(const struct view *v, const struct view_row *row);

/* The forward rows linked to the backward row `id` (by op and line), at most VIEW_LINKS; returns
 * their number. */
unsigned view_forwards(const struct view *v, uint32_t id, uint32_t *out);

void view_free(struct view *v);

#endif
