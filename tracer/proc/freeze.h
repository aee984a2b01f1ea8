/* Stops a single thread for a moment, by ptrace(2), while probes are placed or its stack is copied.
 */
#ifndef TRACER_PROC_FREEZE_H
#define TRACER_PROC_FREEZE_H

#include <stdint.h>
#include <sys/types.h>

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
