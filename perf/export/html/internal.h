/* Shared by the files of this folder: the parts of the page that `export --to html` writes. */
#ifndef PERF_EXPORT_HTML_INTERNAL_H
#define PERF_EXPORT_HTML_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"
#include "base/map.h"
#include "perf/calls/call_tree.h"
#include "perf/export/export.h"
#include "perf/export/internal.h"
#include "perf/report/blocks.h"
#include "perf/report/report.h"

/* How much a page has: halved until it is small enough. */
struct page_limits {
	size_t nodes;	      /* of each tree */
	size_t slices;	      /* of all timelines */
	double percent_limit; /* of the rows of tables */
};

/* Texts of the page by number, each written once. */
struct page_names {
	struct intern ids;
	char *text; /* the list so far, as JSON */
	size_t len;
	struct json_out out;
};

int64_t page_name(struct page_names *n, const char *text); /* its number, or -ENOMEM */

/* The training steps of the process that made most. */

struct page_step {
	struct breakdown_step step;
	uint64_t ops; /* chosen ones in its time, of all processes */
	bool whole;   /* its timeline is in the page */
};

struct page_steps {
	struct page_step *list; /* in order */
	size_t n, room;
	int32_t pid;
	uint64_t middle; /* number of the one in the middle by length; 0: none is chosen */
};

/* Read the trace, all of it. 0 or -errno with *e; page_steps_free in either case. */
int page_steps_read(struct page_steps *s, struct export_in *in, struct err *e);

/* Count an op that is chosen. */
void page_steps_count(struct page_steps *s, const struct op_event *ev);

/* Decide which steps are whole: the one in the middle by length, and the longest and others,
 * evenly, as long as all have no more than `most` ops together. 0 or -ENOMEM. */
int page_steps_choose(struct page_steps *s, uint64_t most);

/* The step that the time is in; NULL: none. */
struct page_step *page_steps_at(const struct page_steps *s, uint64_t ns);

void page_steps_json(const struct page_steps *s, uint64_t origin, struct json_out *j);
void page_steps_free(struct page_steps *s);

/* Tables, as `ditrace report` has them. */
struct page_sums;

/* Read the trace by a query of its own, of what `in` chooses, and count the ops of `steps`. NULL
 * with *e if it cannot be opened or memory is out. */
struct page_sums *page_sums_read(struct export_in *in, struct page_steps *steps, struct err *e);
int page_sums_json(struct page_sums *s, struct json_out *j, const struct page_limits *limits);
void page_sums_free(struct page_sums *s); /* NULL allowed */

/* Timelines of whole steps: blocks of record_function, Python frames and ops by thread, and what
 * devices did by stream. */
struct page_timeline;

/* Without whole steps: of the first ops. NULL if out of memory. */
struct page_timeline *page_timeline_new(const struct page_steps *steps);

/* In the order of starts. 0 or -ENOMEM. */
int page_timeline_add(struct page_timeline *t, const struct op_event *ev);
int page_timeline_add_activity(struct page_timeline *t, const struct activity *a); /* in any */
int page_timeline_add_mark(struct page_timeline *t, const struct op_event *ev);	   /* see op_mark */
int page_timeline_thread(struct page_timeline *t, int32_t pid, int32_t tid, const char *name);
int page_timeline_finish(struct page_timeline *t);
int page_timeline_json(const struct page_timeline *t, struct json_out *j, struct page_names *names,
		       size_t most);
void page_timeline_free(struct page_timeline *t);

/* A timeline; for timeline*.c alone. */

struct timeline_slice {
	uint64_t start_ns, end_ns;
	const struct op_desc *op;     /* NULL: a Python frame, or of a device */
	const char *ran;	      /* what a device did; else NULL */
	const char *block;	      /* the name of a block; else NULL */
	const struct py_frame *frame; /* itself, or the one that locates the op; may be NULL */
	const char *parameter;	      /* in its place; else NULL */
	const char *shapes;	      /* of a device: what launched it */
	uint32_t thread, depth;
	uint8_t phase;
};

/* What is in one step. */
struct timeline_span {
	struct page_timeline *all;
	const struct breakdown_step *step; /* NULL: no step */
	struct slices *slices;
	struct timeline_slice *list;
	size_t n, room, ops;
	struct export_activities activities; /* of its time */
	struct code_block *blocks;	     /* of its time */
	size_t nblocks, blocks_room;
};

struct timeline_thread {
	int32_t pid, tid;
	const char *name;
	bool is_blocks; /* of the thread */
};

struct page_timeline {
	const struct page_steps *steps;
	struct timeline_span *spans; /* of whole steps, in order; or one */
	size_t n;
	struct intern texts, thread_ids;
	struct timeline_thread *threads;
	size_t threads_room;
	struct arena arena;
	struct block_pairs blocks;
};

/* A call tree in which small nodes are folded into their callers. */
int page_tree_json(struct call_tree *tree, const char *key, struct json_out *j,
		   struct page_names *names, size_t most);

#endif
