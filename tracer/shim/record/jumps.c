/* What jumps lead to: records ops as the engines bpf and ptrace do, by the same plan. Any place of
 * the program may be interrupted here. At the entry of a function only its arguments are in use, so
 * that anything may be called; at an exit no register may change, so that this file, and all that
 * an exit uses, is compiled for general registers alone, and the rest goes through saved_call. */
#define _GNU_SOURCE
#include "tracer/shim/record/internal.h"

#include <link.h>
#include <string.h>

#include "tracer/shim/shim.h"

/* A scope that no observer asks for, at::RecordScope::STATIC_RUNTIME_OP (ATen/record_function.h,
 * 1.10 to 2.13). */
enum { SCOPE_UNOBSERVED = 8 };

/* The program has an observer of its own for all threads: it is told of everything. */
static _Atomic bool theirs;
static _Atomic bool theirs_here; /* one for a thread was seen */
static bool (*has_local)(void);	 /* at::hasThreadLocalCallbacks */
static bool adding;		 /* the callback that is being added is the library's own */

enum { CLASSES = 4096, BESIDE = 8 };
/* By hash, vtables of nodes, with the answer of has_listed in the lowest bit. Of two with the same
 * hash the second is beside the first: has_listed takes many system calls. */
static _Atomic uint64_t classes[CLASSES + BESIDE - 1];

/* The thread's state if it has any and the library is in use. Between inside_begin and
 * inside_end. */
static struct recorder_thread *state_here(void)
{
	struct recorder_thread *t = inside_memory_had();
	struct shim_share *s = shim_share();
	return t && s && t->share == s && t->epoch == shim_epoch() && !t->busy ? t : NULL;
}

/* As inside_begin, for a thread that has been here. */
static inline bool inside_again(void)
{
	return shim_place && inside_begin();
}

/* Whether the observer has just been told of this node: of one that another node calls, as
 * CopySlices does, nobody knows beforehand which it is. */
static bool is_observed(const struct recorder_thread *t, const struct op_plan *plan)
{
	const struct open_op *up = t->ops.depth ? &t->ops.open[t->ops.depth - 1] : NULL;
	return (plan->flags & (PLAN_BACKWARD | PLAN_MARK)) == PLAN_BACKWARD && up &&
	       up->op == t->share->op[SHIM_NODE] && up->seq == t->ops.seq;
}

static int take_loads(struct dl_phdr_info *i, size_t size, void *arg)
{
	(void)size;
	*(uint64_t *)arg = i->dlpi_adds;
	return 1;
}

/* Where a counter stops a thread does only if libraries were loaded since it was here: counters are
 * also of what threads of NCCL do all the time. */
static bool may_stop(struct recorder_thread *t, const struct op_plan *plan)
{
	if ((plan->flags & (PLAN_ASIDE | PLAN_BACKWARD | PLAN_PICK)) != PLAN_ASIDE)
		return true;
	const uint64_t was = t->loads;
	dl_iterate_phdr(take_loads, &t->loads);
	return t->loads != was;
}

static bool is_boxed(const struct recorder_thread *t, uint32_t op)
{
	return op == t->share->op[SHIM_CALL];
}

/* Whether the boxed call that begins, of an OperatorHandle, is of an operator that PyTorch tells no
 * observer (ATen/core/dispatch/ObservedOperators.cpp): profiler::_record_function_enter and its
 * like. The handle begins with the address of the operator, and that with its name. */
static bool is_unobserved(const uint64_t *regs, const struct op_plan *plan)
{
	static const char prefix[] = "profiler::_record_function";
	const uint64_t *handle = (const uint64_t *)regs[argument_reg(plan, 0)];
	const char *const *name = (const char *const *)handle[0];
	return !strncmp(*name, prefix, sizeof(prefix) - 1);
}

/* Whether the boxed call that ends, in its own frame, is the one that was entered last, and by a
 * jump: such calls that are observed, which have a schema there, are of the same op. */
static bool is_innermost(const struct recorder_thread *t, const uint64_t *regs)
{
	enum { FRAME = 512 }; /* bytes: longer than its frame, shorter than those between two */
	const uint32_t d = t->ops.depth;
	return d && is_boxed(t, t->ops.open[d - 1].op) && !t->call[d - 1].data[0] &&
	       t->ops.open[d - 1].sp - regs[ARCH_SP] < FRAME;
}

/* One that a jump announces. Member by member: with general registers alone all of it is cleared by
 * a slow instruction first. */
static void call_set(struct call *c, uint64_t sp, uint32_t base)
{
	c->rf = (const uint64_t *)(uintptr_t)sp;
	c->data[0] = c->data[1] = 0;
	c->values[0] = c->values[1] = 0;
	c->name = NULL;
	c->base = base;
	c->exceptions = 0;
}

/* Have what is read of a plan in the cache: its op may not have run for long. */
static inline void foresee(const struct shim_share *s, uint32_t op)
{
	enum { LINE = 64, LINES = 3 };
	const char *at = (const char *)&s->plan[op];
	for (unsigned i = 0; i < LINES; i++)
		__builtin_prefetch(at + (size_t)i * LINE);
	__builtin_prefetch(&s->jumped[op]);
}

static void enter_op(struct recorder_thread *t, const uint64_t *regs, uint32_t op,
		     const uint64_t *fp)
{
	if (!t->turn.rests)
		foresee(t->share, op);
	/* Early, while the plan comes into the cache. */
	uint64_t now = t->share->waits || t->turn.rests ? 0 : ticks_now(&t->ticks);
	const struct op_plan *plan = &t->share->plan[op];
	if (!t->share->jumped[op] || is_observed(t, plan) ||
	    (is_boxed(t, op) && !is_unobserved(regs, plan)))
		return;
	if (!thread_records(t, regs[ARCH_SP] + plan->entry_sp, op))
		return;
	thread_await_room(t);
	if (!now)
		now = ticks_now(&t->ticks);
	if (t->ops.depth >= OPEN_MAX) {
		thread_count(&thread_slot(t)->lost, 1);
		return;
	}
	if (t->is_brief)
		brief_foresee(&t->brief, op, HIT_ENTRY);
	struct op_hit h = thread_hit(t, op, regs, now);
	h.fp = fp;
	h.native = thread_native(t, (struct unwind_frame){0});
	recorder_ask_python(t);
	t->out.stop = h.plan->flags & PLAN_STOP && !t->share->away && may_stop(t, h.plan);
	if (shadow_stack_entry(&t->ops, &h)) {
		call_set(&t->call[t->ops.depth - 1], regs[ARCH_SP], h.plan->base);
		t->ops.open[t->ops.depth - 1].counted =
		    !(h.plan->flags & PLAN_FORWARD) || is_boxed(t, op);
	}
	/* Engine::evaluate_function(graph_task, node, ...) of torch/csrc/autograd/engine.cpp */
	if (op == t->share->op[SHIM_ENGINE])
		t->node_class = *(const uint64_t *)regs[arch_int_arg[2]];
	thread_sent(t, now, h.plan);
}

void jump_entered(const uint64_t *regs, uint32_t op, const uint64_t *fp)
{
	if (!inside_begin())
		return;
	struct recorder_thread *t = op < SHIM_PLANS ? recorder_take() : NULL;
	if (t) {
		enter_op(t, regs, op, fp);
		t->busy = false;
	}
	inside_end();
}

void jump_left(const uint64_t *regs, uint32_t op)
{
	if (!inside_again())
		return;
	struct recorder_thread *t = op < SHIM_PLANS ? state_here() : NULL;
	if (t && t->turn.rests) {
		turns_leave(t, op);
	} else if (t && t->ops.depth && (!is_boxed(t, op) || is_innermost(t, regs))) {
		t->busy = true;
		foresee(t->share, op);
		if (t->is_brief)
			brief_foresee(&t->brief, op, HIT_EXIT);
		uint64_t now = ticks_now(&t->ticks);
		thread_await_room(t);
		struct op_hit h = thread_hit(t, op, regs, now);
		t->out.stop = h.plan->flags & PLAN_STOP && !t->share->away;
		shadow_stack_exit(&t->ops, &h);
		thread_sent(t, now, h.plan);
		t->busy = false;
	}
	inside_end();
}

void jump_announced(const uint64_t *regs)
{
	if (!inside_again())
		return;
	struct recorder_thread *t = state_here();
	if (t)
		t->announced = regs[ARCH_SP];
	inside_end();
}

/* Whether the dispatch is of the op that the thread entered last. */
static bool is_known(struct recorder_thread *t, const uint64_t *regs)
{
	bool seen;
	if (t->announced > regs[ARCH_SP]) {
		t->announced = 0;
		return true;
	}
	t->announced = 0;
	return shadow_stack_dispatched(&t->ops, regs, &seen) && seen;
}

static bool is_in_list(const struct shim_share *s, uint64_t function)
{
	enum { PAD = 4 }; /* endbr64 comes before the window */
	uint32_t low = 0, high = s->nnodes < SHIM_NODES ? s->nnodes : SHIM_NODES;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (s->node[middle] < function)
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->nnodes && s->node[low] - function <= PAD;
}

/* Whether one of the functions of that vtable is the apply of a node that is listed. Behind its
 * functions comes the next vtable, which begins with an offset (Itanium C++ ABI, 2.5.2). */
static bool has_listed(const struct shim_share *s, uint64_t vtable)
{
	enum { MOST = 32 };
	uint64_t slot;
	for (unsigned i = 0; i < MOST; i++) {
		if (remote_read(remote_new(), vtable + 8ULL * i, &slot, sizeof(slot)) ||
		    slot < 4096 || slot >> 47)
			return false;
		if (is_in_list(s, slot))
			return true;
	}
	return false;
}

/* The same, remembered. */
static bool is_listed(const struct shim_share *s, uint64_t vtable)
{
	_Atomic uint64_t *of = &classes[(vtable >> 3) * 0x9e3779b97f4a7c15 >> 52];
	uint64_t is = atomic_load_explicit(of, memory_order_relaxed);
	for (unsigned i = 1; i < BESIDE && is && (is & ~1ULL) != vtable; i++)
		is = atomic_load_explicit(++of, memory_order_relaxed);
	if ((is & ~1ULL) != vtable) {
		is = vtable | has_listed(s, vtable);
		atomic_store_explicit(of, is, memory_order_relaxed);
	}
	return is & 1;
}

static bool is_within(const struct shim_share *s, uint64_t address)
{
	return address >= s->engine_from && address < s->engine_to;
}

/* What is about to be observed, if it is recorded by jumps: an enum shim_op; else SHIM_OPS. */
static enum shim_op ours(struct recorder_thread *t, const uint64_t *regs, uint32_t which,
			 uint32_t scope)
{
	const struct shim_share *s = t->share;
	const struct open_op *up = t->ops.depth ? &t->ops.open[t->ops.depth - 1] : NULL;
	if (which == SHIM_STEP_RECORD && scope == RECORD_FUNCTION)
		return is_within(s, *(const uint64_t *)regs[ARCH_SP]) ? SHIM_ENGINE : SHIM_OPS;
	if (which == SHIM_STEP_DISPATCH && scope == RECORD_FUNCTION)
		return is_known(t, regs) ? SHIM_CALL : SHIM_OPS;
	if (which != SHIM_STEP_DISPATCH || scope != RECORD_BACKWARD || !s->nnodes || !up)
		return SHIM_OPS;
	bool is_evaluated = up->op == s->op[SHIM_ENGINE] && up->sp > regs[ARCH_SP];
	return is_evaluated && is_listed(s, t->node_class) ? SHIM_NODE : SHIM_OPS;
}

/* Whether the calling thread is observed by the program itself, too. */
static bool has_others(void)
{
	const bool local = has_local && has_local();
	if (local && !theirs_here)
		theirs_here = true;
	return theirs || !has_local || local;
}

/* Nobody is to be told of an op that is left out. */
static void rest(struct recorder_thread *t, uint64_t *regs)
{
	uint64_t *scope = &regs[arch_int_arg[1]];
	const bool asked =
	    (uint32_t)*scope == RECORD_FUNCTION || (uint32_t)*scope == RECORD_BACKWARD;
	turns_pass(t, regs[ARCH_SP]);
	if (asked && !has_others())
		*scope = SCOPE_UNOBSERVED;
}

/* The scope is the second argument of both functions: one returns through a hidden pointer, the
 * other is a constructor. */
static void step(struct recorder_thread *t, uint64_t *regs, uint32_t which)
{
	const unsigned scope = arch_int_arg[1];
	t->known = 0;
	if (t->turn.rests) {
		rest(t, regs);
		return;
	}
	enum shim_op op = ours(t, regs, which, (uint32_t)regs[scope]);
	if (op == SHIM_OPS)
		return;
	if (!has_others() && !recorder_learns())
		regs[scope] = SCOPE_UNOBSERVED;
	else
		t->known = 1U << op;
}

static void yield(void *unused)
{
	(void)unused;
	activities_yield();
}

bool jumps_see_others(void)
{
	return theirs || theirs_here;
}

void jump_stepped(uint64_t *regs, uint32_t which)
{
	/* The thread that adds a callback may never have run an op. */
	if (which == SHIM_STEP_CALLBACK)
		theirs |= !adding;
	if (which == SHIM_STEP_PROFILER)
		saved_call(yield, NULL);
	if (!inside_again())
		return;
	struct recorder_thread *t = state_here();
	if (which != SHIM_STEP_CALLBACK && t && t->share->jumps)
		step(t, regs, which);
	inside_end();
}

void jumps_are_adding(bool own)
{
	adding = own;
}

void jumps_begin(bool others, bool (*local)(void))
{
	theirs = others;
	theirs_here = false;
	has_local = local;
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		classes[i] = 0;
}

/* What is done with memory, as libc10 is told of it. A record is put into a ring of its own, which
 * is read quickly: what has been freed can only be told if every record is there. */

enum { CPU = 0 }; /* c10::DeviceType */

/* False: it is nothing to be told. A c10::Device is passed by value: type and index, a byte each
 * (c10/core/Device.h). */
static bool memory_fill(struct shim_memory_record *m, const uint64_t *regs, uint32_t which)
{
	const uint8_t *arg = arch_int_arg;
	const bool is_device = which == SHIM_MEMORY_REPORT;
	m->hit.op = which;
	m->hit.sp = regs[arg[is_device ? 0 : 1]];
	if (is_device) {
		m->hit.seq = regs[arg[1]];
		m->total = regs[arg[2]];
		m->reserved = regs[arg[3]];
		m->hit.generation = (uint16_t)regs[arg[4]];
		return (int8_t)m->hit.generation != CPU && m->hit.seq;
	}
	m->hit.seq = which == SHIM_MEMORY_NEW ? regs[arg[2]] : 0;
	return m->hit.sp && (m->hit.seq || which == SHIM_MEMORY_DELETE);
}

static void memory_put(struct recorder_thread *t, struct shim_memory_record *m)
{
	struct shim_thread *of = thread_slot(t);
	struct shim_memory_record *to =
	    chunks_room(&of->memory, &t->memory, t->share->memory_ring[t->index], sizeof(*to), 0);
	if (!to) {
		thread_count(&of->memory_lost, 1);
		return;
	}
	m->hit.ts = ticks_now(&t->ticks);
	m->hit.size = sizeof(*m);
	*to = *m;
	chunks_done(&of->memory, &to->hit);
}

void jump_memory_told(const uint64_t *regs, uint32_t which)
{
	struct shim_memory_record m = {.hit = {.size = 0}};
	if (!memory_fill(&m, regs, which) || !inside_begin())
		return;
	struct recorder_thread *t = recorder_take();
	if (t) {
		memory_put(t, &m);
		t->busy = false;
	}
	inside_end();
}
