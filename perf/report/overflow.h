/* Which ops gave NaN or infinities, from the statistics of their events. */
#ifndef PERF_REPORT_OVERFLOW_H
#define PERF_REPORT_OVERFLOW_H

#include <stdbool.h>
#include <stdio.h>

#include "base/terminal.h"
#include "symbolizer/event/event.h"

struct overflow;

/* NULL without memory. */
struct overflow *overflow_new(void);

/* Count one event; one without statistics does not count. 0 or -ENOMEM. */
int overflow_add(struct overflow *o, const struct op_event *ev);

/* How many events with statistics there were. */
uint64_t overflow_measured(const struct overflow *o);

/* A table of the ops with NaN or infinite elements in their results (of backward nodes: in what
 * they computed), by source line, those with the most NaN first, then those with the most
 * infinities; not of ops that give memory as it was, and views (event_stats.h); at most `limit`
 * rows (0: all). Without any, a line that says so. And how many tensors could not be measured, by
 * reason. 0, -ENOMEM or -EIO. */
int overflow_print(const struct overflow *o, FILE *f, size_t limit, struct terminal terminal);

void overflow_free(struct overflow *o);

#endif
