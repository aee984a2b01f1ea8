/* Native frames that had no symbol when they were recorded, named as a trace file is read: by the
 * files with the build ids that the trace has, and by what JITs have written meanwhile. */
#ifndef PERF_TRACE_LATE_SYMBOLS_H
#define PERF_TRACE_LATE_SYMBOLS_H

#include <stdint.h>

#include "perf/trace/trace_read.h"

/* How such a frame's function is written in the trace: "0x1234" is an address as the symbols of its
 * file have it, "@0x1234" an offset into a file that could not be read,
 * "+0x1234" an address in a file of a name that had been another's before. The file of code that is
 * in no file is that of sample_anon_file. */

struct late_symbols;

/* When the file was begun (CLOCK_REALTIME ns), and its descriptor, which stays the caller's. NULL
 * without memory. */
struct late_symbols *late_symbols_new(uint64_t begun_ns, int fd);
void late_symbols_free(struct late_symbols *l); /* NULL allowed */

/* A file's build id; what `b` points to must outlive *l. 0 or -ENOMEM. */
int late_symbols_build(struct late_symbols *l, const struct trace_build *b);

/* If *f is such a frame, give it its function's name, where that is certain; else
 * "libfoo.so+0x1234", with an offset into the file "libfoo.so@0x1234"; of code in no file "[anon]"
 * and "(unknown)". The strings live as long as `l`. 0 or -ENOMEM. */
int late_symbols_name(struct late_symbols *l, struct py_frame *f);

#endif
