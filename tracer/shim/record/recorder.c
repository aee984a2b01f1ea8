/* Records what the callbacks on at::RecordFunction report. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "symbolizer/code/arch_x86_64.h"
#include "tracer/engine/plan_reader.h"
#include "tracer/shim/record/internal.h"
#include "tracer/shim/shim.h"

enum { CHECKED = 64, SAMPLE = 64 };

/* Per thread, valid as long as it lives (Itanium C++ ABI: exception handling, 2.2.2). */
struct eh_globals {
	void *caught;
	unsigned int uncaught;
};

static struct {
	uint64_t (*add)(struct record_callback);
	void (*remove)(uint64_t);
	const char *(*name)(const uint64_t *);
	uint64_t (*num_inputs)(const uint64_t *);
	struct eh_globals *(*exceptions)(void); /* __cxa_get_globals */
	uint64_t (*sequence)(void);		/* at::sequence_number::peek */
	void *(*py_state)(void); /* PyGILState_GetThisThreadState, NULL: no CPython */
} torch;

static struct record_layout layout;
static _Atomic unsigned checked;
static uint64_t handles[2];
static _Atomic int registered;

static void *libtorch;
static bool (*come_forked)(void *torch);
static bool exiting;
/* ditrace was once too slow to read a new operator: threads no longer stop for them. */
static _Atomic bool unheard;
/* The last wait for ditrace was in vain: it stands still, and threads wait for a moment only. */
static _Atomic bool unanswered;

static void give_up(struct shim_share *s, enum shim_refusal why)
{
	atomic_store(&s->refusal, why);
	atomic_store(&s->on, 0);
	checked = 0;
	shim_go();
}

/* The shared memory, if ops are to be recorded now. */
static struct shim_share *recording(void)
{
	struct shim_share *s = shim_share();
	if (!s && shim_take_forked() && !come_forked(libtorch))
		recorder_stop();
	s = shim_share();
	return s && atomic_load_explicit(&s->on, memory_order_relaxed) ? s : NULL;
}

static struct op_hit hit_of(struct recorder_thread *t, enum shim_op op, const uint64_t *regs,
			    uint64_t now)
{
	struct shim_share *s = t->share;
	return (struct op_hit){
	    .mem = remote_new(),
	    .out = &t->out,
	    .conf = &t->conf,
	    .plan = &s->plan[op],
	    .regs = regs,
	    .fsbase = (uint64_t)(uintptr_t)__builtin_thread_pointer(),
	    .ts = now,
	    .op = s->op[op],
	    .proc = s->proc,
	};
}

/* Whether the thread, in this state after that many milliseconds, is to go on by itself; the first
 * look at ditrace's state is soon enough after a wait of LOOK_MS. */
static bool is_enough(const struct shim_share *s, uint32_t state, int ms, int patience_ms)
{
	enum { LOOK_MS = 100 };
	if (state == SHIM_STANDS && (ms > patience_ms || !s->on || s->away))
		return true;
	return (ms % LOOK_MS == 0) && ms && shim_is_stopped();
}

/* Wait as enum shim_stand describes. Returns whether ditrace has looked. */
static bool stand_still(struct recorder_thread *t, int patience_ms)
{
	const bool is_short = unanswered;
	const int turn_ms = is_short ? SHIM_SHORT_PATIENCE_MS : 20;
	const struct timespec turn = {.tv_nsec = turn_ms * 1000 * 1000};
	_Atomic uint32_t *stand = &thread_slot(t)->stand;
	int saved = errno;
	uint32_t now, state;
	shim_wake();
	bool looked = true;
	for (int ms = 0; looked && shim_share() == t->share; ms += turn_ms) {
		now = *stand;
		state = now & SHIM_STAND_MASK;
		if (state == SHIM_GOES)
			break;
		if (is_enough(t->share, state, ms, is_short ? turn_ms : patience_ms))
			looked =
			    !atomic_compare_exchange_strong(stand, &now, now & ~SHIM_STAND_MASK);
		else
			syscall(SYS_futex, stand, FUTEX_WAIT, now, &turn, NULL, 0);
	}
	unanswered = !looked && t->share->on && !t->share->away;
	errno = saved;
	return looked;
}

static void account(struct recorder_thread *t, uint64_t since)
{
	struct shim_thread *of = thread_slot(t);
	if (thread_count(&of->hits, 1) % SAMPLE != SAMPLE - 1)
		return;
	thread_count(&of->sampled, 1);
	thread_count(&of->sampled_ns, ticks_now(&t->ticks) - since);
}

static void sent(struct recorder_thread *t, uint64_t since, const struct op_plan *plan)
{
	const int second = 1000;
	account(t, since);
	t->out.stop = false;
	if (t->out.held && plan->flags & PLAN_STOP)
		stand_still(t, SHIM_PATIENCE_S * second);
	else if (t->out.held && !stand_still(t, SHIM_NEW_PATIENCE_S * second))
		unheard = true;
	t->out.held = false;
}

static void enter(struct recorder_thread *t, enum shim_op op, const uint64_t *rf,
		  const struct call *call, uint64_t count, const char *name, uint64_t now)
{
	if (t->ops.depth >= OPEN_MAX) {
		thread_count(&thread_slot(t)->lost, 1);
		return;
	}
	uint64_t *regs = t->regs;
	struct op_hit h = hit_of(t, op, regs, now);
	/* A copy, for the slot that is top once ops left by an exception are dropped. */
	struct call kept = *call;
	regs[ARCH_SP] = (uint64_t)(uintptr_t)rf;
	regs[arch_int_arg[SHIM_LOC_DATA]] = (uint64_t)(uintptr_t)kept.data;
	regs[arch_int_arg[SHIM_LOC_VALUES]] =
	    op == SHIM_NODE ? (uint64_t)(uintptr_t)t->tensors : (uint64_t)(uintptr_t)kept.values;
	regs[arch_int_arg[SHIM_LOC_COUNT]] = count;
	if (op == SHIM_FUNCTION || op == SHIM_NODE) {
		regs[arch_int_arg[SHIM_LOC_NAME]] = (uint64_t)(uintptr_t)name;
		regs[arch_int_arg[SHIM_LOC_NAME_LEN]] = strlen(name);
	}
	if (torch.py_state) {
		t->ops.py.tstate = (uint64_t)(uintptr_t)torch.py_state();
		t->ops.py.is_certain = true;
	}
	t->out.stop = h.plan->flags & PLAN_STOP && !t->share->away;
	if (shadow_stack_entry(&t->ops, &h))
		t->call[t->ops.depth - 1] = kept;
	sent(t, now, h.plan);
}

/* The tensors of a node's gradients, as an array of at::Tensor. */
static uint64_t take_tensors(struct recorder_thread *t, const uint64_t *v, uint64_t n)
{
	for (uint64_t i = 0; i < n && i < LIST_MAX; i++)
		t->tensors[i] = (uint32_t)v[2 * i + 1] == IVALUE_TENSOR ? v[2 * i] : 0;
	return n;
}

static bool check_start(struct shim_share *s, const uint64_t *rf, const char *name)
{
	if (checked >= CHECKED)
		return true;
	checked++;
	if (record_layout_start(&layout, rf, name, torch.num_inputs(rf)))
		return true;
	give_up(s, SHIM_NO_LAYOUT);
	return false;
}

/* The name that Engine::evaluate_function (torch/csrc/autograd/engine.cpp) gives its own record. */
static bool is_engine(const char *name)
{
	static const char prefix[] = "autograd::engine::evaluate_function: ";
	return !strncmp(name, prefix, sizeof(prefix) - 1);
}

/* Records of PyTorch's inner workings: of dispatch to Python, and those that kernels of some ops
 * make again, without a namespace (aten::detach's). */
static bool is_inner(const struct recorder_thread *t, const uint64_t *rf, const char *name)
{
	if (!strcmp(name, "PythonDispatchMode") || !strcmp(name, "PythonSubclass"))
		return true;
	const struct call *up = t->ops.depth ? &t->call[t->ops.depth - 1] : NULL;
	if (!up || up->rf <= rf || !up->name)
		return false;
	const char *colons = strstr(up->name, "::");
	return colons && !strcmp(colons + 2, name);
}

static enum shim_op kind_of(const uint64_t *rf, const char *name, int scope)
{
	if (scope == RECORD_BACKWARD)
		return SHIM_NODE;
	if (layout.inputs && !record_is_named(&layout, rf, name))
		return SHIM_CALL;
	if (is_engine(name))
		return SHIM_ENGINE;
	return layout.inputs ? SHIM_FUNCTION : SHIM_CALL;
}

static void **start(void **context, const uint64_t *rf, int scope)
{
	*context = NULL;
	struct shim_share *s = recording();
	struct recorder_thread *t = s ? thread_here(s) : NULL;
	if (!t || t->busy || !thread_update(t))
		return context;
	t->busy = true;
	uint64_t now = ticks_now(&t->ticks);
	if (!t->exceptions)
		t->exceptions = torch.exceptions();
	const char *name = torch.name(rf);
	enum shim_op op = kind_of(rf, name, scope);
	if ((op == SHIM_CALL && !check_start(s, rf, name)) || !layout.inputs ||
	    (op == SHIM_FUNCTION && is_inner(t, rf, name)))
		goto out;
	const uint64_t *values = (const uint64_t *)(uintptr_t)rf[layout.inputs];
	uint64_t n = rf[layout.inputs + 1];
	struct call call = {
	    .rf = rf,
	    .data = {op == SHIM_CALL ? rf[layout.fn] : 0, op == SHIM_CALL ? 0 : rf[layout.seq]},
	    .values = {rf[layout.inputs], rf[layout.inputs] + 16 * n},
	    .name = op == SHIM_CALL ? name : NULL,
	    .exceptions = t->exceptions->uncaught,
	};
	enter(t, op, rf, &call, op == SHIM_NODE ? take_tensors(t, values, n) : n, name, now);
out:
	t->busy = false;
	return context;
}

static bool is_new(const struct call *c)
{
	return c->name && !unheard && new_operators_meet(c->name, c->data[0]);
}

static void leave(struct recorder_thread *t, struct call *call, const uint64_t *rf, uint64_t now)
{
	t->regs[ARCH_SP] = (uint64_t)(uintptr_t)rf;
	uint32_t op = t->ops.open[call - t->call].op;
	enum shim_op kind = SHIM_CALL;
	while (kind < SHIM_OPS && t->share->op[kind] != op)
		kind++;
	if (kind == SHIM_OPS)
		return;
	if (layout.outputs)
		memcpy(call->values, &rf[layout.outputs], sizeof(call->values));
	else
		call->values[1] = call->values[0];
	/* Without a node, the sequence number that it would have had is still unused. */
	if (kind == SHIM_FUNCTION)
		call->data[0] = torch.sequence() > call->data[1];
	uint64_t *w = t->ops.open[call - t->call].w;
	w[SHIM_LOC_VALUES] = (uint64_t)(uintptr_t)call->values;
	w[SHIM_LOC_DATA] = (uint64_t)(uintptr_t)call->data;
	struct op_hit h = hit_of(t, kind, t->regs, now);
	t->awaited |= is_new(call);
	t->out.stop = (h.plan->flags & PLAN_STOP || t->awaited) && !t->share->away;
	shadow_stack_exit(&t->ops, &h);
	t->awaited &= !t->out.held;
	sent(t, now, h.plan);
}

/* An op that throws has no exit record; the next record shows that it has ended. */
static void end(const uint64_t *rf)
{
	struct recorder_thread *t = inside_memory_had();
	struct shim_share *s = shim_share();
	if (!t || !s || t->share != s || t->busy || t->epoch != shim_epoch())
		return;
	uint32_t d = t->ops.depth;
	while (d > 0 && t->call[d - 1].rf != rf)
		d--;
	if (!d)
		return;
	if (t->call[d - 1].exceptions != t->exceptions->uncaught) {
		t->awaited |= is_new(&t->call[d - 1]);
		return;
	}
	t->busy = true;
	if (checked < CHECKED && !record_layout_end(&layout, rf))
		give_up(s, SHIM_NO_LAYOUT);
	else
		leave(t, &t->call[d - 1], rf, ticks_now(&t->ticks));
	t->busy = false;
}

static void **start_function(void **context, const uint64_t *rf)
{
	*context = NULL;
	if (inside_begin()) {
		start(context, rf, RECORD_FUNCTION);
		inside_end();
	}
	return context;
}

static void **start_backward(void **context, const uint64_t *rf)
{
	*context = NULL;
	if (inside_begin()) {
		start(context, rf, RECORD_BACKWARD);
		inside_end();
	}
	return context;
}

static void end_either(const uint64_t *rf, void *context)
{
	(void)context;
	if (inside_begin()) {
		end(rf);
		inside_end();
	}
}

static void tell_code_freed(uint64_t code)
{
	struct shim_share *s = shim_share();
	struct recorder_thread *t = s && atomic_load(&s->on) ? thread_here(s) : NULL;
	if (!t || t->busy || !thread_update(t))
		return;
	t->busy = true;
	uint64_t regs[ARCH_REGS] = {0};
	regs[ARCH_ARG0] = code;
	struct op_hit h = hit_of(t, SHIM_CALL, regs, ticks_now(&t->ticks));
	h.plan = NULL;
	shadow_stack_code_freed(&t->ops, &h);
	t->busy = false;
}

static void code_freed(uint64_t code)
{
	if (inside_begin()) {
		tell_code_freed(code);
		inside_end();
	}
}

static bool find_symbols(void *h)
{
	torch.add = (uint64_t(*)(struct record_callback))dlsym(h, RECORD_ADD);
	torch.remove = (void (*)(uint64_t))dlsym(h, RECORD_REMOVE);
	torch.name = (const char *(*)(const uint64_t *))dlsym(h, "_ZNK2at14RecordFunction4nameEv");
	torch.num_inputs =
	    (uint64_t(*)(const uint64_t *))dlsym(h, "_ZNK2at14RecordFunction10num_inputsEv");
	torch.exceptions = (struct eh_globals * (*)(void)) dlsym(h, "__cxa_get_globals");
	torch.py_state = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
	torch.sequence = (uint64_t(*)(void))dlsym(h, "_ZN2at15sequence_number4peekEv");
	return torch.add && torch.remove && torch.name && torch.num_inputs && torch.exceptions &&
	       torch.sequence;
}

/* Runs before libtorch's static objects are destroyed; they are not touched afterwards. */
static void at_exit(void)
{
	shim_lock();
	exiting = true;
	shim_unlock();
}

static void add_callbacks(void)
{
	static bool first = true;
	struct record_callback c = {
	    .end = end_either, .probability = 1, .inputs = true, .outputs = true};
	c.start = start_function;
	c.scopes[RECORD_FUNCTION] = true;
	handles[0] = torch.add(c);
	c.start = start_backward;
	c.scopes[RECORD_FUNCTION] = false;
	c.scopes[RECORD_BACKWARD] = true;
	handles[1] = torch.add(c);
	registered = 1;
	if (first)
		atexit(at_exit);
	first = false;
}

void recorder_start(void *h, bool (*come)(void *torch))
{
	struct shim_share *s = shim_share();
	if (!find_symbols(h)) {
		give_up(s, SHIM_NO_SYMBOLS);
		return;
	}
	libtorch = h;
	come_forked = come;
	unheard = unanswered = false;
	new_operators_begin();
	ticks_prepare();
	shim_lock();
	if (!registered && !exiting)
		add_callbacks();
	shim_unlock();
	if (s->code_freed)
		pycode_watch(code_freed);
}

void recorder_stop(void)
{
	int one = 1;
	pycode_unwatch();
	shim_lock();
	if (atomic_compare_exchange_strong(&registered, &one, 0) && !exiting) {
		torch.remove(handles[0]);
		torch.remove(handles[1]);
	}
	shim_unlock();
}
