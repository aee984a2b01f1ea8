/* The trap page: a mapping in the traced process with a handler of SIGTRAP, which counts only once
 * the tracing process is gone, since until then ptrace(2) intercepts the signal. A thread that hits
 * a breakpoint of ours then restores that byte itself and executes the instruction; a single-step
 * of ours that ends then is ignored; at any other SIGTRAP it does what the default action is. The
 * page also has the place for instructions that are executed out of line, whose code finds its way
 * back without a tracer, too. */
#ifndef TRACER_ENGINE_PTRACE_TRAP_PAGE_H
#define TRACER_ENGINE_PTRACE_TRAP_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"
#include "symbolizer/code/arch_x86_64.h"

/* trap_page_x86_64.c: what is in it, and calls of the kernel by a thread of the process. */

/* Its layout, in bytes from its start. */
enum {
	TRAP_CODE_MOST = 1024,
	TRAP_SLOTS_AT = 2048, /* for instructions out of line */
	TRAP_SLOT = 64,
	TRAP_SLOTS = 16,
	TRAP_ACTION_AT = 3072, /* struct kernel_action with the handler */
	TRAP_BEFORE_AT = 3136, /* the same from before it was set */
	TRAP_TAKEN_AT = 3200,  /* uint64_t: how often it was taken over from a killed process */
	TRAP_LIST_AT = 4096,   /* uint64_t for each breakpoint, see trap_entry; 0 ends it */
	TRAP_LIST_MOST = 1 << 17,
	TRAP_PAGE_SIZE = TRAP_LIST_AT + TRAP_LIST_MOST * 8,
};

/* The kernel's struct sigaction (Linux, arch/x86/include/uapi/asm/signal.h with SA_RESTORER, as
 * rt_sigaction(2) takes it). */
struct kernel_action {
	uint64_t handler, flags, restorer, mask;
};

/* The entry of the list for the breakpoint at `addr`, where the file has the byte `was`. */
static inline uint64_t trap_entry(uint64_t addr, uint8_t was)
{
	return addr | (uint64_t)was << 56;
}

static inline uint64_t trap_entry_addr(uint64_t entry)
{
	return entry & ~(0xffULL << 56);
}

static inline uint8_t trap_entry_byte(uint64_t entry)
{
	return (uint8_t)(entry >> 56);
}

/* The first TRAP_LIST_AT bytes of a page at address `at`. */
void trap_page_contents(uint8_t out[TRAP_LIST_AT], uint64_t at);

/* Whether TRAP_CODE_MOST bytes are the beginning of such a page. */
bool trap_page_is_like(const uint8_t *code);

/* Code at address `at` that makes one system call and then sets all registers to what they are in
 * `r`, the registers in a stop, restarting the system call that was interrupted by the stop as the
 * kernel would (arch/x86/kernel/signal.c, arch_do_signal_or_restart). It uses no stack. */
enum { TRAP_CALL_SIZE = 160 };
void trap_call_contents(uint8_t out[TRAP_CALL_SIZE], const union regs *r);

/* Make *r the registers before call `nr` by that code; after it. */
void trap_call_enter(union regs *r, uint64_t at, long nr, const uint64_t arg[6]);
void trap_call_leave(union regs *r, uint64_t at);

/* trap_page.c */

/* The page of one address space, and the list in it. */
struct trap_page {
	uint64_t addr;	 /* 0: there is none */
	bool taken;	 /* made by a tracing process that was killed */
	uint64_t slot;	 /* the address for instructions out of line */
	uint64_t *entry; /* as in its list */
	size_t n, room;
	struct map by_addr;
};

/* Begin to use the page at `addr` of the address space that `mem` is (/proc/PID/mem), with the
 * entries that it has. `left_behind`: by a tracing process that was killed; threads may still be
 * in its code. 0, -ENOENT when there is none, or -errno. */
int trap_page_open(struct trap_page *p, int mem, uint64_t addr, bool left_behind);
void trap_page_close(struct trap_page *p);

/* List a breakpoint, before it is set. 0; -E2BIG or -errno: it is not protected. */
int trap_page_list(struct trap_page *p, int mem, uint64_t addr, uint8_t was);

/* Whether its list has that address. */
bool trap_page_lists(const struct trap_page *p, uint64_t addr);

struct tracee;

/* Give the process of thread `x`, which is stopped, such a page and its handler, unless it has them
 * or SIGTRAP has another meaning there. The stop must be one in which the kernel delivers signals
 * (a signal-delivery-stop that was waited for, or PTRACE_EVENT_STOP). *other: as of tracee_hit; if
 * there is another stop, that has to be handled, and the thread may be gone. */
void trap_page_put_in(struct tracee *x, int *other);

/* Remove the handler, if it still is the process's, and the page. The same. */
void trap_page_take_out(struct tracee *x, int *other);

/* Whether process `pid` should have the handler and has not, any more or yet: the kernel resets it
 * when a thread that blocks SIGTRAP hits a breakpoint (kernel/signal.c, force_sig_info_to_task). */
bool trap_page_is_missing(pid_t pid);

#endif
