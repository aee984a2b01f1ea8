/* An event as text for people: ditorch's dump_op_args. */
#ifndef PERF_EVENTS_PRINT_EVENT_H
#define PERF_EVENTS_PRINT_EVENT_H

#include <stdio.h>

#include "symbolizer/event/event.h"

struct event_printer;

/* NULL without memory. Prints to `f` (not owned). */
struct event_printer *event_printer_new(FILE *f);

/* One block: a line with the op's name, ids, duration and source line with its text, then a boxed
 * table with a row for each argument and result as event_rows names them, the table of statistics
 * if it was measured, then an empty line. Everything from the target is made safe for a terminal.
 * 0, or -errno when writing failed (-EPIPE: nobody reads any more; else -EIO) or without memory. */
int event_print(struct event_printer *p, const struct op_event *ev);

void event_printer_free(struct event_printer *p);

#endif
