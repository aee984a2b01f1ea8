/* A PERF_RECORD_MMAP2 of perf_event_open(2): a process has mapped something to execute. */
#ifndef TRACER_PROC_PERF_MMAP_H
#define TRACER_PROC_PERF_MMAP_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <sys/types.h>

#include "symbolizer/target/maps.h"

struct perf_mmap {
	pid_t pid, tid;
	/* What is mapped: of a file either its inode and device, or its build id. `path` is in the
	 * record, "" of memory that is in no file. */
	struct mapping map;
};

/* Take the record apart: `h` and h->size - sizeof(*h) bytes behind it, any bytes. False: it is no
 * such record, or makes no sense. */
bool perf_mmap_parse(const struct perf_event_header *h, struct perf_mmap *out);

#endif
