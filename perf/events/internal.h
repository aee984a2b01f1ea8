/* What the files of this folder share. */
#ifndef PERF_EVENTS_INTERNAL_H
#define PERF_EVENTS_INTERNAL_H

#include <stdio.h>

#include "base/table.h"
#include "symbolizer/event/event.h"

/* The arguments and results of an event as rows of a table: what they are called. */

struct event_row {
	const char *name;
	const struct value
	    *value; /* no list that holds tensors: its items have rows of their own */
	struct tensor_place place; /* of a tensor */
};

typedef void event_row_fn(const struct event_row *row, void *arg);

/* Call `fn` for each argument and each result, in that order. Arguments have their schema names;
 * results are "outputs", with their number or schema name when there are several; those of a
 * backward node are "grad_outputs" (what it was given) and "grad_inputs" (what it computed), as
 * ditorch calls them. Items of lists that hold tensors are "tensors[0]", at most 1000 a list. A row
 * is valid during the call only. */
void event_rows(const struct op_event *ev, event_row_fn *fn, void *arg);

/* The statistics of an event as a table: ditorch's overflow check. */

/* A boxed table with a row for each tensor of `ev`, whose `stats` is not NULL. The columns are
 * name, inf_or_nan, min, max, mean, std and norm, as ditorch's op_overflow_check_hook.py has them,
 * then nan, inf, -inf, zeros and hash. `t` is overwritten. Nothing is printed when no tensor was
 * measured. 0, -ENOMEM, or -EIO when writing failed. */
int stats_print(struct table *t, FILE *f, const struct op_event *ev);

#endif
