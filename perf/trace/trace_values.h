/* The values of an event in a trace file. */
#ifndef PERF_TRACE_TRACE_VALUES_H
#define PERF_TRACE_TRACE_VALUES_H

#include "base/arena.h"
#include "perf/trace/trace_in.h"
#include "symbolizer/event/event.h"

struct trace_defs;

/* `n` values, at most as many as there are bytes: *out, allocated from `a`. 0, -EBADMSG or -ENOMEM.
 */
int trace_decode_values(const struct trace_defs *d, struct in *in, struct arena *a, size_t n,
			struct value **out);

/* Go behind `n` values; in->bad when they are not whole. */
void trace_pass_values(const struct trace_defs *d, struct in *in, size_t n);

#endif
