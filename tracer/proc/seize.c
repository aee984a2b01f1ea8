#define _GNU_SOURCE
#include "tracer/proc/seize.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
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
