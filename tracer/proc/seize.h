/* Threads traced by ptrace(2), of any process, and how to wait for them. */
#ifndef TRACER_PROC_SEIZE_H
#define TRACER_PROC_SEIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* PTRACE_SEIZE with `options` (PTRACE_O_...), which stops nothing. A thread that another process of
 * a ditrace traces is waited for, as that may have been killed and be leaving. 0 or -errno; -EPERM
 * also when the calling thread traces it already. */
int seize_thread(pid_t tid, long options);

/* As waitpid(2) with __WALL and `flags` for tracee `tid` (-1: any), but a signal-delivery-stop is
 * left to be waited for again until the thread is resumed: if this process is killed before that,
 * the kernel delivers the signal; once a stop has been waited for, the signal is lost then
 * (kernel/exit.c, wait_task_stopped; kernel/signal.c, ptrace_stop). */
pid_t tracee_wait(pid_t tid, int flags, int *status);

/* All threads of a process, stopped for a moment. */

struct stopped_thread {
	pid_t tid;
	bool asked, stands;
	int signal; /* to deliver when it goes on */
};

struct stop_all {
	pid_t pid;
	struct stopped_thread *thread;
	size_t n, room;
};

/* Seize all threads of process `pid`, which run on. Call stop_all_end whatever it returns: 0, or
 * -errno with *e. */
int stop_all_begin(struct stop_all *s, pid_t pid, struct err *e);

/* Wait, while they run, until each has been seen not to sleep uninterruptibly, as in vfork(2), or
 * on a disk: such a thread does not stop. False: not within `timeout_ms`. */
bool stop_all_is_likely(const struct stop_all *s, unsigned timeout_ms);

/* Stop them all, and those that have been made since. 0; -ETIMEDOUT: some did not stop within
 * `timeout_ms` (uninterruptible sleep, a parent in vfork(2)), and the calling thread must end soon,
 * as that alone lets them go; -ESRCH: the process has ended; or -errno with *e. System calls and
 * group-stops as freeze_thread says. */
int stop_all(struct stop_all *s, unsigned timeout_ms, struct err *e);

/* Let all that stand go on, with the signals that have come for them, and free what `s` has. */
void stop_all_end(struct stop_all *s);

/* Stops a single thread for a moment, by ptrace(2), while probes are placed or its stack is copied.
 */

struct freeze;

/* Stop thread `tid` as soon as it is in user space or leaves a system call, without sending a
 * signal to the process; its other threads run on. Waits at most `timeout_ms`. 0 and *out (resume
 * with freeze_release); -EPERM if this user may not trace it or it is already traced; -ESRCH if it
 * has exited; -ETIMEDOUT if it did not stop (uninterruptible sleep), in which case it runs on
 * undisturbed; or -errno.
 *
 * If ditrace dies, the kernel resumes the thread. Signals that arrive meanwhile are delivered on
 * release; a process in group-stop (SIGSTOP) stays in it. Until the release no thread of ditrace
 * may wait for the process with waitpid(2): it could consume the stop. The few system calls that
 * fail with EINTR after a stop (epoll_wait and others, signal(7)) do so here, too. */
int freeze_thread(pid_t tid, unsigned timeout_ms, struct freeze **out);

/* The registers of the stopped thread: ARCH_REGS words by enum arch_reg
 * (symbolizer/code/arch_x86_64.h); its pthread_self() in *self. Owned by `h`; NULL if they could
 * not be read. */
const uint64_t *freeze_registers(const struct freeze *h, uint64_t *self);

/* Resume the thread and free `h` (NULL allowed). 0, or -ESRCH if it was killed meanwhile. */
int freeze_release(struct freeze *h);

#endif
