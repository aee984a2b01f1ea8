/* Internal to perf/export: samples in Trace Event JSON. They are written as V8's CPU profiles,
 * events of phase "P" named Profile and ProfileChunk, one profile a thread. The fields are those of
 * Chrome's DevTools protocol (Profiler.ProfileNode, Runtime.CallFrame); what Perfetto reads of them
 * is in its src/trace_processor/importers/common/legacy_v8_cpu_profile_tracker.cc. */
#ifndef PERF_EXPORT_INTERNAL_H
#define PERF_EXPORT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "symbolizer/event/event.h"

struct export_profile;

/* NULL without memory. */
struct export_profile *export_profile_new(void);

/* Write the sample as an event, preceded by the thread's Profile event if it is the first. `us` is
 * its time in the trace. A comma and a line break precede each event, except the first while *any
 * is not set. 0 or -ENOMEM. */
int export_profile_add(struct export_profile *p, FILE *f, bool *any, const struct sample *s,
		       int64_t us);

void export_profile_free(struct export_profile *p);

#endif
