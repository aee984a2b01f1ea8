/* Internal to perf/events: events as tables. */
#ifndef PERF_EVENTS_INTERNAL_H
#define PERF_EVENTS_INTERNAL_H

#include <stdio.h>

#include "base/table.h"
#include "symbolizer/event/event.h"

/* The arguments and results of an event as named rows. */

struct event_row {
	const char *name;
	const struct value *value; /* a list that holds tensors has a row for each item instead */
	struct tensor_place place; /* for tensors */
};

typedef void event_row_fn(const struct event_row *row, void *arg);

/* Call `fn` for each argument, then for each result. Arguments have their schema names. Results are
 * "outputs", with index or schema name when there are several. Those of a backward node are
 * "grad_outputs" (its inputs) and "grad_inputs" (what it computed), as in ditorch. Items of lists
 * with tensors are "tensors[0]", at most 1000 a list. A row is valid only during the call. */
void event_rows(const struct op_event *ev, event_row_fn *fn, void *arg);

/* Print the tensor statistics of `ev` (ev->stats is not NULL) as a boxed table, a row for each
 * tensor: ditorch's overflow check. The columns are name, inf_or_nan, min, max, mean, std and norm,
 * as in ditorch's op_overflow_check_hook.py, then nan, inf, -inf, zeros and hash. `t` is
 * overwritten. Prints nothing when no tensor was measured. 0, -ENOMEM, or -EIO when writing failed.
 */
int stats_print(struct table *t, FILE *f, const struct op_event *ev, int width);

#endif
