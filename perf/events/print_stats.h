/* The statistics of an event as a table: ditorch's overflow check. */
#ifndef PERF_EVENTS_PRINT_STATS_H
#define PERF_EVENTS_PRINT_STATS_H

#include <stdio.h>

#include "base/table.h"
#include "symbolizer/event/event_stats.h"

/* A boxed table with a row for each tensor of `ev`, whose `stats` is not NULL. The columns are
 * name, inf_or_nan, min, max, mean, std and norm, as ditorch's op_overflow_check_hook.py has them,
 * then nan, inf, -inf, zeros and hash. `t` is overwritten. Nothing is printed when no tensor was
 * measured. 0, -ENOMEM, or -EIO when writing failed. */
int stats_print(struct table *t, FILE *f, const struct op_event *ev);

#endif
