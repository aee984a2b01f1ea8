/* Events summed up in one way of grouping, with the last call of each row. Memory is bounded: when
 * there are GROUPING_ROWS rows, what would be one more goes into a row "(other)". */
#ifndef TUI_MODEL_GROUPING_H
#define TUI_MODEL_GROUPING_H

#include <stddef.h>
#include <stdint.h>

#include "perf/report/aggregate.h"
#include "perf/trace/trace_read.h"

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

#endif
