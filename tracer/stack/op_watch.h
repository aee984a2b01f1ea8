/* For how long a thread has been in a function at least: a breakpoint of the processor counts its
 * entries from some moment on, and a thread that is in it later without one has been since then.
 * Nothing of the process is changed, and it is not stopped (perf_event_open(2),
 * PERF_TYPE_BREAKPOINT); the processor has four of them. */
#ifndef TRACER_STACK_OP_WATCH_H
#define TRACER_STACK_OP_WATCH_H

#include <stdint.h>
#include <sys/types.h>

enum { OP_WATCH_THREADS = 64 };

/* Zero-initialise; free with op_watch_free. */
struct op_watch {
	struct op_watched {
		pid_t tid; /* 0: unused */
		int fd;
		uint64_t entry, since_ns;
	} at[OP_WATCH_THREADS];
	unsigned n;
};

/* Thread `tid` is in the function that begins at address `entry`, and was at `now_ns`
 * (CLOCK_MONOTONIC). For how long it has been at least, in ns; 0: that is not known (yet). It is
 * watched from now on. */
uint64_t op_watch_in(struct op_watch *w, pid_t tid, uint64_t entry, uint64_t now_ns);

void op_watch_free(struct op_watch *w);

#endif
