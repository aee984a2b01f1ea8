/* Ops whose results contain NaN or infinities, from the tensor statistics of events. */
#ifndef PERF_REPORT_OVERFLOW_H
#define PERF_REPORT_OVERFLOW_H

#include <stdbool.h>
#include <stdio.h>

#include "base/terminal.h"
#include "symbolizer/event/event.h"

struct overflow;

/* NULL if out of memory. */
struct overflow *overflow_new(void);

/* Count one event; events without statistics are ignored. 0 or -ENOMEM. */
int overflow_add(struct overflow *o, const struct op_event *ev);

/* Number of events with statistics. */
uint64_t overflow_measured(const struct overflow *o);

/* Print a table of the ops with NaN or infinite elements in their results (of backward nodes: in
 * what they computed), by source line, most NaN first, then most infinities. Views, and ops that
 * return uninitialised or existing memory, are left out (event_stats.h). At most `limit` rows (0:
 * all), or a line saying that there are none. Then the number of tensors that could not be
 * measured, by reason. 0, -ENOMEM or -EIO. */
int overflow_print(const struct overflow *o, FILE *f, size_t limit, struct terminal terminal);

void overflow_free(struct overflow *o);

#endif
