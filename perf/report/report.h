/* Reports: where the time of training steps goes, the table of times, and what overflowed. */
#ifndef PERF_REPORT_REPORT_H
#define PERF_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/table.h"
#include "base/text.h"
#include "perf/report/aggregate.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/event/event.h"
#include "symbolizer/when/when.h"

/* Where the time of training steps goes, on the thread that trains: the first lines of a report. */

enum breakdown_part {
	BREAKDOWN_FORWARD,
	BREAKDOWN_BACKWARD,  /* also while the thread waits for backward nodes of other threads */
	BREAKDOWN_OPTIMIZER, /* and clipping of gradients */
	BREAKDOWN_DATA,	     /* from a DataLoader's first op to its last one */
	BREAKDOWN_NO_OP,     /* between other ops: Python, or waiting */
	BREAKDOWN_PARTS,
};

/* A line at which a thread was in no op, until an op of that line; or that asked for data. Strings
 * belong to the breakdown. */
struct breakdown_line {
	const char *file, *function, *text; /* function and text may be NULL */
	int32_t line;
	uint64_t ns;
};

struct breakdown_result {
	uint64_t steps;	    /* whole ones, in all processes: the first one's start is not known */
	unsigned processes; /* that made them */
	uint64_t median_ns, p99_ns; /* of a step, to 3 % */
	/* Of these steps; without any, of all ops of the first thread of processes that do not load
	 * data for others. */
	uint64_t wall_ns, parts[BREAKDOWN_PARTS];
	struct breakdown_line data, no_op; /* the longest of each; ns 0: none */
	/* Of the time in no op, how much the thread was on a processor, by its samples; the rest it
	 * waited. 0 without enough of them. */
	uint64_t python_ns;
	bool loads_itself; /* the thread loads its data itself: no workers */
	/* Compilations on the threads that train, which are in none of the figures above; and the
	 * steps with some, which are not among `steps`. */
	uint64_t compilations, compile_ns, compile_steps;
};

/* The whole steps of one process, which follow each other. */
struct breakdown_span {
	uint64_t steps, start_ns, end_ns;
};

/* A whole step of one process: from the end of the step before to its own. */
struct breakdown_step {
	int32_t pid;
	uint32_t rank1;	 /* as in struct op_event */
	uint64_t number; /* as --step counts */
	uint64_t start_ns, end_ns;
	uint64_t parts[BREAKDOWN_PARTS];
};

/* Called when a whole step has ended. 0, or -errno, which breakdown_add then returns. */
typedef int breakdown_step_fn(void *arg, const struct breakdown_step *s);

struct breakdown;

/* NULL if out of memory; free with breakdown_free. */
struct breakdown *breakdown_new(void);
void breakdown_free(struct breakdown *b); /* NULL allowed */

/* From now on `fn` is called. */
void breakdown_each_step(struct breakdown *b, breakdown_step_fn *fn, void *arg);

/* Process an event; those of a thread must come in the order in which they end. Without all ops of
 * the process, the time in no op is too long. 0 or -ENOMEM. */
int breakdown_add(struct breakdown *b, const struct op_event *ev);

/* Process a sample whose weight is ns of processor time. 0 or -ENOMEM. */
int breakdown_add_sample(struct breakdown *b, const struct sample *s);

/* Stacks were freed, and their addresses may be reused. */
void breakdown_forget(struct breakdown *b);

void breakdown_get(const struct breakdown *b, struct breakdown_result *out);

/* False if the process has no whole steps. */
bool breakdown_span(const struct breakdown *b, int32_t pid, uint32_t rank1,
		    struct breakdown_span *out);

/* Whether the stack is of a thread that loads data for others: of a worker of a DataLoader
 * (torch/utils/data/_utils/worker.py), or a helper. s: NULL allowed, of none. */
bool breakdown_is_worker(const struct py_stack *s);

/* Whether it is of a thread that pins memory, or moves tensors into shared memory to send them: of
 * workers and of the process that trains. s: NULL allowed, of none. */
bool breakdown_is_helper(const struct py_stack *s);

/* Whether a frame is of a file of torch with `path` in its name. s: NULL allowed. */
bool breakdown_passes(const struct py_stack *s, const char *path);

/* Whether it is the optimizer's own op, not one of the closure that its step may call (LBFGS,
 * Lightning): between it and the optimizer are files of torch alone, or of the step itself. */
bool breakdown_is_of_optimizer(const struct py_stack *s);

/* The frame that asked a DataLoader for data, or NULL. s: NULL allowed. */
const struct py_frame *breakdown_asks_for_data(const struct py_stack *s);

/* The table of times at the end of run and attach, and of ditrace report. */

enum report_sort {
	REPORT_BY_SELF,
	REPORT_BY_TOTAL,
	REPORT_BY_CALLS,
	REPORT_BY_MEAN,
	REPORT_BY_P99,
	REPORT_BY_MAX,
	REPORT_BY_P50,
	REPORT_BY_DEVICE_TIME,
	REPORT_BY_ALLOC,
	REPORT_BY_PEAK,
	REPORT_BY_DEVICE_ALLOC,
	REPORT_BY_DEVICE_PEAK,
	REPORT_BY_FREED,
	REPORT_BY_ALLOCS,
	REPORT_BY_DEVICE_FREED,
	REPORT_BY_DEVICE_ALLOCS,
	REPORT_BY_NET,
	REPORT_BY_SELF_NET,
	REPORT_BY_DEVICE_NET,
	REPORT_BY_SELF_DEVICE_NET,
	REPORT_BY_MIN,
	REPORT_BY_THROWN,
	REPORT_BY_ACTIVITIES,
	REPORT_BY_FLOPS,
	REPORT_BY_FLOP_RATE,
	REPORT_BY_FORWARD,
	REPORT_BY_BACKWARD,
	REPORT_BY_BACKWARD_CALLS,
	REPORT_BY_RATIO,
	REPORT_BY_LEAST,
	REPORT_BY_MOST,
	REPORT_BY_OP, /* ascending from here on; the numbers above descending */
	REPORT_BY_LINE,
	REPORT_BY_FILE,
	REPORT_BY_FUNCTION,
	REPORT_BY_THREAD,
	REPORT_BY_MODULE,
	REPORT_BY_SHAPE,
	REPORT_BY_DTYPE,
	REPORT_BY_DEVICE,
	REPORT_BY_PHASE,
	REPORT_BY_SYMBOL,
	REPORT_BY_RANK,
	REPORT_BY_OBJECT,
};

/* Words for --sort, in the order of enum report_sort, NULL at the end. */
extern const char *const report_sort_names[];

struct report_thread {
	int32_t pid, tid;
	const char *name;
};

struct report_columns;
struct kernels;
struct code_blocks;

/* About the samples of a trace, besides their rows. */
struct report_samples {
	struct sampling how; /* event NULL: unknown */
	uint64_t lost, mismatched;
	uint64_t own_weight; /* of those in ditrace's own recorder (sample_is_own) */
};

/* What tables leave out unless told otherwise, in percent. */
#define REPORT_PERCENT_LIMIT 0.1

struct report_opts {
	enum report_sort sort;
	size_t limit;	      /* maximum rows of each part; 0: all */
	double percent_limit; /* leave out rows whose total is below it, and count them */
	uint64_t per_step;    /* show times and calls divided by it; 0: as they are */
	const struct report_columns *columns; /* of the table; NULL: the default ones */
	const struct report_thread *threads;  /* names of threads */
	size_t nthreads;
	const uint32_t *ranks; /* of the rows' times by rank, by index */
	size_t nranks;
	uint64_t busy_ns; /* the base of percentages of device_ns; set while printing */
	const struct aggregate *whole; /* the base of summary and percentages; NULL: the rows */
	const char *about;	       /* a line between summary and table; NULL: none */
	struct terminal terminal;      /* width 0: lines are never cut */
	const struct trace_target *targets; /* the traced processes; may be NULL */
	size_t ntargets;
	const struct trace_stats *stats;      /* NULL: unknown */
	const struct when_counts *when;	      /* what --when left out; NULL without --when */
	const struct report_samples *samples; /* rows are samples; NULL: ops */
	const struct breakdown_result *steps; /* of all ops; NULL: not known */
	const struct breakdown *breakdown;    /* with `steps`: whose they are */
	bool all_activities; /* none was left out: how busy devices were is known without steps */
	const struct kernels *kernels;	  /* the table is of these; NULL: of the aggregate's rows */
	const struct code_blocks *blocks; /* the same */
	bool modules;	   /* the table is a tree of modules; rows are by module and phase */
	bool no_table;	   /* what was traced, and no times */
	bool of_ranks;	   /* only of some; what was lost is known of all together */
	uint64_t left_out; /* calls of which there are sums only, and which may be of this part */
	const struct trace_clock *const *clocks; /* of hosts but the first */
	size_t nclocks;
	const char *chosen; /* the options that left ops out of the recording; NULL: none */
	const char *each;   /* the option for which no calls were summed up; NULL: none */
	const char *engine; /* why the engine is not the first choice; NULL: it is, or not known */
};

/* What stands in place of the op: "(in no op)". NULL for LAUNCH_IN_OP and AGGREGATE_NO_CALL. */
const char *report_launch_text(unsigned launch);

/* Print what was traced, the table, and the time in no op. The columns are Self % and Total % (of
 * the observed time, see aggregate_totals), where devices did something that and its share of their
 * busy time, Self, Total, Calls, Mean, P99, Max, and the keys of the rows. Rows with a phase come
 * in parts: forward, backward, what checkpoints recompute, and, where rows have lines, what Python
 * code calls in the backward; those of workers in another. 0, -ENOMEM or -EIO. */
int report_print(FILE *f, const struct aggregate *a, const struct report_opts *opts);

/* {"summary": {...}, "rows": [...]}; with `when` the summary has left_out and not_known. A row has
 * its keys among op, phase, file, line, function, text (null: unknown), pid, tid, thread, module,
 * shape, dtype, device, and calls, thrown, self_ns, total_ns, mean_ns, min_ns, p50_ns, p99_ns,
 * max_ns, self_percent, total_percent. 0, -ENOMEM or -EIO. */
int report_print_json(FILE *f, const struct aggregate *a, const struct report_opts *opts);

/* The rows as CSV, with a header line and the same fields. 0, -ENOMEM or -EIO. */
int report_print_csv(FILE *f, const struct aggregate *a, const struct report_opts *opts);

struct json_out;

/* Rows by module and phase as a JSON array of the outermost modules, slowest first, each {"name",
 * "forward_ns", "backward_ns", "own_ns", "modules"}; the times are self times of all ops in it, but
 * own_ns is without those of its submodules. 0 or -ENOMEM. */
int module_tree_json(struct json_out *j, const char *key, const struct aggregate *a);

/* The columns of the table. */

enum { REPORT_COLUMNS_MAX = 64 };

/* Columns by index into the list of all. */
struct report_columns {
	size_t n;
	unsigned char which[REPORT_COLUMNS_MAX];
};

/* The default columns of rows by `keys` (AGGREGATE_*); with the one that they are sorted by. */
void report_columns_default(unsigned keys, enum report_sort sort, struct report_columns *out);

/* Their names, NULL at the end. */
const char *const *report_column_names(void);

/* Parse "calls,mean,op". 0, or -EINVAL: no such column, not one of rows by `keys`, or too many. */
int report_columns_parse(const char *text, unsigned keys, struct report_columns *out,
			 struct err *e);

/* Whether rows with these keys can have a column of that name. */
bool report_columns_has(const char *name, unsigned keys);

/* What an aggregate has to have for the chosen columns (AGGREGATE_*). */
unsigned report_columns_keys(const struct report_columns *c);

/* The headers; that of the column that rows are sorted by is marked. */
void report_columns_head(struct table *t, const struct report_columns *c,
			 const struct report_opts *opts);

/* The cells of a row. Percentages are of `observed_ns`; `files` as for where_text. */
void report_columns_row(struct table *t, const struct report_columns *c,
			const struct aggregate_row *r, uint64_t observed_ns,
			const struct report_opts *opts, const struct file_names *files);

/* A row for `n` rows that are not shown; `rest`: the sums of their times and calls. */
void report_columns_rest(struct table *t, const struct report_columns *c,
			 const struct aggregate_row *rest, size_t n, uint64_t observed_ns,
			 const struct report_opts *opts);

/* Mean duration of a call in ns, and part as a percentage of whole. */
uint64_t report_mean(const struct aggregate_row *r);
static inline double report_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* By how many percent probes that took probe_ns of cpu_ns (struct trace_stats) made threads slower;
 * -1: they took more than three quarters of it, where a small error of the estimate makes a large
 * one of this. */
double report_slowdown(uint64_t probe_ns, uint64_t cpu_ns);

/* The same, of what is known: "about 12 %", "at least 5.0 %", which `out` holds; NULL if
 * it is not told. */
const char *report_slowdown_text(char *out, size_t size, const struct trace_stats *s);

/* The op as op_text, without "aten::"; and as tables on a terminal of that width (0: none) show it.
 */
const char *report_op_name(const char *op);
const char *report_op_text(const char *op, int width);

/* The row's line (where_text), or its parameter (parameter_text). Returns out. */
const char *report_where_text(char *out, size_t size, const struct aggregate_row *r,
			      const struct file_names *files);

/* The name of the row's thread, "" when unknown. */
const char *report_thread_name(const struct report_opts *opts, const struct aggregate_row *r);

/* --group and --sort of the reports. */

/* Parse "op,line,shape" into AGGREGATE_* keys. 0 or -EINVAL. */
int group_parse(const char *text, unsigned *keys, struct err *e);

/* Parse the sort key of rows by `keys`. 0, or -EINVAL: no such key, or the rows do not have it. */
int group_parse_sort(const char *text, unsigned keys, enum report_sort *sort, struct err *e);

/* Parse the argument of --percent-limit, "0.5" or "0.5%". 0 or -EINVAL. */
int report_parse_percent(const char *text, double *out, struct err *e);

/* Kernels, copies and sets by name, device and stream. */

/* What rows are by: flags. */
enum { KERNELS_NAME = 1, KERNELS_DEVICE = 2, KERNELS_STREAM = 4 /* and its device */ };

/* Whether --group asks for kernels or streams; *keys: by what, if 1 is returned. 0: it does not.
 * -EINVAL: they do not go with the other keys. */
int kernels_parse(const char *group, unsigned *keys, struct err *e);

/* Parse a sort key of such rows. 0 or -EINVAL. */
int kernels_parse_sort(const char *text, enum report_sort *sort, struct err *e);

/* NULL if out of memory; free with kernels_free. */
struct kernels *kernels_new(unsigned keys);
void kernels_free(struct kernels *k); /* NULL allowed */

/* Memory grows with the number of distinct rows and of the lines that launch them. What the
 * activity points to is copied. 0 or -ENOMEM. */
int kernels_add(struct kernels *k, const struct activity *a);

/* A row for each, with the op and line that most of its time was launched by. Percentages are of
 * opts->busy_ns; `a` names devices. 0, -ENOMEM or -EIO. */
int kernels_print(FILE *f, const struct kernels *k, const struct aggregate *a,
		  const struct report_opts *opts);

/* The rows as CSV with a header, and as a JSON array. 0, -ENOMEM or -EIO. */
int kernels_print_csv(FILE *f, const struct kernels *k, const struct report_opts *opts);
int kernels_json(struct json_out *j, const char *key, const struct kernels *k,
		 const struct report_opts *opts);

/* Ops whose results contain NaN or infinities, from the tensor statistics of events. */

struct overflow;

/* NULL if out of memory. */
struct overflow *overflow_new(void);

/* Count one event; events without statistics are ignored. 0 or -ENOMEM. */
int overflow_add(struct overflow *o, const struct op_event *ev);

/* Number of events with statistics. */
uint64_t overflow_measured(const struct overflow *o);

/* Print a table of the ops with NaN or infinite elements in their results (of backward nodes: in
 * what they computed), by source line, most NaN first, then most infinities. Views, and ops that
 * return uninitialised or existing memory, are left out (symbolizer/event/event.h). At most `limit`
 * rows (0: all), or a line saying that there are none. Then the number of tensors that could not be
 * measured, by reason. 0, -ENOMEM or -EIO. */
int overflow_print(const struct overflow *o, FILE *f, size_t limit, struct terminal terminal);

void overflow_free(struct overflow *o);

#endif
