/* Records of task events from perf_event_open(2): one buffer per CPU, merged in order of time. */
#ifndef TRACER_PROC_PERF_RINGS_H
#define TRACER_PROC_PERF_RINGS_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "symbolizer/target/maps.h"

struct perf_rings;

/* `epoll` reports the buffers as readable with data.u64 0. 0 and *out (free with perf_rings_free),
 * or -ENOMEM. */
int perf_rings_new(int epoll, struct perf_rings **out);

/* Record executable mappings, names, forks and exits of thread `tid` and of all threads and
 * processes that it creates from now on; with `on_exec`, only once it calls exec. tid -1 means the
 * whole machine and needs CAP_PERFMON. 0 or -errno of perf_event_open(2). */
int perf_rings_add(struct perf_rings *p, pid_t tid, bool on_exec);

/* Make events added from now on also take samples: `attr` has their type, config, frequency,
 * exclude_kernel, build_id, and the contents of a sample besides PERF_SAMPLE_TID | PERF_SAMPLE_TIME
 * (not PERF_SAMPLE_IP, and nothing placed between those two or, at the end of other records, after
 * the time). Buffers are then larger, as far as the user's limit allows. */
void perf_rings_sampling(struct perf_rings *p, const struct perf_event_attr *attr);

/* Make these events also run the eBPF program with descriptor `program` at each sample. */
void perf_rings_program(struct perf_rings *p, int program);

/* The number of CPUs, which is the number of events that perf_rings_add opens. */
unsigned perf_rings_cpus(const struct perf_rings *p);

/* `time` is CLOCK_MONOTONIC in ns; the record is valid during the call, which may call
 * perf_rings_add. */
typedef void perf_record_fn(const struct perf_event_header *h, uint64_t time, void *arg);

/* Pass on all records written so far, in order of time. *full: a buffer was full, so records may be
 * lost that no PERF_RECORD_LOST reports yet. 0 or -ENOMEM. */
int perf_rings_read(struct perf_rings *p, perf_record_fn *fn, void *arg, bool *full);

void perf_rings_free(struct perf_rings *p); /* NULL allowed */

/* A PERF_RECORD_MMAP2 of perf_event_open(2): a process has mapped memory for execution. */

struct perf_mmap {
	pid_t pid, tid;
	/* A mapping of a file has either its inode and device, or its build ID. `path` points into
	 * the record; "" for anonymous memory. */
	struct mapping map;
};

/* Parse a record of h->size arbitrary bytes. False if it is of another type or malformed. */
bool perf_mmap_parse(const struct perf_event_header *h, struct perf_mmap *out);

#endif
