/* Writing ditrace.data, or a folder of such files, as events come. */
#ifndef PERF_TRACE_TRACE_WRITE_H
#define PERF_TRACE_TRACE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "perf/trace/trace_format.h"
#include "symbolizer/event/event.h"

struct trace_writer;

/* All functions are to be called from one thread. A failed write (disk full) is reported once, as
 * the -errno of that call. From then on every call does nothing and returns 0, and the file keeps
 * its whole blocks. Nothing here blocks except write(2) on the file. */

/* Begin the trace `path`. If it ends with a slash or is a folder, it is a folder, which is made if
 * it is not there: each process gets a file of its own in it, "rank3.data" or, where its rank is
 * not known, "pid-1234.data", once there is a record of it; traces that are there already are kept
 * as "rank3.data.old", unless another ditrace is writing one of them: then these are added to them.
 * Otherwise it is one file, until trace_write_process names a rank.
 *
 * A file replaces what is there (new_file_open); a file is kept as PATH.old
 * (new_file_name_keep). It is locked (flock): the lock
 * tells readers that it is still being written. 0 and *out, or -errno with *e. */
int trace_writer_open(const char *path, struct trace_writer **out, struct err *e);

/* Write one event; everything it points to is copied. Until trace_writer_forget, its op, frames and
 * stacks must not change or be freed, except that a frame may get its text before an event that it
 * locates (py_stack_where of where_stack) is written. If an event is too large for a record, its
 * values are written as not decoded. */
int trace_write_event(struct trace_writer *w, const struct op_event *ev);

/* Write calls that were summed up; everything as for trace_write_event. */
int trace_write_sum(struct trace_writer *w, const struct op_sum *s);

/* Write what a device did; its op, stacks and frames as for trace_write_event. */
int trace_write_done(struct trace_writer *w, const struct work_done *d);
int trace_write_activity(struct trace_writer *w, const struct activity *a);

int trace_write_memory(struct trace_writer *w, const struct memory_event *m);
int trace_write_memory_lost(struct trace_writer *w, int32_t pid, uint64_t time_ns, uint64_t count);

int trace_write_usage(struct trace_writer *w, const struct trace_usage *u);

/* `count` activities of process `pid` were lost before `time_ns`. */
int trace_write_activities_lost(struct trace_writer *w, int32_t pid, uint64_t time_ns,
				uint64_t count);

/* `count` events (or records of them) were lost before `time_ns`. */
int trace_write_lost(struct trace_writer *w, uint64_t time_ns, uint64_t count);

/* How the following samples were taken. */
int trace_write_sampling(struct trace_writer *w, const struct sampling *s);

/* Write one sample; its op, stacks and frames as for trace_write_event. */
int trace_write_sample(struct trace_writer *w, const struct sample *s);

/* `count` samples were lost before `time_ns`. */
int trace_write_samples_lost(struct trace_writer *w, uint64_t time_ns, uint64_t count);

/* The build id (`len` bytes, at most 64) of a file that native frames name. */
int trace_write_build(struct trace_writer *w, const char *file, const void *id, size_t len);

int trace_write_target(struct trace_writer *w, const struct trace_target *t);

/* What process p->pid is, before any other record of it, and again when another process has that
 * PID. A worker's records go into the file of its rank. With the first process of several ranks one
 * file becomes a folder of that name: what it holds so far goes on as a file in it, or is removed
 * if it has no events. */
int trace_write_process(struct trace_writer *w, const struct trace_process *p);

/* It stays one file, whatever is traced, unless it is a folder already. */
void trace_writer_one_file(struct trace_writer *w);

/* Whether there is a file for what is of this process: in a folder only after its first record. */
bool trace_writer_has_file(struct trace_writer *w, int32_t pid);

/* How many files the folder has; 0: it is one file. */
size_t trace_writer_files(const struct trace_writer *w);

/* Name a thread; at any time, and again when the name changes. */
int trace_write_thread(struct trace_writer *w, int32_t pid, int32_t tid, const char *name);

/* The options that leave ops out of the file, as on a command line. */
int trace_write_chosen(struct trace_writer *w, const char *options);

int trace_write_stats(struct trace_writer *w, const struct trace_stats *s);

/* Call it before op_desc, py_frame or py_stack objects are freed: other objects may take their
 * addresses. */
void trace_writer_forget(struct trace_writer *w);

/* Call it regularly (CLOCK_MONOTONIC): writes what has waited for 250 ms, so that readers can
 * follow. */
int trace_writer_tick(struct trace_writer *w, uint64_t now_ns);

/* Whether PATH.old is the file that was there. */
bool trace_writer_kept_old(const struct trace_writer *w);

/* Write what is buffered. A folder without files gets one, so that it tells what was traced. */
int trace_writer_flush(struct trace_writer *w);

/* Bytes in the file so far. */
uint64_t trace_writer_bytes(const struct trace_writer *w);

/* Write what is buffered, with the END record if `clean`, and free `w` (may be NULL). 0 or -errno.
 */
int trace_writer_close(struct trace_writer *w, bool clean);

#endif
