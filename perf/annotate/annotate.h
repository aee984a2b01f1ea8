/* What the lines of each Python file took: for ditrace annotate. */
#ifndef PERF_ANNOTATE_ANNOTATE_H
#define PERF_ANNOTATE_ANNOTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/text.h"
#include "perf/report/aggregate.h"

/* The keys of the rows that are annotated: of ops, and of the time between them (struct gaps). */
enum {
	ANNOTATE_OPS = AGGREGATE_OP | AGGREGATE_LINE | AGGREGATE_SHAPE | AGGREGATE_PHASE |
		       AGGREGATE_WORKERS | AGGREGATE_STEADY,
	ANNOTATE_GAPS = AGGREGATE_LINE | AGGREGATE_WORKERS | AGGREGATE_STEADY,
};

/* Strings are those of the rows. */
struct annotate_line {
	int32_t line; /* from 1; 0: not known */
	const char *function;
	const char *text;     /* as recorded, without indentation; NULL: unknown */
	uint64_t calls;	      /* of ops, those called by other ops too */
	uint64_t forward_ns;  /* self times of its ops */
	uint64_t backward_ns; /* of its backward nodes, and of what ran in the backward */
	uint64_t no_op_ns;    /* in no op, up to an op of the line */
	bool is_worker;	      /* all of it is of threads that load data for others; else none */
	const char *op;	      /* that of the longest total time, in the forward if there is one;
				 NULL: no op, only time in none */
	const char *shapes;   /* of the arguments in most of this time */
	size_t other_shapes;  /* how many others there were */
};

struct annotate_file {
	const char *path;
	struct annotate_line *lines; /* by number; of the same number, that of workers is second */
	size_t n;
	/* Times and calls. If workers alone run the file `sum` is theirs and `workers` is empty. */
	struct annotate_line sum, workers;
};

struct annotation {
	struct annotate_file *files; /* those that took most first */
	size_t n;
	uint64_t observed_ns, workers_ns; /* the bases of percentages: struct aggregate_totals */
	struct annotate_line *lines;
};

/* Sum up rows by ANNOTATE_OPS and ANNOTATE_GAPS, which must stay as they are until annotation_free;
 * those without a Python line are left out. 0 or -ENOMEM. */
int annotation_make(const struct aggregate *ops, const struct aggregate *gaps,
		    const struct aggregate_totals *totals, struct annotation *out);
void annotation_free(struct annotation *a);

/* Whether `path` is, or ends with, `asked`, from one of its components on. */
bool annotate_is_asked(const char *path, const char *asked);

struct annotate_opts {
	const char *only;     /* NULL: all files; else those that it asks for, see above */
	double percent_limit; /* leave out files and lines below it, in ops as in none */
	uint64_t begun_ns;    /* when the recording began, CLOCK_REALTIME */
	struct terminal terminal;
};

/* The text of each file with the figures of its lines before them, long runs of other lines left
 * out. The text is what the file has now, opened with ditrace's own rights, if it has the recorded
 * text at all recorded lines; else these lines alone, with the reason. 0, -ENOMEM or -EIO. */
int annotate_print(FILE *f, const struct annotation *a, const struct annotate_opts *opts);

/* {"observed_ns": ..., "files": [{"file", "self_percent", "lines": [...]}]}. A line has line,
 * function, text, self_percent, calls, forward_ns, backward_ns, no_op_ns, worker, op, shapes,
 * other_shapes; one that workers run, too, is there twice. 0 or -EIO. */
int annotate_print_json(FILE *f, const struct annotation *a, const struct annotate_opts *opts);

/* A line for each, with its file, and a header. 0 or -EIO. */
int annotate_print_csv(FILE *f, const struct annotation *a, const struct annotate_opts *opts);

/* The text of a Python file, for annotate_print.c. */

struct source {
	char *bytes;
	char *
	    *lines; /* without what ends them; NULL: the text is not known to be the recorded one */
	size_t n;
	const char *why; /* lines is NULL: a reason. Else NULL, or what is not certain */
};

/* The text of the file as it is now. Only -ENOMEM is an error. */
int source_read(struct source *s, const struct annotate_file *file, uint64_t begun_ns);
void source_free(struct source *s);

#endif
