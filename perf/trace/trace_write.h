/* Writing ditrace.data while the events come. */
#ifndef PERF_TRACE_TRACE_WRITE_H
#define PERF_TRACE_TRACE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "perf/trace/trace_format.h"
#include "symbolizer/event/event.h"

struct trace_writer;

/* All functions are for one thread. A failed write (disk full) is reported once, as -errno by the
 * function that met it; from then on every call returns 0 and does nothing, and the file keeps what
 * was whole. Nothing here waits for anything but write(2) on the file. */

/* Create or overwrite `path` and lock it (flock), which is how a reader sees that it is still being
 * written. 0 and *out, or -errno with *e. */
int trace_writer_open(const char *path, struct trace_writer **out, struct err *e);

/* One event; everything it points to is copied. The op, frames and stacks behind its pointers must
 * not change or be freed until trace_writer_forget, but that a frame may get its text by the time
 * of an event that it locates (py_stack_where of where_stack). An event too large for a record is
 * written with its values as not decoded. */
int trace_write_event(struct trace_writer *w, const struct op_event *ev);

/* `count` events (or records of them) were lost before `time_ns`. */
int trace_write_lost(struct trace_writer *w, uint64_t time_ns, uint64_t count);

/* How the samples that follow were taken. */
int trace_write_sampling(struct trace_writer *w, const struct sampling *s);

/* One sample; as trace_write_event, for its op, stacks and frames, too. */
int trace_write_sample(struct trace_writer *w, const struct sample *s);

/* `count` samples were lost before `time_ns`. */
int trace_write_samples_lost(struct trace_writer *w, uint64_t time_ns, uint64_t count);

/* The build id (`len` bytes, at most 64) of a file as native frames name it. */
int trace_write_build(struct trace_writer *w, const char *file, const void *id, size_t len);

int trace_write_target(struct trace_writer *w, const struct trace_target *t);

/* Name a thread; may come at any time, again when the name changes. */
int trace_write_thread(struct trace_writer *w, int32_t pid, int32_t tid, const char *name);

int trace_write_stats(struct trace_writer *w, const struct trace_stats *s);

/* To be called before an owner of op_desc, py_frame or py_stack objects frees them, since their
 * addresses may come again for something else. */
void trace_writer_forget(struct trace_writer *w);

/* Call it now and then (CLOCK_MONOTONIC): writes what has waited for 250 ms, so that readers can
 * follow. */
int trace_writer_tick(struct trace_writer *w, uint64_t now_ns);

/* Write what waits now. */
int trace_writer_flush(struct trace_writer *w);

/* Bytes in the file so far. */
uint64_t trace_writer_bytes(const struct trace_writer *w);

/* Write what is left, with the END record when `clean`, and free `w` (may be NULL). 0 or -errno. */
int trace_writer_close(struct trace_writer *w, bool clean);

#endif
