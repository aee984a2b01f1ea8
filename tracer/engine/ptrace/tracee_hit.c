#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/system.h"
#include "symbolizer/code/arch_x86_64.h"
#include "tracer/engine/ptrace/internal.h"

static int read_word(void *arg, uint64_t addr, uint64_t *out)
{
	const struct tracee *x = arg;
	struct iovec ours = {out, 8}, its = {(void *)(uintptr_t)addr, 8};
	return process_vm_readv(x->tid, &ours, 1, &its, 1, 0) == 8 ? 0 : -EFAULT;
}

static int write_word(void *arg, uint64_t addr, uint64_t value)
{
	const struct tracee *x = arg;
	struct iovec ours = {&value, 8}, its = {(void *)(uintptr_t)addr, 8};
	return process_vm_writev(x->tid, &ours, 1, &its, 1, 0) == 8 ? 0 : -EFAULT;
}

static void count(_Atomic uint64_t *n)
{
	atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

static struct shadow_stack *ops_of(struct tracer *t, struct tracee *x)
{
	if (x->ops)
		return x->ops;
	x->ops = calloc(1, sizeof(*x->ops));
	if (x->ops) {
		x->ops->tid = (uint32_t)x->tid;
		x->ops->code = t->share->may_sum ? &t->share->code : NULL;
	}
	return x->ops;
}

static void on_dispatch(struct tracer *t, struct tracee *x, const union regs *r)
{
	struct shadow_stack *ops = ops_of(t, x);
	bool seen;
	if (!ops || !atomic_load_explicit(&t->share->counting, memory_order_relaxed) ||
	    !shadow_stack_dispatched(ops, r->word, &seen))
		return;
	count(&t->share->dispatched);
	if (seen)
		count(&t->share->dispatched_seen);
}

static void on_op(struct tracer *t, struct tracee *x, const struct use *u, const union regs *r,
		  uint64_t ts)
{
	struct shadow_stack *ops = ops_of(t, x);
	struct op_hit h = {
	    .mem = t->mem,
	    .out = &t->out,
	    .conf = &t->procs[u->proc % PROC_SLOTS],
	    .plan = &t->plans[u->op],
	    .regs = r->word,
	    .fsbase = r->user.fs_base,
	    .ts = ts,
	    .op = u->op,
	    .proc = u->proc,
	};
	if (!ops || u->op >= t->nplans)
		return;
	count(&t->share->hits);
	t->out.stop = h.plan->flags & PLAN_STOP && !t->away;
	t->out.held = false;
	t->hit = x;
	if (u->kind == SITE_EXIT)
		shadow_stack_exit(ops, &h);
	else if (u->kind == SITE_CODE_FREED)
		shadow_stack_code_freed(ops, &h);
	else if (u->kind == SITE_SCHEMA)
		shadow_stack_schema(ops, &h);
	else if (!shadow_stack_entry(ops, &h))
		count(&t->share->lost);
	if (t->out.held) {
		x->held = x->held_at_op = true;
		share_wake(t->share);
	}
	t->out.stop = false;
}

/* The linker calls before and after mapping: what is mapped by now has not run yet. */
static void on_linker(struct tracer *t, struct tracee *x)
{
	if (x->of->told || t->leaving || !t->interesting(x->of->pid))
		return;
	x->of->told = true;
	x->held = tracee_tell(t, FOLLOW_MAP, x->of->pid, x->tid, 0, true);
}

static void use_hit(struct tracer *t, struct tracee *x, const struct breakpoint *b,
		    const union regs *r)
{
	uint64_t ts = clock_ns(CLOCK_MONOTONIC);
	const struct use *next;
	remote_begin(t->mem, x->tid);
	for (const struct use *u = breakpoints_next_use(x->of->space, b, NULL); u; u = next) {
		next = breakpoints_next_use(x->of->space, b, u);
		if (u->kind == USE_LINKER)
			on_linker(t, x);
		else if (u->kind == SITE_DISPATCH)
			on_dispatch(t, x, r);
		else
			on_op(t, x, u, r, ts);
	}
}

enum outcome {
	DONE,
	DONE_LATE,  /* DONE, but in another stop; the SIGTRAP of the step is still to come */
	OTHER_STOP, /* the thread is before the instruction in another stop, or has ended */
	GIVE_UP,    /* the instruction cannot be executed */
};

/* An instruction of `len` bytes to be executed elsewhere, followed by what leads back to the
 * program, should this process be killed. */
struct moved {
	uint8_t code[EMULATE_MOVED_MAX];
	size_t len, size;
};

/* Single-step it at the scratch address `at`; *r becomes the resulting registers. The original
 * instruction is at `addr`. No other thread executes there. */
static enum outcome step_elsewhere(struct tracee *x, const struct moved *m, uint64_t at,
				   uint64_t addr, union regs *r, int *status)
{
	if (breakpoints_put_out_of_line(x->of->space, at, m->code, m->size))
		return GIVE_UP;
	r->word[ARCH_IP] = at;
	tracee_set_regs(x, r);
	if (ptrace(PTRACE_SINGLESTEP, x->tid, NULL, NULL) ||
	    tracee_wait(x->tid, 0, status) != x->tid)
		return GIVE_UP;
	if (!WIFSTOPPED(*status) || !tracee_get_regs(x, r))
		return OTHER_STOP;
	if (r->word[ARCH_IP] == at + m->len) {
		x->late_trap = *status >> 8 != SIGTRAP;
		if (!x->late_trap)
			tracee_take_stop(x);
		return x->late_trap ? DONE_LATE : DONE;
	}
	if (r->word[ARCH_IP] == at) {
		r->word[ARCH_IP] = addr;
		tracee_set_regs(x, r);
	}
	return OTHER_STOP;
}

/* Stack below sp may be mapped only when the thread itself touches it: let it execute a push. */
static enum outcome touch_stack(struct tracee *x, uint64_t addr, const union regs *r, int *status)
{
	struct moved m;
	union regs touched = *r;
	m.size = emulate_touch(m.code, addr, &m.len);
	uint64_t at = breakpoints_scratch(x->of->space);
	enum outcome o = step_elsewhere(x, &m, at, addr, &touched, status);
	if (o != DONE_LATE)
		return o;
	tracee_set_regs(x, r);
	return OTHER_STOP;
}

static enum outcome emulate(struct tracee *x, const struct breakpoint *b, union regs *r,
			    int *status)
{
	const struct emulate_memory m = {read_word, write_word, x};
	int rc = emulate_run(&b->insn, b->addr, r->word, &m);
	if (rc && (b->insn.kind == EMULATE_PUSH || b->insn.kind == EMULATE_CALL)) {
		enum outcome o = touch_stack(x, b->addr, r, status);
		if (o != DONE)
			return o;
		rc = emulate_run(&b->insn, b->addr, r->word, &m);
	}
	if (rc)
		return GIVE_UP;
	tracee_set_regs(x, r);
	return DONE;
}

static enum outcome step_over(struct tracee *x, const struct breakpoint *b, union regs *r,
			      int *status)
{
	struct moved m;
	int n = emulate_relocate(b->code, CODE_BYTES, b->addr, b->scratch, m.code);
	if (n <= 0)
		return GIVE_UP;
	m.len = (size_t)n;
	m.size = m.len + emulate_jump(m.code + n, b->addr + m.len);
	enum outcome o = step_elsewhere(x, &m, b->scratch, b->addr, r, status);
	if (o != DONE && o != DONE_LATE)
		return o;
	r->word[ARCH_IP] = b->addr + m.len;
	tracee_set_regs(x, r);
	return o;
}

/* Execute the instruction under the breakpoint, and resume; *other as tracee_hit's. */
static void go_on(struct tracee *x, struct breakpoint *b, union regs *r, int *other)
{
	int status = 0;
	uint64_t addr = b->addr, sp = r->word[ARCH_SP];
	enum outcome o =
	    b->insn.kind != EMULATE_NONE ? emulate(x, b, r, &status) : step_over(x, b, r, &status);
	if (o == OTHER_STOP) {
		x->skip_addr = addr;
		x->skip_sp = sp;
	}
	if (o == OTHER_STOP || o == DONE_LATE) {
		*other = status;
		return;
	}
	if (o == GIVE_UP) {
		breakpoints_give_up(x->of->space, b);
		r->word[ARCH_IP] = addr;
		tracee_set_regs(x, r);
	}
	if (!x->held)
		tracee_resume(x, 0);
}

bool tracee_go_on(struct tracee *x, int *other)
{
	union regs r;
	*other = TRACEE_NO_STATUS;
	struct breakpoint *b = breakpoints_find(x->of->space, x->skip_addr);
	x->skip_addr = 0;
	if (!b || !b->live || !tracee_get_regs(x, &r))
		return false;
	go_on(x, b, &r, other);
	return true;
}

/* Set a thread that stopped at the breakpoint back to before it, its registers *r, and take the
 * stop: from here on it can be left alone at any time. Between the two the kernel would still
 * deliver the signal: the handler in the trap page is told where rip alone could mean the
 * breakpoint before this one. */
static void set_back(const struct tracee *x, const struct breakpoint *b, const union regs *r)
{
	siginfo_t info;
	if (trap_page_lists(breakpoints_page(x->of->space), b->addr - 1) &&
	    !ptrace(PTRACE_GETSIGINFO, x->tid, NULL, &info)) {
		info.si_addr = (void *)(uintptr_t)b->addr;
		ptrace(PTRACE_SETSIGINFO, x->tid, NULL, &info);
	}
	tracee_set_regs(x, r);
	tracee_take_stop(x);
}

/* int3 is reported with SI_KERNEL and the address after it (arch/x86/kernel/traps.c, do_int3); a
 * SIGTRAP from kill(2) is not. */
static struct breakpoint *breakpoint_met(const struct tracee *x, union regs *r)
{
	siginfo_t info;
	if (!x->of || ptrace(PTRACE_GETSIGINFO, x->tid, NULL, &info) || info.si_code != SI_KERNEL ||
	    !tracee_get_regs(x, r))
		return NULL;
	struct breakpoint *b = breakpoints_find(x->of->space, r->word[ARCH_IP] - 1);
	if (b)
		r->word[ARCH_IP] = b->addr;
	return b;
}

bool tracee_is_late_trap(const struct tracee *x, const siginfo_t *info)
{
	return x->late_trap && info->si_signo == SIGTRAP && info->si_code == TRAP_TRACE;
}

static bool take_late_trap(struct tracee *x)
{
	siginfo_t info;
	if (!x->late_trap || ptrace(PTRACE_GETSIGINFO, x->tid, NULL, &info) ||
	    !tracee_is_late_trap(x, &info))
		return false;
	x->late_trap = false;
	return true;
}

bool tracee_hit(struct tracer *t, struct tracee *x, int *other)
{
	union regs r;
	uint64_t since = clock_ns(CLOCK_MONOTONIC);
	*other = TRACEE_NO_STATUS;
	if (take_late_trap(x)) {
		tracee_resume(x, 0);
		return true;
	}
	struct breakpoint *b = breakpoint_met(x, &r);
	if (!b)
		return false;
	set_back(x, b, &r);
	if (!b->live) {
		tracee_resume(x, 0);
		return true;
	}
	if (!x->checked && trap_page_is_missing(x->of->pid)) {
		trap_page_put_in(x, other);
		if (*other != TRACEE_NO_STATUS)
			return true;
	}
	x->checked = true;
	uint64_t hits = t->share->hits;
	bool again = x->skip_addr == b->addr && x->skip_sp == r.word[ARCH_SP];
	if (!again)
		use_hit(t, x, b, &r);
	if (x->held_at_op) {
		x->skip_addr = b->addr;
		x->skip_sp = r.word[ARCH_SP];
		return true;
	}
	if (again || r.word[ARCH_SP] > x->skip_sp)
		x->skip_addr = 0;
	go_on(x, b, &r, other);
	if (t->share->hits == hits)
		return true;
	count(&t->share->sampled);
	atomic_fetch_add_explicit(&t->share->sampled_ns, clock_ns(CLOCK_MONOTONIC) - since,
				  memory_order_relaxed);
	return true;
}

bool tracee_rewind(struct tracee *x)
{
	union regs r;
	if (take_late_trap(x))
		return true;
	const struct breakpoint *b = breakpoint_met(x, &r);
	if (b)
		set_back(x, b, &r);
	return b;
}

int tracee_registers(const struct tracee *x, uint64_t *out)
{
	union regs r;
	if (!x->held_at_op || !tracee_get_regs(x, &r))
		return -ESRCH;
	r.word[ARCH_IP] = x->skip_addr;
	memcpy(out, r.word, ARCH_REGS * sizeof(*out));
	return 0;
}
