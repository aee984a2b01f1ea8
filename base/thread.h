/* Threads of this process, which are started so that they disturb neither the program nor its own
 * handling of signals. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* pthread_create(3) of a joinable thread in which all signals are blocked, so that it handles none
 * of this process's. 0 or -errno. */
int thread_start(pthread_t *out, void *(*fn)(void *arg), void *arg);

/* Raise the scheduling priority of the calling thread, as far as the user may: to nice -10, which
 * threads and processes that it starts afterwards inherit (setpriority(2)), or, if `realtime`, to
 * the lowest of SCHED_RR, which they do not, and else to nice -10. */
void thread_hurry(bool realtime);

#endif
