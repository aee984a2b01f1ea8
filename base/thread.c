#define _GNU_SOURCE
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

int thread_start(pthread_t *out, void *(*fn)(void *arg), void *arg)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int r = pthread_create(out, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

void thread_hurry(bool realtime)
{
	enum { NICE = -10 };
	const struct sched_param p = {.sched_priority = sched_get_priority_min(SCHED_RR)};
	if (!realtime || sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &p))
		setpriority(PRIO_PROCESS, 0, NICE);
}
