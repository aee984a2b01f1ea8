#define _GNU_SOURCE
#include "tracer/proc/freeze.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "symbolizer/code/arch_x86_64.h"

enum { PENDING = 1 };

/* The tracer is a separate thread: when it exits, the kernel detaches its tracee in whatever state
 * it is (ptrace(2), "Death under ptrace"). There is no other way to give up on a tracee that does
 * not stop. */
struct freeze {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t change;
	pid_t tid;
	unsigned timeout_ms;
	int state; /* PENDING, 0: stopped, -errno */
	bool release;
	int result; /* of PTRACE_DETACH */
	bool has_regs;
	union regs regs;
};

static void sleep_ns(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static uint64_t now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/* Wait for a stop of the tracee. 0 with *status, -ESRCH, -ETIMEDOUT. */
static int wait_stop(pid_t tid, unsigned timeout_ms, int *status)
{
	uint64_t end = now_ms() + timeout_ms;
	for (long pause = 20000;; pause = pause < 1000000 ? 2 * pause : pause) {
		/* __WALL: the tracee is not our child by fork; __WNOTHREAD: only tracees of this
		 * thread. */
		pid_t r = waitpid(tid, status, __WALL | __WNOTHREAD | WNOHANG);
		if (r == tid)
			return WIFSTOPPED(*status) ? 0 : -ESRCH;
		if (r < 0 && errno != EINTR)
			return -ESRCH;
		if (now_ms() >= end)
			return -ETIMEDOUT;
		sleep_ns(pause);
	}
}

/* The signal that PTRACE_DETACH is to deliver. A PTRACE_EVENT_STOP (ours, or of a group-stop, which
 * the kernel restores by itself) suppresses no signal; any other stop of a seized tracee is a
 * signal-delivery-stop. */
static int held_signal(int status)
{
	return status >> 16 ? 0 : WSTOPSIG(status);
}

static int seize(struct freeze *h, int *signal)
{
	int status = 0;
	if (ptrace(PTRACE_SEIZE, h->tid, NULL, NULL))
		return -errno;
	if (ptrace(PTRACE_INTERRUPT, h->tid, NULL, NULL))
		return -errno;
	int r = wait_stop(h->tid, h->timeout_ms, &status);
	*signal = held_signal(status);
	return r;
}

static void freeze_set_state(struct freeze *h, int state)
{
	pthread_mutex_lock(&h->lock);
	h->state = state;
	pthread_cond_broadcast(&h->change);
	pthread_mutex_unlock(&h->lock);
}

static void *tracer_main(void *arg)
{
	struct freeze *h = arg;
	int signal = 0, r = seize(h, &signal);
	h->has_regs = !r && !ptrace(PTRACE_GETREGS, h->tid, NULL, &h->regs.user);
	freeze_set_state(h, r);
	if (r)
		return NULL;
	pthread_mutex_lock(&h->lock);
	while (!h->release)
		pthread_cond_wait(&h->change, &h->lock);
	pthread_mutex_unlock(&h->lock);
	if (ptrace(PTRACE_DETACH, h->tid, NULL, (void *)(long)signal))
		h->result = -errno;
	return NULL;
}

static void freeze_free(struct freeze *h)
{
	pthread_cond_destroy(&h->change);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

int freeze_thread(pid_t tid, unsigned timeout_ms, struct freeze **out)
{
	struct freeze *h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	h->tid = tid;
	h->timeout_ms = timeout_ms;
	h->state = PENDING;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->change, NULL);
	int r = thread_start(&h->thread, tracer_main, h);
	if (r) {
		freeze_free(h);
		return r;
	}
	pthread_mutex_lock(&h->lock);
	while (h->state == PENDING)
		pthread_cond_wait(&h->change, &h->lock);
	r = h->state;
	pthread_mutex_unlock(&h->lock);
	if (r) {
		pthread_join(h->thread, NULL);
		freeze_free(h);
		return r;
	}
	*out = h;
	return 0;
}

const uint64_t *freeze_registers(const struct freeze *h, uint64_t *self)
{
	*self = h->regs.user.fs_base;
	return h->has_regs ? h->regs.word : NULL;
}

int freeze_release(struct freeze *h)
{
	if (!h)
		return 0;
	pthread_mutex_lock(&h->lock);
	h->release = true;
	pthread_cond_broadcast(&h->change);
	pthread_mutex_unlock(&h->lock);
	pthread_join(h->thread, NULL);
	int r = h->result;
	freeze_free(h);
	return r;
}
