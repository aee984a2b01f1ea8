/* Samples in Trace Event JSON: as V8's CPU profiles, events of phase "P" named Profile and
 * ProfileChunk, one profile a thread. Chrome's DevTools protocol (Profiler.ProfileNode,
 * Runtime.CallFrame) has the words; what Perfetto takes of them is in its
 * src/trace_processor/importers/common/legacy_v8_cpu_profile_tracker.cc. */
#ifndef PERF_EXPORT_INTERNAL_H
#define PERF_EXPORT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "symbolizer/event/event.h"

struct export_profile;

/* NULL without memory. */
struct export_profile *export_profile_new(void);

/* The sample as an event, and before it what it needs; `us`: its time. Each follows "," and a line
 * break, but for the first thing when *any is not set yet. 0 or -ENOMEM. */
int export_profile_add(struct export_profile *p, FILE *f, bool *any, const struct sample *s,
		       int64_t us);

void export_profile_free(struct export_profile *p);

#endif
