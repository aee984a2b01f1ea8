/* Follows a tree of processes to find those worth tracing: which processes exist, and which files
 * they map for execution. Uses records of perf_event_open(2), without ptrace and without stopping
 * anything. */
#ifndef TRACER_PROC_FOLLOW_H
#define TRACER_PROC_FOLLOW_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/target/maps.h"

enum follow_kind {
	FOLLOW_MAP,  /* `path` was mapped for execution */
	FOLLOW_FORK, /* process `pid` is new; its parent is `parent`, 0 if unknown */
	FOLLOW_EXEC, /* `pid` has called exec for the program `path`; its mappings are gone */
	FOLLOW_EXIT, /* process `pid` has exited with all its threads; always its last event */
	FOLLOW_LEFT, /* from an engine: `pid`, a child of `parent`, could not be taken over */
	FOLLOW_LOST, /* events may have been lost: check /proc for what they reported */
};

struct follow_event {
	enum follow_kind kind;
	pid_t pid, tid; /* in ditrace's PID namespace */
	pid_t parent;
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0 for FOLLOW_EXIT */
	const char *path; /* as the target sees it; "": none; valid during the call */
};

/* Called in the order of events. An event may be reported more than once. */
typedef void follow_fn(const struct follow_event *ev, void *arg);

struct follow;

/* 0 and *out (free with follow_free), or -errno with *e. */
int follow_new(struct follow **out, struct err *e);

/* Follow a child that has not called exec yet (spawn_prepare) from that exec on, with all its
 * descendants. 0; -EACCES with *e if perf_event_open is not permitted (kernel.perf_event_paranoid
 * above 2, seccomp); or -errno with *e. */
int follow_add_child(struct follow *f, pid_t child, struct err *e);

/* Follow process `pid` with the threads and processes that it creates from now on, but not its
 * existing children. If there are too many threads for one event per thread and CPU, events are
 * system-wide and filtered here, which needs CAP_PERFMON. 0 or -errno with *e. */
int follow_add_process(struct follow *f, pid_t pid, struct err *e);

/* A descriptor that becomes readable when follow_read has events. */
int follow_fd(const struct follow *f);

/* Call `fn` for the events since the last call; never blocks. Returns the number of calls or
 * -errno. `fn` may call follow_add_process. */
int follow_read(struct follow *f, follow_fn *fn, void *arg);

/* After FOLLOW_LOST: the followed processes, plus those children of theirs found in /proc that were
 * not reported and are younger than `f`; from now on these are followed, too. Returns their number,
 * with *out from malloc, or -errno. */
ssize_t follow_processes(struct follow *f, pid_t **out);

void follow_free(struct follow *f); /* NULL allowed */

/* perf_rings.c: records of task events from perf_event_open(2): one buffer per CPU, merged in order
 * of time. */

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

/* `hz`, or the kernel's limit if that is lower (kernel.perf_event_max_sample_rate), which it lowers
 * by itself while samples take long. */
uint64_t perf_rate_within(uint64_t hz);

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
