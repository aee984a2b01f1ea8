/* Blocks of record_function: what lies between two marks (op_mark). */
#ifndef PERF_REPORT_BLOCKS_H
#define PERF_REPORT_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "perf/report/report.h"
#include "symbolizer/event/event.h"

/* A block lasts from the end of the call that begins it to the end of the one that ends it, which
 * is nearest to what torch.profiler has, on whatever thread that is. */
struct code_block {
	const char *name;
	int32_t pid, tid; /* of the thread that began it */
	uint32_t rank1;
	uint64_t start_ns, end_ns;    /* end_ns 0: it has not ended */
	const struct py_stack *stack; /* where it began */
	uint32_t number;	      /* for who is told, see below */
	uint32_t slot;		      /* those of a thread with one number do not overlap */
	uint32_t lane;		      /* those with one number are nested in each other, or apart */
};

/* Marks paired. Zero-initialise, and set who is told: `begin` of each block, whose `number` it may
 * set; `end` of each that has ended, or that will not. Both 0 or -errno; NULL: not told. */
struct block_pairs {
	int (*begin)(void *arg, struct code_block *b);
	int (*end)(void *arg, const struct code_block *b);
	void *arg;
	struct intern ids, names;
	struct code_block *open; /* by id; name NULL: it has ended */
	uint32_t *now;		 /* ids of those that are open, in the order in which they began */
	size_t room, nnow, now_room;
	uint64_t nameless; /* blocks of which the name or the record is not known */
	uint64_t ends;	   /* of blocks that had begun before recording did */
};

/* Add an event with its values, in the order of starts or of ends; events that are no marks are
 * ignored. 0, -ENOMEM or what was returned by who was told. */
int block_pairs_add(struct block_pairs *p, const struct op_event *ev);

/* All that is still open will not end. */
int block_pairs_finish(struct block_pairs *p);
void block_pairs_free(struct block_pairs *p);

/* Blocks by name and the line where they begin. Of ProfilerStep#3 and the like, the number is left
 * out, as torch.profiler does it. */
struct code_blocks;

struct code_blocks *
code_blocks_new(void); /* NULL if out of memory; free with code_blocks_free, NULL allowed */
void code_blocks_free(struct code_blocks *b);
int code_blocks_add(struct code_blocks *b, const struct op_event *ev); /* as block_pairs_add */
int code_blocks_finish(struct code_blocks *b);

/* Whether --group asks for blocks: 1, or 0. -EINVAL: it does not go with the other keys. */
int code_blocks_parse(const char *group, struct err *e);

/* Parse a sort key of such rows. 0 or -EINVAL. */
int code_blocks_parse_sort(const char *text, enum report_sort *sort, struct err *e);

/* Parse the columns of the table of blocks. 0 or -EINVAL. */
int code_blocks_parse_columns(const char *text, struct report_columns *out, struct err *e);

/* A row for each, with percentages of `observed_ns`, and what of them is not known. 0, -ENOMEM or
 * -EIO. */
int code_blocks_print(FILE *f, const struct code_blocks *b, uint64_t observed_ns,
		      const struct report_opts *opts);

/* The rows as CSV with a header, and as a JSON array. 0, -ENOMEM or -EIO. */
int code_blocks_print_csv(FILE *f, const struct code_blocks *b, uint64_t observed_ns,
			  const struct report_opts *opts);
int code_blocks_json(struct json_out *j, const char *key, const struct code_blocks *b,
		     uint64_t observed_ns, const struct report_opts *opts);

#endif
