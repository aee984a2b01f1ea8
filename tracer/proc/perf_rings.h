/* Records of what tasks do, from perf_event_open(2): one buffer for each CPU, read in the order of
 * time. */
#ifndef TRACER_PROC_PERF_RINGS_H
#define TRACER_PROC_PERF_RINGS_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "symbolizer/target/maps.h"

struct perf_rings;

/* Let the process have as many open files as it may; false when it has that already. */
bool raise_fd_limit(void);

/* The buffers poll readable in `epoll` with data.u64 0. 0 and *out (free with perf_rings_free), or
 * -ENOMEM. */
int perf_rings_new(int epoll, struct perf_rings **out);

/* Record executable mappings, names, forks and ends of thread `tid` and of all threads and
 * processes that it makes from now on; with `on_exec` only once it execs. tid -1: of the whole
 * machine, which needs CAP_PERFMON. 0 or -errno as of perf_event_open(2). */
int perf_rings_add(struct perf_rings *p, pid_t tid, bool on_exec);

/* From now on add events that take samples besides: `attr` has their type, config, frequency, what
 * a sample holds beside PERF_SAMPLE_TID | PERF_SAMPLE_TIME (no PERF_SAMPLE_IP, and nothing that
 * comes between those two or follows the time at the end of other records), exclude_kernel and
 * build_id. For buffers with more room, as far as the user may have it. */
void perf_rings_sampling(struct perf_rings *p, const struct perf_event_attr *attr);

/* From then on also with the eBPF program with descriptor `program`, which runs as each is taken.
 */
void perf_rings_program(struct perf_rings *p, int program);

/* How many CPUs there are: events that perf_rings_add opens. */
unsigned perf_rings_cpus(const struct perf_rings *p);

/* `time` is CLOCK_MONOTONIC in ns; the record is valid during the call, and the call may add. */
typedef void perf_record_fn(const struct perf_event_header *h, uint64_t time, void *arg);

/* Hand over the records made until now, by time. *full: a buffer had no room left, and some may be
 * missing that no PERF_RECORD_LOST tells of yet. 0 or -ENOMEM. */
int perf_rings_read(struct perf_rings *p, perf_record_fn *fn, void *arg, bool *full);

void perf_rings_free(struct perf_rings *p); /* NULL allowed */

/* A PERF_RECORD_MMAP2 of perf_event_open(2): a process has mapped something to execute. */

struct perf_mmap {
	pid_t pid, tid;
	/* What is mapped: of a file either its inode and device, or its build id. `path` is in the
	 * record, "" of memory that is in no file. */
	struct mapping map;
};

/* Take the record apart: `h` and h->size - sizeof(*h) bytes behind it, any bytes. False: it is no
 * such record, or makes no sense. */
bool perf_mmap_parse(const struct perf_event_header *h, struct perf_mmap *out);

#endif
