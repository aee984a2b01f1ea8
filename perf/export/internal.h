/* What the files of this folder share. */
#ifndef PERF_EXPORT_INTERNAL_H
#define PERF_EXPORT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/intern.h"
#include "perf/export/export.h"
#include "symbolizer/event/event.h"

/* Samples in Trace Event JSON: as V8's CPU profiles, events of phase "P" named Profile and
 * ProfileChunk, one profile a thread. Chrome's DevTools protocol (Profiler.ProfileNode,
 * Runtime.CallFrame) has the words; what Perfetto takes of them is in its
 * src/trace_processor/importers/common/legacy_v8_cpu_profile_tracker.cc. */
struct export_profile;

/* NULL without memory. */
struct export_profile *export_profile_new(void);

/* Write the sample as an event, preceded by the thread's Profile event if it is the first. `us` is
 * its time in the trace. A comma and a line break precede each event, except the first while *any
 * is not set. 0 or -ENOMEM. */
int export_profile_add(struct export_profile *p, FILE *f, bool *any, const struct sample *s,
		       int64_t us);

void export_profile_free(struct export_profile *p);

struct export_backward;

/* What the first pass noted of nodes that ran backward. */
struct export_notes {
	/* export_csv: the nodes' texts, what the nodes of each forward op came to */
	FILE *spill;
	uint64_t spill_len;
	struct intern ids; /* forward id -> index into backwards */
	struct export_backward *backwards;
	uint32_t size;
	/* export_chrome: a bit for each id of an event, set where a flow starts */
	uint8_t *starts;
	size_t starts_room;
};

/* Those of `in`, made when there are none yet; NULL without memory. */
struct export_notes *export_notes(struct export_in *in);

#endif
