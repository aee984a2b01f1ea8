/* What makes two events one row. For aggregate.c alone. */
#ifndef PERF_REPORT_AGGREGATE_KEY_H
#define PERF_REPORT_AGGREGATE_KEY_H

#include "perf/events/event_tensors.h"
#include "perf/report/aggregate.h"

enum { AGGREGATE_KEY_MAX = 11 << 10, AGGREGATE_KEY_STRING_MAX = 1200 };

struct aggregate_key {
	struct aggregate_row row; /* the keys alone; strings are the event's, or those below */
	char shape[EVENT_TENSORS_MAX], dtype[EVENT_TENSORS_MAX], device[EVENT_TENSORS_MAX];
	char bytes[AGGREGATE_KEY_MAX]; /* equal for equal keys */
};

/* Fill *k with what `keys` (AGGREGATE_*) ask for of the event, valid as long as the event and *k.
 * Returns how many of the bytes count. */
uint32_t aggregate_key(struct aggregate_key *k, unsigned keys, const struct op_event *ev);

#endif
