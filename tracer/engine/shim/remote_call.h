/* Calls of functions in another process, made by one of its threads, by ptrace(2).
 *
 * Below what the thread has on its stack lies the frame of a signal, as the kernel writes it, with
 * all of the thread's state, and the function returns into rt_sigreturn(2). So whatever becomes of
 * the caller, SIGKILL included, the thread finishes the function and goes on where it was; a system
 * call that was interrupted is then restarted or ends with EINTR, as signal(7) has it. When all
 * goes well the thread is put back by ptrace, and the system call goes on as if nothing had been.
 */
#ifndef TRACER_ENGINE_SHIM_REMOTE_CALL_H
#define TRACER_ENGINE_SHIM_REMOTE_CALL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct remote_call {
	uint64_t function;
	uint64_t sigreturn; /* of remote_call_sigreturn */
	/* Copied to its stack; the address is the first argument (NULL: 0). `size` bytes. */
	const void *data;
	size_t size;
	uint64_t second; /* argument */
};

struct remote_thread;

/* Stop thread `tid`; waits at most `timeout_ms`. 0 and *out, or -errno: -EPERM, -ESRCH, -ETIMEDOUT
 * (when this process ends the thread runs on as if nothing had been done). Until
 * remote_thread_release the calling thread may wait for no other child. */
int remote_thread_stop(pid_t tid, unsigned timeout_ms, struct remote_thread **out);

/* Its registers by enum arch_reg, those of the system call it was in included. */
const uint64_t *remote_thread_regs(const struct remote_thread *t);

/* Have it call. 0 when the function has returned. -EFAULT: it did not, as it made a fault that was
 * not delivered, or there is no room on the stack; -ETIMEDOUT: not within `timeout_ms`, and the
 * thread will finish it by itself; -ESRCH. */
int remote_thread_call(struct remote_thread *t, const struct remote_call *c, unsigned timeout_ms);

/* The same, and *result is what the function returned. While that is fetched, some microseconds,
 * the thread would not survive a SIGKILL of this process. */
int remote_thread_ask(struct remote_thread *t, const struct remote_call *c, unsigned timeout_ms,
		      uint64_t *result);

/* Put the thread back, let it go on, free `t` (NULL allowed). */
void remote_thread_release(struct remote_thread *t);

/* Offset in `code`, `size` bytes of a C library, of the instructions that call rt_sigreturn, as
 * handlers of signals return to (__restore_rt in glibc and musl); -1: there are none. */
ssize_t remote_call_sigreturn(const uint8_t *code, size_t size);

#endif
