/* The tensors that an op was given, as text: what rows are grouped and events labelled by. */
#ifndef PERF_EVENTS_EVENT_TENSORS_H
#define PERF_EVENTS_EVENT_TENSORS_H

#include <stddef.h>

#include "symbolizer/event/event.h"

enum { EVENT_TENSORS_MAX = 1024 };

/* Of the tensors among the arguments (of a backward node: what it was given), those in lists too,
 * in their order: "[2,3] [3,4] []"; "?" stands for what is not known, or not decoded. After 16
 * tensors "..." follows. "" without tensors. Returns out; EVENT_TENSORS_MAX bytes are enough for
 * what is shown of usual ones, longer text is cut. */
const char *event_shapes(char *out, size_t size, const struct op_event *ev);

/* The dtypes and the devices of the same, each named once: "float32 int64", "cpu cuda:0". */
const char *event_dtypes(char *out, size_t size, const struct op_event *ev);
const char *event_devices(char *out, size_t size, const struct op_event *ev);

#endif
