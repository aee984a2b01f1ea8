/* What the live view shows, without a terminal: events summed up, and the rows chosen, filtered and
 * sorted. Knows no target and no screen. */
#ifndef TUI_MODEL_VIEW_H
#define TUI_MODEL_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/report/aggregate.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/ops/filter.h"

/* How long the training's steps take: from the end of one call of the optimizer's step to the end
 * of the next (symbolizer/ops/filter.h says what is known of these). */

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

/* Events summed up in one way of grouping, with the last call of each row. Memory is bounded: when
 * there are GROUPING_ROWS rows, what would be one more goes into a row "(other)". */

enum grouping_by {
	GROUPING_OP_LINE, /* op and source line: the rows of ditrace report */
	GROUPING_OP,
	GROUPING_LINE,	 /* source line: all its ops */
	GROUPING_MODULE, /* path of the nn.Module */
	GROUPING_THREAD,
	GROUPING_SHAPE, /* op and the shapes of its tensors */
	GROUPING_GROUPS
};

extern const char *const grouping_names[GROUPING_GROUPS];

enum {
	GROUPING_ROWS = 4096,
	GROUPING_CALL_MAX = 4096, /* the last call of a row is kept if its record is no longer */
};

/* A call as it stands in the trace; size is 0 when it was too long to keep. */
struct grouping_call {
	uint64_t id, last_id, last_ns;
	uint8_t *bytes;
	uint32_t size, room;
};

struct grouping_row {
	uint32_t id;			 /* dense, in the order of the first call */
	const struct aggregate_row *sum; /* op: the name of the row in its grouping */
	struct grouping_call last;
	uint64_t last_elements; /* of the tensors among its arguments whose shapes are known */
};

struct grouping;

/* `thread_name` gives the name of a thread, "" when not known, valid during the call. NULL without
 * memory. */
struct grouping *grouping_new(enum grouping_by group,
			      const char *(*thread_name)(void *arg, int32_t pid, int32_t tid),
			      void *arg);

/* One event, in the order of the file; `raw` is the same in the file's bytes (copied if kept). *row
 * is its row, valid until grouping_free, NULL when it had not ended. 0 or -ENOMEM, after which the
 * grouping is to be freed. */
int grouping_add(struct grouping *t, const struct op_event *ev, const struct trace_raw_event *raw,
		 const struct grouping_row **row);

/* All rows by their id, valid until the next grouping_add. */
struct grouping_row *const *grouping_rows(const struct grouping *t, size_t *n);

const struct aggregate *grouping_sum(const struct grouping *t);

void grouping_free(struct grouping *t);

/* The shapes of the tensors among the arguments, "[384] [256,128]", into out; "[?]" when one is not
 * known. Cut with "..." when there is no room. Returns out. */
const char *grouping_shapes(char *out, size_t size, const struct op_event *ev);

enum view_column {
	VIEW_SELF,
	VIEW_TOTAL,
	VIEW_CALLS,
	VIEW_MEAN,
	VIEW_P99,
	VIEW_OP,
	VIEW_SHAPES,
	VIEW_WHERE,
	VIEW_COLUMNS
};

extern const char *const view_column_names[VIEW_COLUMNS + 1]; /* as the header has them, and NULL */

enum { VIEW_FILTER_MAX = 128, VIEW_LINKS = 4 };
enum { VIEW_INTERVAL_NS = 2000000000 }; /* of the trace's time: an interval */

/* A row as it is shown. */
struct view_row {
	const struct grouping_row *row;
	const struct aggregate_row *sum;
	uint64_t mean_ns, p99_ns;
	double self_percent, total_percent; /* of the time in which the threads were observed */
	double calls_per_s;		    /* of the trace's time */
};

/* The figures above the table; of the interval where the view shows one. */
struct view_head {
	const struct trace_target *target; /* the first; NULL: not known yet */
	unsigned targets;
	const struct trace_stats *stats; /* NULL: not known yet */
	struct aggregate_totals totals;
	uint64_t wall_ns; /* from the first event to the last */
	uint64_t lost;	  /* all, not of the interval */
	double ops_per_s; /* in the last whole second of the trace, or since its start */
	double in_ops,
	    outside; /* percent of the time in which threads were observed; -1: none was */
	/* `outside` of threads with Python code, and of those without. */
	double python, other;
	/* The same by looks at the threads' states: the two parts while they ran, and all while
	 * they waited; -1: there were too few looks. */
	double python_ran, other_ran, waited;
	double probes; /* the same, an estimate of when the trace told last; -1: not known */
	const struct step_times *steps;
};

struct view;

/* NULL without memory. */
struct view *view_new(void);

/* One item of a trace, in the order of the file. Copies what it keeps. 0 or -ENOMEM, after which
 * the view is to be freed. */
int view_add(struct view *v, const struct trace_item *item);

/* The process and thread number i of those with events; false: there are no more. */
bool view_thread(const struct view *v, size_t i, int32_t *pid, int32_t *tid);

/* At `ns` by the clock of the trace a thread ran, or waited. 0 or -ENOMEM as above. */
int view_look(struct view *v, int32_t pid, int32_t tid, uint64_t ns, bool ran);

/* It is `ns` by the clock of the trace: tells when nothing happens any more. */
void view_now(struct view *v, uint64_t ns);

/* Begin to count anew; targets, lost events and settings stay. 0 or -ENOMEM as above. */
int view_reset(struct view *v);

/* What comes is of another file: the same, but that its stats will be of all that is counted. */
int view_new_file(struct view *v);

/* An interval begins anew with this. 0 or -ENOMEM. */
int view_set_group(struct view *v, enum grouping_by group);
enum grouping_by view_group(const struct view *v);

/* Whether to show the last whole interval instead of all. Until one is over, what there is of it. 0
 * or -ENOMEM. */
int view_set_interval(struct view *v, bool interval);
bool view_interval(const struct view *v);

/* Sort by a column, numbers largest first; again by the same one: the other way round. */
void view_sort(struct view *v, enum view_column column);
enum view_column view_sorted(const struct view *v, bool *reversed);

/* Only rows with `text` in op, file, function or source line, whatever the case (of ASCII). Cut to
 * VIEW_FILTER_MAX - 1 bytes. */
void view_set_filter(struct view *v, const char *text);
const char *view_filter(const struct view *v);

/* The rows to show, in their order; valid until the next call of any function but the ones that
 * only tell. NULL with *n 0 without memory, too. */
const struct view_row *view_rows(struct view *v, size_t *n);

void view_head(const struct view *v, struct view_head *out);

/* The rows by op and line, for what a row's details show; as grouping_rows, valid until view_add.
 */
struct grouping_row *const *view_all(const struct view *v, enum grouping_by group, size_t *n);

/* The id of a row that is shown, which may be of an interval, among view_all of the same grouping;
 * -1: there is none. */
int64_t view_id(const struct view *v, const struct view_row *row);

/* The forward rows whose nodes the backward row `id` (by op and line) has been, at most
 * VIEW_LINKS; returns how many. */
unsigned view_forwards(const struct view *v, uint32_t id, uint32_t *out);

void view_free(struct view *v);

#endif
