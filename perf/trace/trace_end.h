/* What the commands that read a trace file say when they are done with it. */
#ifndef PERF_TRACE_TRACE_END_H
#define PERF_TRACE_TRACE_END_H

#include <stdint.h>

#include "base/err.h"

/* Print on stderr how reading `path` ended: `code` and `e` as trace_read_next gave them last,
 * `lost` events in LOST records. Returns the exit status of the command: EXIT_GOOD for a whole file
 * and for one that is still being written, else EXIT_FAILED. */
int trace_end_print(const char *path, int code, const struct err *e, uint64_t lost);

#endif
