/* From values to the bytes of a record; the writer's other half. */
#ifndef PERF_TRACE_TRACE_ENCODE_H
#define PERF_TRACE_TRACE_ENCODE_H

#include <stdbool.h>
#include <stddef.h>

#include "perf/trace/trace_format.h"
#include "symbolizer/event/event.h"
#include "symbolizer/event/event_stats.h"

/* Bytes being put together; once `full` nothing more is added. */
struct out {
	uint8_t *p, *end;
	bool full;
};

/* The forms of trace_format.h: b, u, s, f, str, and plain bytes. */
void out_b(struct out *o, uint8_t b);
void out_u(struct out *o, uint64_t n);
void out_s(struct out *o, int64_t n);
void out_f(struct out *o, double f);
void out_str(struct out *o, const char *s, size_t len);
void out_bytes(struct out *o, const void *bytes, size_t len);

/* Where tensor metadata get their numbers: for a META payload its number, -ENOENT when it is to be
 * written in place, or another -errno, which ends the encoding. */
struct meta_numbers {
	int64_t (*number)(void *arg, const void *payload, uint32_t len);
	void *arg;
};

/* One value. 0 (look at o->full) or what `metas` gave. */
int trace_encode_value(struct out *o, const struct value *v, const struct meta_numbers *metas);

/* The statistics of an event; nothing for NULL. Look at o->full. */
void trace_encode_stats(struct out *o, const struct event_stats *s);

/* A value of kind not decoded. */
void trace_encode_not_decoded(struct out *o, const char *reason);

#endif
