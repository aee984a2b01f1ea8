#define _GNU_SOURCE
#include "tracer/engine/ptrace/trap_page.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

/* Offsets in what a handler is given: siginfo_t in rsi, ucontext_t in rdx. */
static_assert(offsetof(siginfo_t, si_code) == 8 && offsetof(siginfo_t, si_addr) == 16 &&
		  offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]) == 168 &&
		  offsetof(ucontext_t, uc_mcontext.gregs[REG_EFL]) == 176,
	      "struct of signals");
static_assert(SYS_open == 2 && SYS_close == 3 && SYS_rt_sigaction == 13 && SYS_rt_sigreturn == 15 &&
		  SYS_pread64 == 17 && SYS_pwrite64 == 18 && SYS_sched_yield == 24 &&
		  SYS_getpid == 39 && SYS_gettid == 186 && SYS_tgkill == 234 &&
		  SYS_restart_syscall == 219,
	      "numbers of system calls");

/* The handler, at the start of the page. After int3 (SI_KERNEL) rip is one further than the
 * breakpoint, or is the breakpoint if the tracing process has already set the thread back. Where
 * both would be breakpoints, it has said which one it is in si_addr (tracee_hit.c, set_back), which
 * the kernel leaves 0 (arch/x86/kernel/traps.c, do_int3; kernel/signal.c, force_sig). The byte may
 * be restored already. With it all others are, as a thread that blocks SIGTRAP would be killed at
 * one. If none can be restored from here, it is tried again until ditrace-keeper has. At a
 * single-step that ptrace ordered the kernel has taken TF back by now (handle_signal,
 * user_disable_single_step). rbx, rbp, r12 survive system calls. */
__asm__(".pushsection .rodata\n"
	".balign 16\n"
	"trap_handler:\n"
	"	cmpl $0x80, 8(%rsi)\n"
	"	jne 4f\n"
	"	mov 168(%rdx), %rbx\n"
	"	dec %rbx\n"
	"	mov 16(%rsi), %rax\n"
	"	test %rax, %rax\n"
	"	cmovnz %rax, %rbx\n"
	"	xor %ebp, %ebp\n"
	"0:	lea trap_handler + 4096(%rip), %r12\n"
	"1:	mov (%r12), %rax\n"
	"	test %rax, %rax\n"
	"	jz 8f\n"
	"	add $8, %r12\n"
	"	shl $8, %rax\n"
	"	shr $8, %rax\n"
	"	cmp %rbx, %rax\n"
	"	jne 1b\n"
	"	mov %rbx, 168(%rdx)\n"
	"	cmpb $0xcc, (%rbx)\n"
	"	jne 3f\n"
	"	mov $2, %eax\n" /* open("/proc/self/mem", O_RDWR | O_CLOEXEC) */
	"	lea 6f(%rip), %rdi\n"
	"	mov $0x80002, %esi\n"
	"	xor %edx, %edx\n"
	"	syscall\n"
	"	mov %eax, %ebp\n"
	"	test %eax, %eax\n"
	"	js 2f\n"
	"	push %rax\n"
	"	lea trap_handler + 4096(%rip), %r12\n"
	"9:	mov (%r12), %rbx\n"
	"	test %rbx, %rbx\n"
	"	jz 11f\n"
	"	shl $8, %rbx\n"
	"	shr $8, %rbx\n"
	"	mov $17, %eax\n" /* pread(fd, stack, 1, breakpoint) */
	"	mov %ebp, %edi\n"
	"	mov %rsp, %rsi\n"
	"	mov $1, %edx\n"
	"	mov %rbx, %r10\n"
	"	syscall\n"
	"	dec %rax\n"
	"	jnz 10f\n"
	"	cmpb $0xcc, (%rsp)\n"
	"	jne 10f\n"
	"	mov $18, %eax\n" /* pwrite(fd, last byte of the entry, 1, breakpoint) */
	"	mov %ebp, %edi\n"
	"	lea 7(%r12), %rsi\n"
	"	mov $1, %edx\n"
	"	mov %rbx, %r10\n"
	"	syscall\n"
	"10:	add $8, %r12\n"
	"	jmp 9b\n"
	"11:	pop %rax\n"
	"	mov $3, %eax\n" /* close(fd) */
	"	mov %ebp, %edi\n"
	"	syscall\n"
	"2:	mov $24, %eax\n" /* sched_yield() */
	"	syscall\n"
	"3:	ret\n"
	"8:	test %ebp, %ebp\n"
	"	jnz 5f\n"
	"	inc %ebp\n"
	"	inc %rbx\n"
	"	jmp 0b\n"
	"4:	cmpl $2, 8(%rsi)\n" /* TRAP_TRACE */
	"	jne 5f\n"
	"	testl $0x100, 176(%rdx)\n" /* TF */
	"	jz 3b\n"
	"5:	mov $13, %eax\n" /* rt_sigaction(SIGTRAP, &default, NULL, 8) */
	"	mov $5, %edi\n"
	"	lea 7f(%rip), %rsi\n"
	"	xor %edx, %edx\n"
	"	mov $8, %r10d\n"
	"	syscall\n"
	"	mov $39, %eax\n" /* tgkill(getpid(), gettid(), SIGTRAP) */
	"	syscall\n"
	"	mov %eax, %ebx\n"
	"	mov $186, %eax\n"
	"	syscall\n"
	"	mov %eax, %esi\n"
	"	mov %ebx, %edi\n"
	"	mov $5, %edx\n"
	"	mov $234, %eax\n"
	"	syscall\n"
	"	ret\n"
	"trap_restorer:\n" /* as glibc's, which debuggers and unwinders know */
	"	mov $15, %rax\n"
	"	syscall\n"
	"6:	.asciz \"/proc/self/mem\"\n"
	"	.balign 8\n"
	"7:	.skip 32\n"
	"trap_code_end:\n"
	"trap_call:\n"
	"	syscall\n"
	"trap_call_back:\n"
	"	mov 8f(%rip), %rax\n"
	"	mov 8f+8(%rip), %rcx\n"
	"	mov 8f+16(%rip), %rdx\n"
	"	mov 8f+24(%rip), %rsi\n"
	"	mov 8f+32(%rip), %rdi\n"
	"	mov 8f+40(%rip), %r8\n"
	"	mov 8f+48(%rip), %r9\n"
	"	mov 8f+56(%rip), %r10\n"
	"	mov 8f+64(%rip), %r11\n"
	"	jmp *8f+72(%rip)\n"
	"	.balign 8\n"
	"8:	.skip 80\n"
	"trap_call_end:\n"
	".popsection\n");

extern const uint8_t trap_handler[], trap_restorer[], trap_code_end[], trap_call[],
    trap_call_back[], trap_call_end[];

enum { RESTORER = 0x04000000 }; /* SA_RESTORER, which libc's header hides */
/* Return values by which the kernel marks an interrupted system call for restart (Linux,
 * include/linux/errno.h). */
enum { RESTARTSYS = 512, RESTARTNOINTR = 513, RESTARTNOHAND = 514, RESTART_BLOCK = 516 };
enum { SYSCALL_LEN = 2, NO_SYSCALL = -1 };

static size_t between(const uint8_t *from, const uint8_t *to)
{
	return (uintptr_t)to - (uintptr_t)from;
}

static size_t code_size(void)
{
	return between(trap_handler, trap_code_end);
}

void trap_page_contents(uint8_t out[TRAP_LIST_AT], uint64_t at)
{
	const struct kernel_action a = {
	    .handler = at,
	    .flags = SA_SIGINFO | SA_NODEFER | RESTORER,
	    .restorer = at + between(trap_handler, trap_restorer),
	};
	memset(out, 0, TRAP_LIST_AT);
	memcpy(out, trap_handler, code_size());
	memcpy(out + TRAP_ACTION_AT, &a, sizeof(a));
}

bool trap_page_is_like(const uint8_t *code)
{
	return !memcmp(code, trap_handler, code_size());
}

static void set_restarted(union regs *r)
{
	long result = -(long)r->user.rax;
	if ((long)r->user.orig_rax < 0)
		return;
	if (result == RESTARTSYS || result == RESTARTNOINTR || result == RESTARTNOHAND)
		r->user.rax = r->user.orig_rax;
	else if (result == RESTART_BLOCK)
		r->user.rax = SYS_restart_syscall;
	else
		return;
	r->user.rip -= SYSCALL_LEN;
}

void trap_call_contents(uint8_t out[TRAP_CALL_SIZE], const union regs *r)
{
	union regs back = *r;
	set_restarted(&back);
	const struct user_regs_struct *u = &back.user;
	const uint64_t word[] = {u->rax, u->rcx, u->rdx, u->rsi, u->rdi,
				 u->r8,	 u->r9,	 u->r10, u->r11, u->rip};
	size_t size = between(trap_call, trap_call_end);
	memset(out, 0, TRAP_CALL_SIZE);
	memcpy(out, trap_call, size);
	memcpy(out + size - sizeof(word), word, sizeof(word));
}

void trap_call_enter(union regs *r, uint64_t at, long nr, const uint64_t arg[6])
{
	struct user_regs_struct *u = &r->user;
	u->rip = at;
	u->rax = (unsigned long long)nr;
	u->orig_rax = (unsigned long long)NO_SYSCALL;
	u->rdi = arg[0], u->rsi = arg[1], u->rdx = arg[2];
	u->r10 = arg[3], u->r8 = arg[4], u->r9 = arg[5];
}

void trap_call_leave(union regs *r, uint64_t at)
{
	r->user.rip = at + between(trap_call, trap_call_back);
	r->user.orig_rax = (unsigned long long)NO_SYSCALL;
}
