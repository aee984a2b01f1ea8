#define _GNU_SOURCE
#include "tracer/proc/seize.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/system.h"
#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/target/process.h"

static bool is_of_ditrace(pid_t tracer)
{
	struct process by;
	return tracer && !process_read(tracer, &by, NULL) && !strncmp(by.comm, "ditrace", 7);
}

int seize_thread(pid_t tid, long options)
{
	enum { SOON_MS = 100, ENDING_MS = 3000 };
	const struct timespec pause = {.tv_nsec = 1000 * 1000};
	struct process p;
	for (unsigned ms = 0;; ms++) {
		if (!ptrace(PTRACE_SEIZE, tid, NULL, (void *)options))
			return 0;
		int r = -errno;
		if (r != -EPERM || process_read(tid, &p, NULL) || p.status.tracer == gettid() ||
		    p.status.state == 'Z')
			return r;
		if (ms >= (is_of_ditrace(p.status.tracer) ? ENDING_MS : SOON_MS))
			return r;
		nanosleep(&pause, NULL);
	}
}

static bool is_delivery(const siginfo_t *info)
{
	bool stopped = info->si_code == CLD_TRAPPED || info->si_code == CLD_STOPPED;
	return stopped && !(info->si_status >> 8);
}

pid_t tracee_wait(pid_t tid, int flags, int *status)
{
	enum { STOPPED = 0x7f };
	siginfo_t info = {0};
	const int how = WEXITED | WSTOPPED | WNOWAIT | __WALL | flags;
	while (waitid(tid > 0 ? P_PID : P_ALL, (id_t)tid, &info, how))
		if (errno != EINTR)
			return -1;
	if (!info.si_pid || !is_delivery(&info))
		return info.si_pid ? waitpid(info.si_pid, status, __WALL) : 0;
	*status = info.si_status << 8 | STOPPED;
	return info.si_pid;
}

/* All threads. */

static bool stop_all_has(const struct stop_all *s, pid_t tid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->thread[i].tid == tid)
			return true;
	return false;
}

static int stop_all_add(struct stop_all *s, pid_t tid, struct err *e)
{
	int r = array_grow(&s->thread, &s->room, s->n + 1, sizeof(*s->thread));
	if (r)
		return err_set(e, r, "no memory");
	r = seize_thread(tid, 0);
	if (!r)
		s->thread[s->n++] = (struct stopped_thread){.tid = tid};
	bool ended = r == -ESRCH || (r && process_thread_ended(s->pid, tid));
	return r && !ended ? process_seize_error(tid, r, e) : 0;
}

/* Seize the threads that are not traced yet; *fresh: there was one. */
static int stop_all_list(struct stop_all *s, bool *fresh, struct err *e)
{
	pid_t *tids;
	ssize_t n = process_threads(s->pid, &tids);
	size_t before = s->n;
	int r = n > 0 ? 0 : process_error(s->pid, n ? (int)n : -ESRCH, "trace", e);
	for (ssize_t i = 0; i < n && !r; i++)
		if (!stop_all_has(s, tids[i]))
			r = stop_all_add(s, tids[i], e);
	if (n > 0)
		free(tids);
	*fresh = s->n > before;
	return r;
}

int stop_all_begin(struct stop_all *s, pid_t pid, struct err *e)
{
	bool fresh;
	*s = (struct stop_all){.pid = pid};
	return stop_all_list(s, &fresh, e);
}

bool stop_all_is_likely(const struct stop_all *s, unsigned timeout_ms)
{
	const uint64_t until = clock_ns(CLOCK_MONOTONIC) + timeout_ms * UINT64_C(1000000);
	for (size_t i = 0; i < s->n; i++)
		while (process_thread_state(s->pid, s->thread[i].tid) == 'D') {
			if (clock_ns(CLOCK_MONOTONIC) >= until)
				return false;
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		}
	return true;
}

static void stop_all_drop(struct stop_all *s, size_t i)
{
	s->thread[i] = s->thread[--s->n];
}

/* Whether the thread has ended; any stop will do. A first thread that has ended while others run is
 * not reported. */
static bool stop_all_look(struct stop_all *s, struct stopped_thread *t, bool closely)
{
	int status;
	pid_t got = tracee_wait(t->tid, WNOHANG, &status);
	if (!got)
		return closely && process_thread_ended(s->pid, t->tid);
	if (got != t->tid || !WIFSTOPPED(status))
		return true;
	t->stands = true;
	/* A PTRACE_EVENT_STOP (ours, or of a group-stop) suppresses no signal. */
	t->signal = status >> 16 ? 0 : WSTOPSIG(status);
	return false;
}

/* Whether some have not stopped yet. */
static bool stop_all_sweep(struct stop_all *s, bool closely)
{
	bool some = false;
	for (size_t i = 0; i < s->n; i++) {
		struct stopped_thread *t = &s->thread[i];
		if (t->stands)
			continue;
		if (stop_all_look(s, t, closely))
			stop_all_drop(s, i--);
		else
			some |= !t->stands;
	}
	return some;
}

static void stop_all_ask(struct stop_all *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct stopped_thread *t = &s->thread[i];
		if (!t->asked)
			ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
		t->asked = true;
	}
}

static int stop_all_await(struct stop_all *s, uint64_t until)
{
	enum { CLOSELY = 16 };
	const struct timespec pause = {.tv_nsec = 20 * 1000};
	for (unsigned turn = 1; stop_all_sweep(s, turn % CLOSELY == 0); turn++) {
		if (clock_ns(CLOCK_MONOTONIC) >= until)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* The last listing was made while all that could have made another thread stood. */
int stop_all(struct stop_all *s, unsigned timeout_ms, struct err *e)
{
	const uint64_t until = clock_ns(CLOCK_MONOTONIC) + timeout_ms * UINT64_C(1000000);
	bool fresh = true;
	int r = 0;
	while (fresh && !r) {
		stop_all_ask(s);
		r = stop_all_await(s, until);
		r = r ? r : stop_all_list(s, &fresh, e);
	}
	return !r && !s->n ? -ESRCH : r;
}

void stop_all_end(struct stop_all *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct stopped_thread *t = &s->thread[i];
		if (t->stands)
			ptrace(PTRACE_DETACH, t->tid, NULL, (void *)(long)t->signal);
	}
	free(s->thread);
	*s = (struct stop_all){0};
}

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
