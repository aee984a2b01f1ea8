/* The events of a trace in the order in which they started. */
#ifndef PERF_TRACE_TRACE_ORDER_H
#define PERF_TRACE_TRACE_ORDER_H

#include "perf/trace/trace_read.h"

/* The file has events in the order in which they ended, children before parents; this holds them
 * back and gives them out by id. Up to 65,536 events (64 MiB of them) are held, and the smallest id
 * goes out when that is reached: only an op that encloses more than so many others comes late,
 * after its children. Numbers missing from the file (lost or filtered events) do no harm. */
struct trace_order;

/* `follow`: the file is read while it is written; then no event is held for longer than a second.
 * The reader stays the caller's. NULL without memory. */
struct trace_order *trace_order_new(struct trace_reader *r, bool follow);

/* As trace_read_next; items other than events come at once. How the file ended is told when all
 * events are out. */
int trace_order_next(struct trace_order *o, struct trace_item *item, struct err *e);

void trace_order_free(struct trace_order *o);

#endif
