/* Internal to perf/report: rows and threads of an aggregate, their keys, and their fields for
 * programs; what the first lines of a report are made of. */
#ifndef PERF_REPORT_INTERNAL_H
#define PERF_REPORT_INTERNAL_H

#include <stdio.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "perf/calls/call_tree.h"
#include "perf/events/print_event.h"
#include "perf/report/aggregate.h"
#include "perf/report/blocks.h"
#include "perf/report/devices.h"
#include "perf/report/report.h"

/* What the percentages of rows are of, and the options with that of devices. */
struct aggregate_totals report_totals(const struct aggregate *a, const struct report_opts *opts);
struct report_opts report_with_busy(const struct aggregate *a, const struct report_opts *opts);

/* The rows of at least `limit` percent: part by part, and sorted within each. The caller frees the
 * array. NULL if out of memory. */
const struct aggregate_row **report_sorted(const struct aggregate *a,
					   const struct report_opts *opts, double limit, size_t *n);

/* What stands above the table, of ops and of samples. `files`: see headline_print. */
void report_print_summary(FILE *f, const struct aggregate *a, const struct report_opts *opts,
			  const struct file_names *files);
void report_print_sampled(FILE *f, const struct aggregate *a, const struct report_opts *opts);

/* A number of calls, or of a step where it is that of so many (0: it is not). Returns out. */
const char *report_count_text(char *out, size_t size, uint64_t n, uint64_t steps);

/* The columns of the table. */

/* The row of a cell. */
struct column_row {
	const struct aggregate_row *r;
	const struct memory_row *memory; /* of the column's kind */
	uint64_t observed_ns;
	const struct report_opts *opts;
	const struct file_names *files;
};

enum {
	COL_USUAL = 1,	 /* shown by default */
	COL_LEFT = 2,	 /* text, not a number */
	COL_SUM = 4,	 /* can be told of several rows together */
	COL_HEAT = 8,	 /* a percentage with a colour */
	COL_DEVICES = 16 /* of the memory of devices, not of the CPU */
};

struct report_column {
	const char *name, *header;
	unsigned keys; /* rows by any of these keys have it; 0: all rows except those of samples */
	uint8_t flags; /* COL_* */
	uint8_t order; /* in which it gives way, see table_column_optional */
	/* The cell's text: `out` or another one, valid as long as both `out` and the row are. */
	const char *(*text)(char *out, size_t size, const struct column_row *row);
};

extern const struct report_column report_columns[];
extern const size_t report_ncolumns;

/* The first lines of a report: what a step waits for, how long steps took and of what they consist,
 * how busy devices were, the slowest ops, the peak of memory. They fit into the terminal, and on
 * one are made shorter where there are more than HEADLINE_USUAL, which with those of what was
 * traced are the five that a verdict may have. b: NULL
 * where steps are not known: what is known of devices alone. `files`: those of the rows and of `b`.
 * 0, -ENOMEM or -EIO. */
int headline_print(FILE *f, const struct breakdown_result *b, const struct aggregate *a,
		   const struct report_opts *opts, const struct file_names *files);

/* What these lines are made of. */

enum { HEADLINE_MAX = 1024, HEADLINE_USUAL = 3, HEADLINE_LINES = 10 };

/* A line that takes parts as long as they fit into the terminal. */
struct headline_line {
	char text[HEADLINE_MAX];
	char brief[HEADLINE_MAX]; /* what may stand for it behind another line; "": nothing */
	size_t width;
	bool takes; /* others may stand behind it */
	bool spare; /* the table tells the same */
};

struct headline {
	struct headline_line lines[HEADLINE_LINES];
	size_t n;
};

struct headline_line headline_line(const struct report_opts *opts);

/* Add a copy of the line; there is room for all that there can be. */
void headline_put(struct headline *h, const struct headline_line *l);

/* False, with nothing added, if it does not fit. */
bool headline_add(struct headline_line *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The rows, of no workers, with the most of the uint64_t at `offset` in them, in this order, at
 * most `want`. Returns their number. */
size_t headline_most(const struct aggregate *a, size_t offset, const struct aggregate_row **most,
		     size_t want);

/* " at train.py:13", or "". Returns out. */
const char *headline_where(char *out, size_t size, const struct aggregate_row *r,
			   const struct file_names *files);

/* How busy devices were; b: NULL where steps are not known. Whether all of them were idle for more
 * than half of the time. */
bool headline_devices(struct headline *h, const struct aggregate *a, const struct report_opts *opts,
		      const struct breakdown *b);

/* When most of the memory was allocated of the device that had most, or of the CPU where no other
 * is known, and by which ops. */
void headline_memory(struct headline *h, const struct aggregate *a, const struct report_opts *opts,
		     const struct file_names *files);

/* The same of the others, below the table. 0, -ENOMEM or -EIO. */
int headline_other_memory(FILE *f, const struct aggregate *a, const struct report_opts *opts,
			  const struct file_names *files);

/* The ops for which devices worked longest, by a row's line, and the copies. */
void headline_slowest_on_devices(struct headline *h, const struct aggregate *a,
				 const struct report_opts *opts, const struct file_names *files);

/* Rows by module and phase as a tree: modules by their paths, each with the self times of all ops
 * in it and in its submodules. Modules below opts->percent_limit are counted. 0, -ENOMEM or -EIO.
 */
int module_tree_print(FILE *f, const struct aggregate *a, const struct report_opts *opts);

/* An aggregate; for aggregate*.c alone. */

/* Bytes allocated less those freed. */
struct net_memory {
	int64_t of[MEMORY_KINDS];
};

static inline void net_add(struct net_memory *to, const struct net_memory *n)
{
	for (int k = 0; k < MEMORY_KINDS; k++)
		to->of[k] += n->of[k];
}

/* What was done in a call that has ended, or of one that has ended with all that it called. */
struct net_step {
	uint64_t ns; /* when, or when the call began */
	struct net_memory net;
};

/* Finished calls of a row inside ops that are still open. Of recursive calls, only the outermost.
 */
struct pending {
	uint32_t row;
	uint16_t depth;	       /* of the outermost finished op that contains them, or their own */
	uint64_t start_ns;     /* of the last of them */
	uint64_t ns;	       /* their share of the row's total_ns */
	struct net_memory net; /* and of its `net` */
};

enum { AGGREGATE_DEPTH = 64 };
struct aggregate_thread {
	int32_t pid;
	int32_t rank_at; /* index of its rank; -1: not known */
	uint32_t rank1;	 /* as in struct op_event */
	bool worker, has_stack;
	uint64_t first_ns, last_ns;
	uint64_t self_ns, backward_ns; /* self times of its ops; of those in the backward */
	uint64_t compile_ns;
	/* By depth: of finished ops whose caller has not ended, what of their time was compiling.
	 */
	uint64_t compiled[AGGREGATE_DEPTH];
	struct pending *pending; /* in ascending order of depth */
	uint32_t npending, pending_size;
	struct flops_nest flops;
	uint64_t last_id;	 /* of the event added last */
	bool is_nested;		 /* that has been called by an op */
	struct net_step *inside; /* in open ops */
	size_t ninside, inside_room;
};
/* The row of a forward op, at index id modulo AGGREGATE_SIDES_MAX. */
struct side {
	uint64_t id;
	uint32_t row;
};

struct aggregate {
	unsigned keys;
	struct memo_pair *memos; /* MEMO_PAIRS of them, or NULL */
	int32_t last_pid, last_tid;
	uint32_t last_rank1;
	struct aggregate_thread *last_thread; /* of last_pid and last_tid, or NULL */
	struct side *sides;
	size_t sides_room;
	struct intern row_ids, thread_ids;
	uint32_t *ranks; /* by index */
	size_t nranks, ranks_room;
	struct arena arena;
	struct aggregate_row **rows;
	uint32_t *merged; /* by row: scratch space of merging pending calls */
	struct aggregate_thread *threads;
	uint32_t rows_size, threads_size;
	struct aggregate_totals totals;
	struct devices *devices;    /* NULL: no activity was added */
	struct awaited early;	    /* what devices did of calls that have not ended */
	struct memory_sums *memory; /* NULL: nothing of memory was added */
};

/* AGGREGATE_SIDES, AGGREGATE_TENSORS: the row of a call, by its id, for some time. 0 or -ENOMEM.
 * _known: -ENOENT. */
int aggregate_remember(struct aggregate *a, uint64_t event, uint32_t row);
int64_t aggregate_known(const struct aggregate *a, uint64_t event);

/* A call of that row has ended, of which there may be activities already in a->early. */
void aggregate_call_ended(struct aggregate *a, uint64_t event, uint32_t row);
/* Whether the op is a mark, and no op of the rows. op: NULL allowed. */
static inline bool aggregate_is_mark(const struct aggregate *a, const struct op_desc *op)
{
	return op && !(a->keys & AGGREGATE_MARKS) && op_mark(op);
}

/* aggregate_memory.c: what was done with memory in the ops that the event called, all of which were
 * added; from now on it is of the event. 0 or -ENOMEM. */
int aggregate_memory_inside(struct aggregate_thread *t, const struct op_event *ev,
			    struct net_memory *out);
/* What the rows had at the peaks. 0 or -ENOMEM. */
int aggregate_memory_end(struct aggregate *a);
void aggregate_memory_free(struct memory_sums *m); /* NULL allowed */

/* The index of the event's row, or -ENOMEM; new if need be. launch: as in struct aggregate_row.
 * _again: through a cache. */
int64_t aggregate_row_of(struct aggregate *a, const struct op_event *ev, bool worker,
			 unsigned launch);
int64_t aggregate_row_again(struct aggregate *a, const struct aggregate_thread *t,
			    const struct op_event *ev);

/* The event's thread, new if need be; NULL: out of memory. */
struct aggregate_thread *aggregate_thread_of(struct aggregate *a, const struct op_event *ev);

/* The same, NULL if no event of it was added. */
const struct aggregate_thread *aggregate_thread_known(const struct aggregate *a,
						      const struct op_event *ev);

/* Double the capacity of an array with elements of that size; new elements are zero. 0 or -ENOMEM.
 */
int aggregate_grow(void *array, uint32_t *size, size_t element);

/* Kernels by name, device and stream; for kernels*.c alone. */

/* An op and line that launch what a row has. */
struct kernel_source {
	const char *op;
	const char *file, *function; /* NULL: unknown */
	const char *parameter;	     /* as in struct aggregate_row */
	int32_t line;
	uint8_t phase;	/* enum op_phase */
	uint8_t launch; /* enum activity_launch: not LAUNCH_IN_OP where no op is known */
	uint64_t ns;
};

struct kernel_row {
	const char *name;     /* NULL: not a key; nor are other fields that are 0 */
	uint8_t kind;	      /* enum activity_kind */
	struct device device; /* what tells it from others only */
	uint32_t stream;
	uint32_t source1; /* index + 1 of the source with most of the time; 0: none */
	uint64_t calls, total_ns, max_ns, bytes;
};

struct kernels {
	unsigned keys; /* KERNELS_* */
	struct intern row_ids, source_ids;
	struct kernel_row *rows;
	struct kernel_source *sources;
	size_t rows_room, sources_room;
	struct arena arena;
};

static inline uint64_t kernel_mean(const struct kernel_row *r)
{
	return r->calls ? r->total_ns / r->calls : 0;
}

const struct kernel_source *kernels_source(const struct kernels *k, const struct kernel_row *r);

/* All rows by opts->sort; the caller frees the array. NULL if out of memory. */
const struct kernel_row **kernels_sorted(const struct kernels *k, const struct report_opts *opts);

/* Blocks by name and line; for blocks*.c alone. */

struct block_row {
	const char *name, *file, *function, *text; /* NULL: not known */
	int32_t line;
	uint64_t calls, unended; /* those that have ended, and that have not */
	uint64_t total_ns;	 /* blocks within one of the same row and thread count once */
	uint64_t sum_ns, min_ns, max_ns;
	struct histogram times;
};

/* Open blocks of a row on a thread. */
struct block_nest {
	uint32_t row, open;
	uint64_t since_ns; /* the start of the first of them */
	uint64_t inner_ns; /* of blocks that have ended since */
};

struct code_blocks {
	struct block_pairs pairs;
	struct intern row_ids, nest_ids;
	struct block_row *rows;
	struct block_nest *nests;
	size_t rows_room, nests_room;
	struct arena arena;
};

/* A row of an aggregate in JSON and CSV, with all its fields. */

/* A row by `keys` (AGGREGATE_*): in JSON an object, in CSV a line with its newline;
 * report_fields_header writes the header line. Percentages are of `observed_ns`. */
void report_fields_json(struct json_out *j, unsigned keys, const struct aggregate_row *r,
			uint64_t observed_ns, const struct report_opts *opts);
void report_fields_csv(FILE *f, unsigned keys, const struct aggregate_row *r, uint64_t observed_ns,
		       const struct report_opts *opts);
void report_fields_header(FILE *f, unsigned keys);

#endif
