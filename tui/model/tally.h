/* Events summed up in one way of grouping, with the last call of each row. Memory is bounded: when
 * there are TALLY_ROWS rows, what would be one more goes into a row "(other)". */
#ifndef TUI_MODEL_TALLY_H
#define TUI_MODEL_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "perf/report/aggregate.h"
#include "perf/trace/trace_read.h"

enum tally_group {
	TALLY_OP_LINE, /* op and source line: the rows of ditrace report */
	TALLY_OP,
	TALLY_LINE,   /* source line: all its ops */
	TALLY_MODULE, /* path of the nn.Module */
	TALLY_THREAD,
	TALLY_SHAPE, /* op and the shapes of its tensors */
	TALLY_GROUPS
};

extern const char *const tally_group_names[TALLY_GROUPS];

enum {
	TALLY_ROWS = 4096,
	TALLY_CALL_MAX = 4096, /* the last call of a row is kept if its record is no longer */
};

/* A call as it stands in the trace; size is 0 when it was too long to keep. */
struct tally_call {
	uint64_t id, last_id, last_ns;
	uint8_t *bytes;
	uint32_t size, room;
};

struct tally_row {
	uint32_t id;			 /* dense, in the order of the first call */
	const struct aggregate_row *sum; /* op: the name of the row in its grouping */
	struct tally_call last;
	uint64_t last_elements; /* of the tensors among its arguments whose shapes are known */
};

struct tally;

/* `thread_name` gives the name of a thread, "" when not known, valid during the call. NULL without
 * memory. */
struct tally *tally_new(enum tally_group group,
			const char *(*thread_name)(void *arg, int32_t pid, int32_t tid), void *arg);

/* One event, in the order of the file; `raw` is the same in the file's bytes (copied if kept). *row
 * is its row, valid until tally_free, NULL when it had not ended. 0 or -ENOMEM, after which the
 * tally is to be freed. */
int tally_add(struct tally *t, const struct op_event *ev, const struct trace_raw_event *raw,
	      const struct tally_row **row);

/* All rows by their id, valid until the next tally_add. */
struct tally_row *const *tally_rows(const struct tally *t, size_t *n);

const struct aggregate *tally_sum(const struct tally *t);

void tally_free(struct tally *t);

/* The shapes of the tensors among the arguments, "[384] [256,128]", into out; "[?]" when one is not
 * known. Cut with "..." when there is no room. Returns out. */
const char *tally_shapes(char *out, size_t size, const struct op_event *ev);

#endif
