/* The eBPF side of the engine bpf: carries out the probe plan at each hit and sends what it read
 * through a ring buffer. All it knows of torch is how to do the reads of symbolizer/plan/plan.h. */
#define __bpf__ 1
#define MAY_SLEEP 1
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "symbolizer/plan/plan.h"
#include "tracer/engine/bpf/sum_rows.h"

char LICENSE[] SEC("license") = "GPL";

#include "tracer/engine/bpf/state.bpf.h"
#include "tracer/engine/bpf/reads.bpf.h"
#include "tracer/engine/bpf/pywalk.bpf.h"
#include "tracer/engine/bpf/sums.bpf.h"

static __always_inline int is_shown(const struct frame *f)
{
	return !f->muted && !f->aside;
}

/* Drop the innermost frame. A function of its own, as others here: the verifier looks at it once,
 * not in each round of a loop. */
__noinline int drop(struct bpf_thread *t, __u64 ts)
{
	struct frame *f = t ? top(t) : 0;
	if (!f)
		return 0;
	if (f->summed)
		sum_leave(t, ts, 1);
	else if (!f->muted)
		t->thrown = 1;
	t->shown -= is_shown(f);
	t->depth--;
	return 0;
}

/* Drop frames that an exception unwound: their stack pointer is below `sp`, where the thread is
 * now. */
static __always_inline void prune(struct bpf_thread *t, __u64 sp, __u64 ts)
{
	for (int i = 0; i < OPEN_MAX; i++) {
		struct frame *f = top(t);
		if (!f || f->sp > sp)
			break;
		drop(t, ts);
	}
}

struct moved {
	struct bpf_thread *t;
	const struct proc_conf *p;
	__u64 ts;
};

static long each_open(__u32 i, void *arg)
{
	struct moved *m = arg;
	struct bpf_thread *t = m->t;
	struct frame *f = top(t);
	(void)i;
	if (!f || !has_moved_on(t, m->p, f->py_frame, f->py_instr))
		return 1;
	drop(t, m->ts);
	return 0;
}

/* Drop frames that the stack pointer does not show to be over, but the Python frames do. */
static __always_inline void prune_moved(struct bpf_thread *t, const struct proc_conf *p, __u64 ts)
{
	struct moved m = {.t = t, .p = p, .ts = ts};
	bpf_loop(OPEN_MAX, each_open, &m, 0);
}

static __always_inline void keep_regs(struct pt_regs *ctx, struct bpf_thread *t)
{
	const unsigned long *r = (const unsigned long *)ctx;
#pragma unroll
	for (int i = 0; i < REGS; i++)
		t->regs[i] = r[i];
}

static __always_inline void keep_moved(struct pt_regs *ctx, struct bpf_thread *t,
				       const struct op_plan *plan, struct frame *f)
{
	keep_regs(ctx, t);
#pragma unroll
	for (int i = 0; i < LOC_STACK; i++) {
		__u32 r = plan->arg_reg[i] & 31;
		f->w[i] = r < REGS ? t->regs[r] : 0;
	}
	f->w[0] += (__s64)plan->near;
	for (__u32 i = 0; i < PLAN_LOADS; i++)
		if (i < plan->loads && read_user(&f->w[0], sizeof(f->w[0]), f->w[0]))
			f->w[0] = 0;
}

static __always_inline void keep_words(struct pt_regs *ctx, struct bpf_thread *t,
				       const struct op_plan *plan, struct frame *f)
{
	__u32 nstack = plan->nstack;
	f->w[0] = PT_REGS_PARM1(ctx);
	f->w[1] = PT_REGS_PARM2(ctx);
	f->w[2] = PT_REGS_PARM3(ctx);
	f->w[3] = PT_REGS_PARM4(ctx);
	f->w[4] = PT_REGS_PARM5(ctx);
	f->w[5] = ctx->r9; /* libbpf 1.1 has no PT_REGS_PARM6 */
	if (plan->flags & PLAN_MOVED)
		keep_moved(ctx, t, plan, f);
	if (nstack && nstack <= LOC_MAX - LOC_STACK)
		read_user(&f->w[LOC_STACK], nstack * 8, f->sp + 8);
}

static __always_inline int is_own_work(const struct proc_conf *p, const struct bpf_thread *t)
{
	__u64 set[OWN_WAYS] = {};
	if (!p->own_work || read_user(set, sizeof(set), p->own_work + own_work_set(t->fsbase)))
		return 0;
	return set[0] == t->fsbase || set[1] == t->fsbase || set[2] == t->fsbase ||
	       set[3] == t->fsbase;
}

static __always_inline int is_muted(const struct proc_conf *p, const struct op_plan *plan,
				    const struct bpf_thread *t, const struct frame *f)
{
	if (plan->flags & PLAN_MARK || is_own_work(p, t))
		return 1;
	if (p->phase == 1 && f->backward)
		return 1;
	if (p->phase == 2 && !f->backward)
		return 1;
	return p->max_depth && t->shown >= p->max_depth && !(plan->flags & PLAN_ASIDE);
}

/* Counts the call and says whether it is selected. */
static __always_inline int is_picked(__u64 cookie)
{
	__u32 zero = 0;
	__u64 key = cookie >> 48 << 32 | (__u32)cookie, none = 0;
	const struct pick *pick = bpf_map_lookup_elem(&picked, &zero);
	__u64 *count = bpf_map_lookup_elem(&calls, &key);
	if (!count) {
		bpf_map_update_elem(&calls, &key, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&calls, &key);
	}
	return pick && count && pick_takes(pick, __sync_fetch_and_add(count, 1) + 1);
}

static __always_inline int is_stopped(const struct op_plan *plan, __u64 cookie)
{
	if (!(plan->flags & PLAN_STOP))
		return 0;
	if (!(plan->flags & PLAN_PICK))
		return 1;
	return plan->flags & (PLAN_BACKWARD | PLAN_ASIDE) ? awaited : is_picked(cookie);
}

/* A loop, since bpf_loop's callback would add a frame, and the verifier allows only eight. */
static __always_inline void do_reads(struct bpf_thread *t, const struct proc_conf *p,
				     const struct op_plan *plan, __u32 from, __u32 n, int is_exit)
{
	for (__u32 i = 0; i < PLAN_READS && i < n; i++)
		do_read(t, p, plan, from + i, is_exit);
}

static __always_inline void account(__u64 since, __u64 *sampled, __u64 *ns)
{
	__u64 n = __sync_fetch_and_add(&hits, 1);
	if (n % HIT_SAMPLE != HIT_SAMPLE - 1)
		return;
	__u64 took = bpf_ktime_get_ns() - since;
	if (took > HIT_LONGEST_NS)
		return;
	__sync_fetch_and_add(sampled, 1);
	__sync_fetch_and_add(ns, took);
}

static __always_inline void open_op(struct pt_regs *ctx, struct bpf_thread *t,
				    const struct proc_conf *p, const struct op_plan *plan,
				    __u64 cookie, __u64 ts)
{
	__u64 sp = PT_REGS_SP(ctx) + plan->entry_sp;
	/* In the backward it must be certain whether Python runs. */
	if (plan->flags & PLAN_BACKWARD ||
	    (t->depth && t->open[(t->depth - 1) & (OPEN_MAX - 1)].backward))
		t->py_wait = 0;
	t->now_frame = p->py_on ? innermost(t, p) : 0;
	t->now_instr = t->now_frame ? frame_instr(t, &p->py) : 0;
	prune(t, sp, ts);
	if (t->now_frame)
		prune_moved(t, p, ts);
	__u32 d = t->depth;
	if (d >= OPEN_MAX) {
		__sync_fetch_and_add(&lost_depth, 1);
		return;
	}
	struct frame *up = &t->open[(d - 1) & (OPEN_MAX - 1)]; /* the enclosing op, if d > 0 */
	struct frame *f = &t->open[d & (OPEN_MAX - 1)];
	f->sp = sp;
	f->seq = ++t->seq;
	f->op = (__u32)cookie;
	f->backward = (plan->flags & PLAN_BACKWARD) || (d && up->backward);
	f->base = plan->flags & PLAN_BACKWARD || !d ? t->now_frame : up->base;
	f->py_sent = 0;
	f->counted = 0;
	f->summed = SUM_NO;
	f->within = d && (is_shown(up) ? up->summed != SUM_NO : up->within);
	f->ts = ts;
	f->inner_ns = 0;
	f->py_frame = t->now_frame;
	f->py_instr = t->now_instr;
	f->muted = (__u8)is_muted(p, plan, t, f);
	f->aside = (plan->flags & PLAN_ASIDE) != 0;
	f->stop = !f->muted && is_stopped(plan, cookie);
	keep_words(ctx, t, plan, f);
	__u64 fill = f->muted ? 0 : ring_fill();
	/* Of what is summed up no record says that it encloses others. */
	int sums = f->within || (fill >= RING_FULL && !t->thrown);
	t->lean = sums ? LEAN_SUM : fill >= RING_TIGHT ? LEAN : LEAN_NOT;
	if (!f->muted)
		start_hit(t, f, HIT_ENTRY, (__u32)(cookie >> 48), p->generation, ts);
	t->depth = d + 1;
	if (f->muted)
		return;
	do_reads(t, p, plan, 0, plan->nentry, 0);
	__u32 stack = t->off;
	if (p->py_on && (plan->flags & PLAN_PY))
		put_python(t, p, d && !sums ? up->py_sent : 0, up, f);
	t->shown += is_shown(f);
	if (sums) {
		sum_enter(t, (__u32)(cookie >> 48), stack);
	} else {
		send(t, 0);
		t->thrown = 0;
	}
	tell_code(t, p, (__u32)(cookie >> 48));
}

SEC("uprobe.s")
int op_entry(struct pt_regs *ctx)
{
	__u64 ts = bpf_ktime_get_ns();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 op = (__u32)cookie, proc = (__u32)(cookie >> 48);
	const struct op_plan *plan = bpf_map_lookup_elem(&plans, &op);
	const struct proc_conf *p = bpf_map_lookup_elem(&procs, &proc);
	struct bpf_thread *t = this_thread();
	if (plan && p && t)
		open_op(ctx, t, p, plan, cookie, ts);
	account(ts, &entry_sampled, &entry_ns);
	return 0;
}

/* The depth of the innermost open frame of `op`; 0: there is none. */
__noinline __u32 depth_of(const struct bpf_thread *t, __u32 op, __u64 sp)
{
	for (int i = 0; i < OPEN_MAX && t; i++) {
		__u32 d = t->depth - i;
		if (d == 0 || d > OPEN_MAX)
			return 0;
		const struct frame *f = &t->open[(d - 1) & (OPEN_MAX - 1)];
		if (f->op == op && f->sp >= sp)
			return d;
	}
	return 0;
}

/* Drop everything above that depth. */
static __always_inline void drop_above(struct bpf_thread *t, __u32 depth, __u64 ts)
{
	for (int i = 0; i < OPEN_MAX && t->depth > depth; i++)
		drop(t, ts);
}

/* Time in calls made by it that are summed up. */
static __always_inline void put_inner(struct bpf_thread *t, __u64 ns)
{
	struct item *it = ns ? begin_item(t, ITEM_INNER, ITEM_NO_READ, 0) : 0;
	if (!it)
		return;
	put_word(t, ns);
	it->len = sizeof(ns);
}

SEC("uprobe.s")
int op_exit(struct pt_regs *ctx)
{
	__u64 ts = bpf_ktime_get_ns();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 op = (__u32)cookie, proc = (__u32)(cookie >> 48);
	__u64 sp = PT_REGS_SP(ctx);
	const struct op_plan *plan = bpf_map_lookup_elem(&plans, &op);
	const struct proc_conf *p = bpf_map_lookup_elem(&procs, &proc);
	struct bpf_thread *t = this_thread();
	/* An op that was already running when the probes were placed has no open frame. */
	__u32 depth = t ? depth_of(t, op, sp) : 0;
	if (!plan || !p || !t || !depth)
		goto out;
	drop_above(t, depth, ts);
	struct frame *f = top(t);
	if (!f)
		goto out;
	t->shown -= is_shown(f);
	if (f->summed) {
		sum_leave(t, ts, 0);
	} else if (!f->muted) {
		keep_regs(ctx, t);
		t->lean = ring_fill() >= RING_TIGHT ? LEAN : LEAN_NOT;
		start_hit(t, f, HIT_EXIT, proc, p->generation, ts);
		do_reads(t, p, plan, plan->nentry, plan->nexit, 1);
		put_inner(t, f->inner_ns);
		send(t, 0);
		t->thrown = 0;
	}
	t->depth--;
out:
	if (measuring)
		__sync_fetch_and_add(&exits, 1);
	if (resting)
		account(ts, &rest_sampled, &rest_ns);
	else
		account(ts, &exit_sampled, &exit_ns);
	return 0;
}

/* A code object is being freed: what is known of its address no longer holds. */
SEC("uprobe.s")
int code_freed(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 proc = (__u32)(cookie >> 48);
	const struct proc_conf *p = bpf_map_lookup_elem(&procs, &proc);
	__u64 code = PT_REGS_PARM1(ctx), key = (__u64)proc << 48 | code;
	const __u8 *known = bpf_map_lookup_elem(&told, &key);
	__u8 was = known ? *known : TOLD_NOT;
	if (bpf_map_delete_elem(&told, &key) && !told_full)
		return 0;
	struct bpf_thread *t = this_thread();
	if (!p || !t)
		return 0;
	if (*met_place(t, code) == code)
		*met_place(t, code) = 0;
	t->lean = LEAN_NOT;
	/* What is summed up from now on may name another object at that address. */
	__sync_fetch_and_add(&sent_freed, 1);
	__u64 number = __sync_fetch_and_add(&sum_freed, 1) + 1;
	if (send_code(t, p, proc, HIT_CODE_FREED, code, number, was == TOLD_NAMED))
		__sync_fetch_and_add(&sent_freed, -1);
	return 0;
}

/* torch::jit::parseSchema(const std::string &, ...): returns through a hidden pointer. */
SEC("uprobe.s")
int schema_parsed(struct pt_regs *ctx)
{
	__u32 proc = (__u32)(bpf_get_attach_cookie(ctx) >> 48);
	const struct proc_conf *p = bpf_map_lookup_elem(&procs, &proc);
	struct bpf_thread *t = this_thread();
	struct frame none = {};
	__u64 s[2] = {};
	const exec_t x = {t, p, 0};
	if (!p || !t || exec_std_string(&x, PT_REGS_PARM2(ctx), s))
		return 0;
	start_hit(t, &none, HIT_SCHEMA, proc, 0, bpf_ktime_get_ns());
	exec_string(&x, s[0], s[1], 0);
	send(t, 0);
	return 0;
}

/* at::getStepCallbacksUnlessEmpty(RecordScope): called once for each dispatched op, on every path.
 * It returns through a hidden pointer, so the scope is the second argument; FUNCTION is 0
 * (ATen/record_function.h). */
SEC("uprobe.s")
int step_callbacks(struct pt_regs *ctx)
{
	if (!counting)
		return 0;
	__sync_fetch_and_add(&steps, 1);
	if ((__u32)PT_REGS_PARM2(ctx) != 0)
		return 0;
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct bpf_thread *t = bpf_map_lookup_elem(&threads, &tid);
	__sync_fetch_and_add(&dispatched, 1);
	__u32 d = t ? t->depth : 0;
	if (d == 0 || d > OPEN_MAX)
		return 0;
	struct frame *f = &t->open[(d - 1) & (OPEN_MAX - 1)];
	/* An op's own call comes once, before any that it makes; `counted`: it has come. */
	if (f->sp > PT_REGS_SP(ctx) && !f->counted) {
		f->counted = 1;
		__sync_fetch_and_add(&dispatched_seen, 1);
	}
	return 0;
}

SEC("raw_tp/sched_process_exit")
int thread_exit(void *ctx)
{
	(void)ctx;
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	bpf_map_delete_elem(&threads, &tid);
	return 0;
}
