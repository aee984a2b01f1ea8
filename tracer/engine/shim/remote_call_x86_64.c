#define _GNU_SOURCE
#include "tracer/engine/shim/internal.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "base/system.h"
#include "symbolizer/code/arch_x86_64.h"
#include "tracer/proc/seize.h"

enum { XSTATE_MOST = 16 << 10, SYSCALL_STOP = SIGTRAP | 0x80, CS_64 = 0x33, NO_SYSCALL = -1 };
/* Return values by which the kernel marks an interrupted system call for restart (Linux,
 * include/linux/errno.h). */
enum { RESTARTSYS = 512, RESTARTNOINTR = 513, RESTARTNOHAND = 514, RESTART_BLOCK = 516 };

/* mov $15, %rax; syscall */
static const uint8_t sigreturn_code[] = {0x48, 0xc7, 0xc0, SYS_rt_sigreturn, 0, 0, 0, 0x0f, 0x05};
enum { SYSCALL_AT = 7 };

/* The beginning of struct rt_sigframe (Linux, arch/x86/include/asm/sigframe.h); the kernel uses
 * only the first word of uc_sigmask. */
struct frame {
	uint64_t restorer;
	ucontext_t uc;
};

/* At offset 464 of the extended state (Linux, arch/x86/include/uapi/asm/sigcontext.h, struct
 * _fpx_sw_bytes); NT_X86_XSTATE of ptrace has the feature mask there. */
struct sw_bytes {
	uint32_t magic, extended_size;
	uint64_t features;
	uint32_t size, padding[7];
};
enum { SW_AT = 464, XSTATE_BV_AT = 512, MAGIC1 = 0x46505853U, MAGIC2 = 0x46505845U };
enum { UC_XSTATE = 1, UC_SS = 2, UC_STRICT_SS = 4, NO_ALTSTACK_CHANGE = 7 };
enum { AMX = 3 << 17 };

struct remote_thread {
	pid_t tid;
	union regs regs;
	uint64_t mask; /* of blocked signals */
	size_t xsize;
	uint64_t frame; /* address of the signal frame it will return through; 0: none */
	_Alignas(64) uint8_t xstate[XSTATE_MOST];
};

ssize_t remote_call_sigreturn(const uint8_t *code, size_t size)
{
	const uint8_t *p = memmem(code, size, sigreturn_code, sizeof(sigreturn_code));
	return p ? p - code : -1;
}

const uint64_t *remote_thread_regs(const struct remote_thread *t)
{
	return t->regs.word;
}

/* The next stop. 0, -ESRCH, -ETIMEDOUT. */
static int wait_stop(pid_t tid, uint64_t until, int *status)
{
	for (long pause = 10000;; pause = pause < 1000000 ? 2 * pause : pause) {
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);
		if (got == tid)
			return WIFSTOPPED(*status) ? 0 : -ESRCH;
		if (got < 0 && errno != EINTR)
			return -ESRCH;
		if (clock_ns(CLOCK_MONOTONIC) >= until)
			return -ETIMEDOUT;
		nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
	}
}

static uint64_t after_ms(unsigned ms)
{
	return clock_ns(CLOCK_MONOTONIC) + ms * 1000000ULL;
}

static bool is_event(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP;
}

/* Wait for our PTRACE_EVENT_STOP; signals that come first are delivered. */
static int wait_event(pid_t tid, uint64_t until)
{
	int status, r;
	while (!(r = wait_stop(tid, until, &status)) && !is_event(status)) {
		int sig = status >> 16 || WSTOPSIG(status) == SYSCALL_STOP ? 0 : WSTOPSIG(status);
		if (ptrace(PTRACE_CONT, tid, NULL, (void *)(long)sig))
			return -errno;
	}
	return r;
}

static int save(struct remote_thread *t)
{
	struct iovec regs = {&t->regs, sizeof(t->regs)}, x = {t->xstate, sizeof(t->xstate)};
	if (ptrace(PTRACE_GETREGSET, t->tid, (void *)NT_PRSTATUS, &regs) ||
	    ptrace(PTRACE_GETREGSET, t->tid, (void *)NT_X86_XSTATE, &x) ||
	    ptrace(PTRACE_GETSIGMASK, t->tid, (void *)sizeof(t->mask), &t->mask))
		return -errno;
	if (regs.iov_len != sizeof(t->regs) || t->regs.user.cs != CS_64 ||
	    x.iov_len < XSTATE_BV_AT + 64 || x.iov_len > sizeof(t->xstate) - 64)
		return -ENOTSUP;
	t->xsize = x.iov_len;
	return 0;
}

int remote_thread_stop(pid_t tid, unsigned timeout_ms, struct remote_thread **out)
{
	struct remote_thread *t = aligned_alloc(64, sizeof(*t));
	if (!t)
		return -ENOMEM;
	memset(t, 0, sizeof(*t));
	t->tid = tid;
	int r = seize_thread(tid, PTRACE_O_TRACESYSGOOD);
	if (!r && ptrace(PTRACE_INTERRUPT, tid, NULL, NULL))
		r = -errno;
	r = r ? r : wait_event(tid, after_ms(timeout_ms));
	if (!r && (r = save(t)))
		ptrace(PTRACE_DETACH, tid, NULL, NULL);
	if (r) {
		free(t);
		return r;
	}
	*out = t;
	return 0;
}

/* Bytes of the state needed for *features. AMX state is left out unless it is in use: a thread may
 * have it only after asking for it. */
static uint32_t needed(const struct remote_thread *t, uint64_t *features)
{
	uint64_t in_use;
	uint32_t most = XSTATE_BV_AT + 64;
	memcpy(&in_use, t->xstate + XSTATE_BV_AT, sizeof(in_use));
	memcpy(features, t->xstate + SW_AT, sizeof(*features));
	*features &= ~(uint64_t)AMX | in_use;
	for (unsigned i = 2; i < 63; i++) {
		uint32_t size, at, c, d;
		if (!(*features >> i & 1) || !__get_cpuid_count(0xd, i, &size, &at, &c, &d))
			continue;
		most = at + size > most && at + size <= t->xsize ? at + size : most;
	}
	return most;
}

/* The registers that a signal handler would return to, with the restart of a system call. */
static void set_interrupted(const struct remote_thread *t, greg_t *g)
{
	const struct user_regs_struct *u = &t->regs.user;
	long result = (long)u->rax;
	g[REG_R8] = (greg_t)u->r8, g[REG_R9] = (greg_t)u->r9, g[REG_R10] = (greg_t)u->r10;
	g[REG_R11] = (greg_t)u->r11, g[REG_R12] = (greg_t)u->r12, g[REG_R13] = (greg_t)u->r13;
	g[REG_R14] = (greg_t)u->r14, g[REG_R15] = (greg_t)u->r15, g[REG_RDI] = (greg_t)u->rdi;
	g[REG_RSI] = (greg_t)u->rsi, g[REG_RBP] = (greg_t)u->rbp, g[REG_RBX] = (greg_t)u->rbx;
	g[REG_RDX] = (greg_t)u->rdx, g[REG_RCX] = (greg_t)u->rcx, g[REG_RSP] = (greg_t)u->rsp;
	g[REG_EFL] = (greg_t)u->eflags;
	g[REG_CSGSFS] = (greg_t)(u->cs | u->ss << 48);
	g[REG_RAX] = (greg_t)u->rax, g[REG_RIP] = (greg_t)u->rip;
	if ((long)u->orig_rax < 0)
		return;
	if (result == -RESTARTSYS || result == -RESTARTNOINTR) {
		g[REG_RAX] = (greg_t)u->orig_rax;
		g[REG_RIP] -= 2; /* the length of syscall */
	} else if (result == -RESTARTNOHAND || result == -RESTART_BLOCK) {
		g[REG_RAX] = -EINTR;
	}
}

static int write_to(const struct remote_thread *t, uint64_t at, const void *data, size_t n)
{
	struct iovec ours = {(void *)data, n}, its = {(void *)(uintptr_t)at, n};
	if (!n)
		return 0;
	return process_vm_writev(t->tid, &ours, 1, &its, 1, 0) == (ssize_t)n ? 0 : -EFAULT;
}

/* Data, extended state and frame, downwards. The end of the frame is aligned as a call wants. */
static int write_frame(const struct remote_thread *t, const struct remote_call *c,
		       uint64_t restorer, uint64_t *data, uint64_t *at)
{
	const uint32_t magic2 = MAGIC2;
	struct sw_bytes sw = {.magic = MAGIC1};
	struct frame f = {.restorer = restorer};
	uint8_t x[XSTATE_MOST];
	sw.size = needed(t, &sw.features);
	sw.extended_size = sw.size + (uint32_t)sizeof(magic2);
	memcpy(x, t->xstate, sw.size);
	memcpy(x + SW_AT, &sw, sizeof(sw));
	memcpy(x + sw.size, &magic2, sizeof(magic2));
	*data = (t->regs.user.rsp - ARCH_RED_ZONE - c->size) & ~15ULL;
	uint64_t xstate = (*data - sw.extended_size) & ~63ULL;
	*at = ((xstate - sizeof(f)) & ~15ULL) - 8;
	f.uc.uc_flags = UC_XSTATE | UC_SS | UC_STRICT_SS;
	f.uc.uc_stack.ss_flags = NO_ALTSTACK_CHANGE;
	set_interrupted(t, f.uc.uc_mcontext.gregs);
	f.uc.uc_mcontext.fpregs = (fpregset_t)(uintptr_t)xstate;
	memcpy(&f.uc.uc_sigmask, &t->mask, sizeof(t->mask));
	int r = write_to(t, *data, c->data, c->size);
	r = r ? r : write_to(t, xstate, x, sw.extended_size);
	return r ? r : write_to(t, *at, &f, sizeof(f));
}

/* All but faults: a fault whose signal is blocked would kill, its handler being reset. */
static int block_signals(const struct remote_thread *t)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
	uint64_t mask = ~0ULL;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		mask &= ~(1ULL << (faults[i] - 1));
	return ptrace(PTRACE_SETSIGMASK, t->tid, (void *)sizeof(mask), &mask) ? -errno : 0;
}

static int set_regs(const struct remote_thread *t, const union regs *regs)
{
	struct iovec v = {(void *)regs, sizeof(*regs)};
	return ptrace(PTRACE_SETREGSET, t->tid, (void *)NT_PRSTATUS, &v) ? -errno : 0;
}

static int get_regs(const struct remote_thread *t, union regs *regs)
{
	struct iovec v = {regs, sizeof(*regs)};
	return ptrace(PTRACE_GETREGSET, t->tid, (void *)NT_PRSTATUS, &v) ? -errno : 0;
}

static int remote_start(struct remote_thread *t, const struct remote_call *c, uint64_t restorer)
{
	uint64_t data;
	union regs regs = t->regs;
	int r = write_frame(t, c, restorer, &data, &t->frame);
	if (r) {
		t->frame = 0;
		return r;
	}
	regs.user.rsp = t->frame;
	regs.user.rip = c->function;
	regs.user.rdi = c->data ? data : 0;
	regs.user.rsi = c->second;
	regs.user.rax = 0;
	regs.user.orig_rax = (unsigned long long)NO_SYSCALL;
	regs.user.eflags &= ~0x400ULL; /* the direction flag */
	r = set_regs(t, &regs);
	return r ? r : block_signals(t);
}

/* The function has returned and the thread enters rt_sigreturn, or, for remote_thread_ask, the
 * system call whose number is the result. */
static bool has_returned(const struct remote_thread *t, const union regs *regs, uint64_t sigreturn)
{
	return regs->user.rip == sigreturn + sizeof(sigreturn_code) &&
	       regs->user.rsp == t->frame + 8;
}

/* Bring the thread to a stop where it can be restored: before that call, which it would still make.
 */
static int settle(struct remote_thread *t, union regs *regs, uint64_t sigreturn)
{
	regs->user.rip = sigreturn;
	regs->user.orig_rax = (unsigned long long)NO_SYSCALL;
	int r = set_regs(t, regs);
	if (r || ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL) ||
	    ptrace(PTRACE_CONT, t->tid, NULL, NULL))
		return r ? r : -errno;
	return wait_event(t->tid, after_ms(10000));
}

static int remote_run(struct remote_thread *t, uint64_t sigreturn, unsigned timeout_ms,
		      uint64_t *result)
{
	uint64_t until = after_ms(timeout_ms);
	union regs regs;
	int status, r;
	long deliver = 0;
	while (!ptrace(PTRACE_SYSCALL, t->tid, NULL, (void *)deliver)) {
		r = wait_stop(t->tid, until, &status);
		if (r == -ETIMEDOUT) {
			/* It finishes on its own. */
			ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
			if (!wait_event(t->tid, after_ms(1000)))
				ptrace(PTRACE_DETACH, t->tid, NULL, NULL);
			t->tid = 0;
		}
		if (r)
			return r;
		/* No mask holds SIGSTOP back. Once it is delivered the process counts as stopped,
		 * as this thread does from its release on. */
		deliver = status >> 16 || WSTOPSIG(status) != SIGSTOP ? 0 : SIGSTOP;
		if (deliver || is_event(status))
			continue;
		if (WSTOPSIG(status) != SYSCALL_STOP)
			return -EFAULT;
		r = get_regs(t, &regs);
		if (r)
			return r;
		if (!has_returned(t, &regs, sigreturn))
			continue;
		*result = regs.user.orig_rax;
		return settle(t, &regs, sigreturn);
	}
	return -errno;
}

int remote_thread_call(struct remote_thread *t, const struct remote_call *c, unsigned timeout_ms)
{
	uint64_t result;
	int r = remote_start(t, c, c->sigreturn);
	return r ? r : remote_run(t, c->sigreturn, timeout_ms, &result);
}

int remote_thread_ask(struct remote_thread *t, const struct remote_call *c, unsigned timeout_ms,
		      uint64_t *result)
{
	int r = remote_start(t, c, c->sigreturn + SYSCALL_AT);
	return r ? r : remote_run(t, c->sigreturn, timeout_ms, result);
}

/* The registers go last: until then the thread would return through the frame. */
void remote_thread_release(struct remote_thread *t)
{
	if (!t)
		return;
	if (t->tid) {
		struct iovec x = {t->xstate, t->xsize};
		if (t->frame) {
			ptrace(PTRACE_SETSIGMASK, t->tid, (void *)sizeof(t->mask), &t->mask);
			ptrace(PTRACE_SETREGSET, t->tid, (void *)NT_X86_XSTATE, &x);
			set_regs(t, &t->regs);
		}
		ptrace(PTRACE_DETACH, t->tid, NULL, NULL);
	}
	free(t);
}
