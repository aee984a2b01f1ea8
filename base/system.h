/* What ditrace asks of the kernel for itself: the time, threads, its limit on open files, and that
 * files may become shorter while they are mapped. */
#ifndef BASE_SYSTEM_H
#define BASE_SYSTEM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"

/* Times in nanoseconds. */

/* The time of `clock` (CLOCK_MONOTONIC ...). */
static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Which CLOCK_MONOTONIC this process has: times of processes with the same one can be compared. It
 * is the boot id of the kernel, whose first 8 bytes are XORed with the offset in ns that the time
 * namespace adds (time_namespaces(7)). Zeros if that cannot be read. */
void clock_identify(uint8_t out[16]);

/* Threads of this process, which are started so that they disturb neither the program nor its own
 * handling of signals. */

/* pthread_create(3) of a joinable thread in which all signals are blocked, so that it handles none
 * of this process's. 0 or -errno. */
int thread_start(pthread_t *out, void *(*fn)(void *arg), void *arg);

/* Raise the scheduling priority of the calling thread, as far as the user may: to nice -10, which
 * threads and processes that it starts afterwards inherit (setpriority(2)), or, if `realtime`, to
 * the lowest of SCHED_RR, which they do not, and else to nice -10. */
void thread_hurry(bool realtime);

/* The limit on open files (RLIMIT_NOFILE, getrlimit(2)). */

/* Raise this process's limit as far as it may. Call it once, before there are threads. */
void file_limit_raise(void);

/* Set it back to what it was before that: for what is started, in the child before exec.
 * Async-signal-safe. */
void file_limit_restore(void);

/* 0 when `n` files can be open; -EMFILE with *e. */
int file_limit_check(unsigned n, struct err *e);

/* Files that become shorter while they are mapped. */

/* From now on, and in children, an access beyond the end of such a file does not end the process
 * (SIGBUS, mmap(2)): it reads zeros, as all parsers must bear. `otherwise`, unless NULL, is called
 * for a SIGBUS that has another cause, before the default action follows; it may only do what is
 * async-signal-safe. */
void bus_guard(void (*otherwise)(int sig));

/* Whether that has happened in this process. */
bool bus_read_zeros(void);

#endif
