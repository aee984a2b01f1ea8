/* What a process uses of the machine, by /proc (proc(5)). */
#ifndef TRACER_PROC_USAGE_H
#define TRACER_PROC_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Since the process began, but for those that are of the moment. */
struct usage {
	uint64_t at_ns;		/* CLOCK_MONOTONIC, when it was read */
	uint64_t start_ticks;	/* when the process began: with its number an identity */
	uint64_t cpu_ns;	/* of all threads, those that have ended, too; clock ticks apart */
	uint64_t rss, peak;	/* resident memory now, and the most there was; bytes */
	uint64_t threads;	/* now */
	uint64_t fds;		/* open now */
	uint64_t read, written; /* bytes that read(2), write(2) and the like moved */
	uint64_t switches;	/* of the threads that are there now */
	bool has_fds, has_io;	/* this user may know them */
};

/* Of these at_ns, start_ticks, cpu_ns, rss (to some pages) and threads, by one read. False when the
 * process is not there. */
bool usage_read_stat(pid_t pid, struct usage *out);

/* 0; -ESRCH with *e when it has ended; -EPERM with *e when nothing of it may be read. */
int usage_read(pid_t pid, struct usage *out, struct err *e);

#endif
