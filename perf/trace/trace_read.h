/* Reading ditrace.data: any bytes are safe to read, any prefix gives its whole blocks. */
#ifndef PERF_TRACE_TRACE_READ_H
#define PERF_TRACE_TRACE_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "perf/trace/trace_format.h"
#include "symbolizer/event/event.h"
#include "symbolizer/event/sample.h"

struct trace_reader;

/* An event as it stands in the file, to be decoded later with trace_decode_event. */
struct trace_raw_event {
	uint64_t id;
	uint64_t last_id, last_ns; /* of the event before */
	const uint8_t *payload;	   /* the reader's, until the next trace_read_next */
	uint32_t size;
};

/* The build id of a file that native frames of samples are of. */
struct trace_build {
	const char *file;
	const uint8_t *id; /* `len` bytes */
	uint32_t len;
};

/* What trace_read_next found. Definitions are used up by the reader. */
struct trace_item {
	/* EVENT, LOST, STATS, TARGET, THREAD, SAMPLING, BUILD, SAMPLE, SAMPLES_LOST or END */
	enum trace_type type;
	union {
		struct {
			struct op_event event; /* values: valid until the next call; ops and stacks:
						  until close */
			struct trace_raw_event raw;
		};
		struct {
			uint64_t time_ns, count;
		} lost;		      /* of SAMPLES_LOST, too */
		struct sample sample; /* what it points to lives until close */
		struct sampling sampling;
		struct trace_build build;
		struct trace_stats stats;
		struct trace_target target; /* strings valid until close */
		struct {
			int32_t pid, tid;
			const char *name; /* until close */
		} thread;
	};
};

/* 0 and *out, or -errno with *e: no such file, empty, not a trace file, cut within the header, of a
 * newer version. */
int trace_reader_open(const char *path, struct trace_reader **out, struct err *e);

/* The next item in the order of the file (events in the order in which they ended).
 *
 *   1         *item is filled
 *   0         END was read: the file is complete
 *   -EAGAIN   all there is was read, and ditrace is still writing: call again later
 *   -ENODATA  the file ends without END or within a block; *e says how much was read and where
 *             it stopped
 *   -EBADMSG  damaged: a checksum or a record does not hold; *e as above; every further call says
 *             the same
 *   -errno    read(2) failed, or no memory
 */
int trace_read_next(struct trace_reader *r, struct trace_item *item, struct err *e);

/* Decode `raw` (its payload may be a copy). *out is valid until the next call of this function or
 * of trace_read_next. 0 or -errno with *e. */
int trace_decode_event(struct trace_reader *r, const struct trace_raw_event *raw,
		       struct op_event *out, struct err *e);

/* From now on events come without their values (nargs and nresults 0), unless they have statistics:
 * for who needs none, in less time. The values are passed over, and checked to be whole. */
void trace_reader_no_values(struct trace_reader *r);

/* When the file was begun, CLOCK_MONOTONIC ns. */
uint64_t trace_reader_origin(const struct trace_reader *r);

/* Whether the file has samples and no events; false when it cannot be read. */
bool trace_has_only_samples(const char *path);

void trace_reader_close(struct trace_reader *r);

#endif
