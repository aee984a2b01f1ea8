/* Reading ditrace.data. Any bytes are safe to read; any prefix yields its whole blocks. */
#ifndef PERF_TRACE_TRACE_READ_H
#define PERF_TRACE_TRACE_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "perf/trace/trace_format.h"
#include "symbolizer/event/event.h"

struct trace_reader;

/* An undecoded event of the file, for trace_decode_event. */
struct trace_raw_event {
	uint64_t id;
	uint64_t last_id, last_ns; /* of the previous event */
	const uint8_t *payload;	   /* the reader's, valid until the next trace_read_next */
	uint32_t size;
};

/* The build id of a file that contains native frames of samples. */
struct trace_build {
	const char *file;
	const uint8_t *id; /* `len` bytes */
	uint32_t len;
};

/* What trace_read_next returned. The reader keeps definitions to itself. */
struct trace_item {
	/* EVENT, SUM, LOST, STATS, TARGET, PROCESS, THREAD, CHOSEN, SAMPLING, BUILD, SAMPLE,
	 * SAMPLES_LOST or END */
	enum trace_type type;
	uint32_t rank1; /* of trace_query, of a TARGET: its process's rank + 1; 0: not known */
	union {
		struct {
			struct op_event event; /* values are valid until the next call, ops and
						  stacks until close */
			struct trace_raw_event raw;
		};
		struct op_sum sum; /* ops and stacks are valid until close */
		struct {
			uint64_t time_ns, count;
		} lost;		      /* also of SAMPLES_LOST */
		struct sample sample; /* what it points to is valid until close */
		struct sampling sampling;
		struct trace_build build;
		struct trace_stats stats;
		struct trace_target target; /* strings valid until close */
		struct trace_process process;
		const char *chosen; /* the options; valid until close */
		struct {
			int32_t pid, tid;
			const char *name; /* valid until close */
		} thread;
	};
};

/* 0 and *out, or -errno with *e: no such file, empty, not a trace file, cut off within the header,
 * or of a newer version. */
int trace_reader_open(const char *path, struct trace_reader **out, struct err *e);

/* The next item in the order of the file (events in the order in which they ended).
 *
 *   1         *item is filled
 *   0         END was read: the file is complete
 *   -EAGAIN   everything so far was read, and ditrace is still writing: call again later
 *   -ENODATA  the file ends without END or within a block; *e says how much was read and where
 *             it stopped
 *   -EBADMSG  damaged: a checksum is wrong or a record malformed; *e as above; every further call
 *             returns the same
 *   -errno    read(2) failed, or no memory
 */
int trace_read_next(struct trace_reader *r, struct trace_item *item, struct err *e);

/* Decode `raw` (its payload may be a copy). *out is valid until the next call of this function or
 * of trace_read_next. 0 or -errno with *e. */
int trace_decode_event(struct trace_reader *r, const struct trace_raw_event *raw,
		       struct op_event *out, struct err *e);

/* From now on, return events without values (nargs and nresults 0) unless they have statistics.
 * This is faster: the values are skipped, though still checked to be complete. */
void trace_reader_no_values(struct trace_reader *r);

/* When the recording of the file began, CLOCK_MONOTONIC ns. */
uint64_t trace_reader_origin(const struct trace_reader *r);

/* The share of the file that was read, 0 to 1. */
double trace_reader_share(const struct trace_reader *r);

/* The same moment, CLOCK_REALTIME ns. */
uint64_t trace_reader_begun(const struct trace_reader *r);

void trace_reader_close(struct trace_reader *r);

/* The events of a trace in the order of their starts. */

/* The file has events in the order of their ends, children before parents. This holds them back and
 * returns them by id. It holds up to 65,536 events (64 MiB); when that is reached, it returns the
 * one with the smallest id. So only an op that encloses more than that comes late, after its
 * children. Ids missing from the file (lost or filtered events) do no harm. */
struct trace_order;

/* `follow`: the file is read while it is written, and no event is held for longer than a second.
 * The caller keeps the reader. NULL if out of memory. */
struct trace_order *trace_order_new(struct trace_reader *r, bool follow);

/* Like trace_read_next. Items other than events come at once; the end of the file is reported after
 * all events. */
int trace_order_next(struct trace_order *o, struct trace_item *item, struct err *e);

/* Call `fn` with each item as it is read, before sorting. 0, or -errno, which trace_order_next then
 * returns. */
void trace_order_tap(struct trace_order *o, int (*fn)(void *arg, const struct trace_item *item),
		     void *arg);

void trace_order_free(struct trace_order *o);

/* Names native frames that had no symbol when they were recorded, from files with the build ids in
 * the trace and from what JITs have written since. */

/* The function of such a frame in the trace: "0x1234" is an address as in the symbols of its file,
 * "@0x1234" an offset into a file that could not be read, "+0x1234" an address in a file whose name
 * another file had before. Code that is in no file has the file name of sample_anon_file. */

struct late_symbols;

/* begun_ns: when the recording of the file began (CLOCK_REALTIME); fd: its descriptor, which the
 * caller keeps. NULL if out of memory. */
struct late_symbols *late_symbols_new(uint64_t begun_ns, int fd);
void late_symbols_free(struct late_symbols *l); /* NULL allowed */

/* A file's build id; what `b` points to must outlive *l. 0 or -ENOMEM. */
int late_symbols_build(struct late_symbols *l, const struct trace_build *b);

/* If *f is such a frame, name its function: the symbol, if it is certain; otherwise
 * "libfoo.so+0x1234", or "libfoo.so@0x1234" for an offset into the file. Code in no file gets the
 * file "[JIT]" if it is certain, otherwise "[anon]" and "(unknown)". The strings live as long as
 * `l`. 0 or -ENOMEM. */
int late_symbols_name(struct late_symbols *l, struct py_frame *f);

#endif
