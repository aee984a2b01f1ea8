/* Where the time of training steps goes, on the thread that trains: the first lines of a report. */
#ifndef PERF_REPORT_BREAKDOWN_H
#define PERF_REPORT_BREAKDOWN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "symbolizer/event/event.h"

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
};

/* A whole step of one process: from the end of the step before to its own. */
struct breakdown_step {
	int32_t pid;
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

/* Whether the stack is of a thread that loads data for others: of a worker of a DataLoader, or the
 * one that pins memory (torch/utils/data/_utils/worker.py, pin_memory.py). */
bool breakdown_is_worker(const struct py_stack *s);

#endif
