/* Reading ditrace.data: any bytes are safe to read, any prefix gives its whole blocks. */
#ifndef PERF_TRACE_TRACE_READ_H
#define PERF_TRACE_TRACE_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "perf/trace/trace_format.h"
#include "symbolizer/event/event.h"

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

void trace_reader_close(struct trace_reader *r);

/* The events of a trace in the order in which they started. */

/* The file has events in the order in which they ended, children before parents; this holds them
 * back and gives them out by id. Up to 65,536 events (64 MiB of them) are held, and the smallest id
 * goes out when that is reached: only an op that encloses more than so many others comes late,
 * after its children. Numbers missing from the file (lost or filtered events) do no harm. */
struct trace_order;

/* `follow`: the file is read while it is written; then no event is held for longer than a second.
 * The reader stays the caller's. NULL without memory. */
struct trace_order *trace_order_new(struct trace_reader *r, bool follow);

/* As trace_read_next; items other than events come at once. How the file ended is told when all
 * events are out. */
int trace_order_next(struct trace_order *o, struct trace_item *item, struct err *e);

/* Call `fn` with each item as it is read, before it is put in order. 0, or -errno, which ends it:
 * trace_order_next returns that. */
void trace_order_tap(struct trace_order *o, int (*fn)(void *arg, const struct trace_item *item),
		     void *arg);

void trace_order_free(struct trace_order *o);

/* Native frames that had no symbol when they were recorded, named as a trace file is read: by the
 * files with the build ids that the trace has, and by what JITs have written meanwhile. */

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
