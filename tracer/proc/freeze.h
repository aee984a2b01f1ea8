/* Holding one thread still for a moment, by ptrace(2), while probes are put in or its stack is
 * copied.
 */
#ifndef TRACER_PROC_FREEZE_H
#define TRACER_PROC_FREEZE_H

#include <stdint.h>
#include <sys/types.h>

struct freeze;

/* Stop thread `tid` at the next instant at which it is in user space or leaves a system call,
 * without a signal to the process; the other threads run on. Waits for that at most `timeout_ms`. 0
 * and *out (let it go with freeze_release); -EPERM when this user may not trace it, or somebody
 * else does; -ESRCH when it has ended; -ETIMEDOUT when it did not stop (it is in an uninterruptible
 * sleep), and it runs on then as if nothing had been done; -errno.
 *
 * If ditrace dies the kernel lets the thread go. A signal that comes meanwhile is delivered at the
 * release; a process that was stopped (SIGSTOP) stays so. Meanwhile no thread of ditrace may wait
 * for the held process with waitpid(2): it could take the notice of the stop. The few system calls
 * that a stop ends with EINTR (epoll_wait and others, signal(7)) do so here, too. */
int freeze_thread(pid_t tid, unsigned timeout_ms, struct freeze **out);

/* Its registers as it was stopped: ARCH_REGS words by enum arch_reg
 * (symbolizer/code/arch_x86_64.h), and in *self what pthread_self() is for it. NULL when they could
 * not be read. */
const uint64_t *freeze_registers(const struct freeze *h, uint64_t *self);

/* Let it go on. 0, or -ESRCH when it was killed meanwhile. Frees `h`; NULL allowed. */
int freeze_release(struct freeze *h);

#endif
