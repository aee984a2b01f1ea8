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

enum { CHECKED = 64 };

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
	struct eh_globals *(*exceptions)(void);	      /* __cxa_get_globals */
	uint64_t (*sequence)(void);		      /* at::sequence_number::peek */
	bool (*has_global)(void), (*has_local)(void); /* at::has...Callbacks; NULL: not known */
	void *(*py_state)(void); /* PyGILState_GetThisThreadState, NULL: no CPython */
} torch;

static struct record_layout layout;
static _Atomic unsigned checked;
static _Atomic bool is_unknown; /* the layout: nothing is taken from it */
static uint64_t handles[2];
static _Atomic int registered;

static void *libtorch;
static bool (*come_forked)(void *torch);
static bool exiting;
/* With jumps, what they do not announce is missing. */
static void give_up(struct shim_share *s, enum shim_refusal why)
{
	atomic_store(&s->refusal, why);
	if (s->jumps) {
		is_unknown = true;
		return;
	}
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

struct recorder_thread *recorder_take(void)
{
	struct shim_share *s = recording();
	struct recorder_thread *t = s ? thread_here(s) : NULL;
	if (!t || t->busy || !thread_update(t))
		return NULL;
	t->busy = true;
	return t;
}

void recorder_ask_python(struct recorder_thread *t)
{
	if (!torch.py_state)
		return;
	t->ops.py.tstate = (uint64_t)(uintptr_t)torch.py_state();
	t->ops.py.is_certain = true;
}

static void enter(struct recorder_thread *t, enum shim_op op, const uint64_t *rf,
		  const struct call *call, uint64_t count, const char *name, uint64_t now)
{
	if (t->ops.depth >= OPEN_MAX) {
		thread_count(&thread_slot(t)->lost, 1);
		return;
	}
	uint64_t *regs = t->regs;
	struct op_hit h = thread_hit(t, t->share->op[op], regs, now);
	/* A copy, for the slot that is top once ops left by an exception are dropped; always at the
	 * same address, which is in the record. */
	struct call *kept = &t->entering;
	*kept = *call;
	regs[ARCH_SP] = (uint64_t)(uintptr_t)rf;
	regs[argument_reg(h.plan, SHIM_LOC_DATA)] = (uint64_t)(uintptr_t)kept->data;
	regs[argument_reg(h.plan, SHIM_LOC_VALUES)] =
	    op == SHIM_NODE ? (uint64_t)(uintptr_t)t->tensors : (uint64_t)(uintptr_t)kept->values;
	regs[argument_reg(h.plan, SHIM_LOC_COUNT)] = count;
	if (op == SHIM_FUNCTION || op == SHIM_NODE) {
		regs[argument_reg(h.plan, SHIM_LOC_NAME)] = (uint64_t)(uintptr_t)name;
		regs[argument_reg(h.plan, SHIM_LOC_NAME_LEN)] = strlen(name);
	}
	h.native = thread_native(t, unwind_here());
	recorder_ask_python(t);
	t->out.stop = h.plan->flags & PLAN_STOP && !t->share->away;
	if (shadow_stack_entry(&t->ops, &h)) {
		t->call[t->ops.depth - 1] = *kept;
		t->ops.open[t->ops.depth - 1].counted = true; /* it has been dispatched */
	}
	thread_sent(t, now, h.plan);
}

static const struct eh_globals *exceptions_of(struct recorder_thread *t)
{
	if (!t->exceptions)
		t->exceptions = torch.exceptions();
	return t->exceptions;
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
	if (is_unknown)
		return false;
	if (checked >= CHECKED)
		return true;
	checked++;
	if (record_layout_start(&layout, rf, name, torch.num_inputs(rf)) &&
	    (layout.inputs || checked < CHECKED))
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

/* Records of PyTorch's inner workings: of dispatch to Python, of parts of it in C++ (those of DDP's
 * reducer: a class of Python has no namespace), and those that kernels of some ops make again
 * (aten::detach's). */
static bool is_inner(const struct recorder_thread *t, const uint64_t *rf, const char *name)
{
	if (!strcmp(name, "PythonDispatchMode") || !strcmp(name, "PythonSubclass") ||
	    strstr(name, "::"))
		return true;
	const struct call *up = t->ops.depth ? &t->call[t->ops.depth - 1] : NULL;
	return up && up->rf > rf && up->base && up->base == plan_base(name);
}

/* A record that an object owns (torch/csrc/dynamo/cpp_shim.cpp) encloses no call, and by its place
 * in memory it would be told to have ended. One on the stack is some frames above the callback. */
static bool is_on_stack(const uint64_t *rf)
{
	enum { FRAMES_MAX = 64 << 10 };
	return (uintptr_t)rf - (uintptr_t)__builtin_frame_address(0) < FRAMES_MAX;
}

static enum shim_op kind_of(const uint64_t *rf, const char *name, int scope)
{
	if (scope == RECORD_BACKWARD)
		return SHIM_NODE;
	if (!record_is_named(&layout, rf, name))
		return SHIM_CALL;
	return is_engine(name) ? SHIM_ENGINE : SHIM_FUNCTION;
}

bool recorder_learns(void)
{
	return checked < CHECKED && !is_unknown;
}

/* Of an op that jumps record. */
static void learn(struct recorder_thread *t, const uint64_t *rf, enum shim_op op, const char *name)
{
	if (op != SHIM_CALL || !recorder_learns() || !check_start(t->share, rf, name))
		return;
	t->learned = rf;
	t->learned_exceptions = exceptions_of(t)->uncaught;
}

static void **start(void **context, const uint64_t *rf, int scope)
{
	*context = NULL;
	struct recorder_thread *t = recorder_take();
	if (!t)
		return context;
	const char *name = torch.name(rf);
	enum shim_op op = kind_of(rf, name, scope);
	unsigned known = t->known & 1U << op;
	t->known = 0;
	if (known) {
		learn(t, rf, op, name);
		goto out;
	}
	if (t->turn.rests)
		goto out;
	thread_await_room(t);
	uint64_t now = ticks_now(&t->ticks);
	if ((op == SHIM_CALL && !check_start(t->share, rf, name)) || !layout.inputs || is_unknown ||
	    !is_on_stack(rf) || (op == SHIM_FUNCTION && is_inner(t, rf, name)))
		goto out;
	const uint64_t *values = (const uint64_t *)(uintptr_t)rf[layout.inputs];
	uint64_t n = rf[layout.inputs + 1];
	struct call call = {
	    .rf = rf,
	    .data = {op == SHIM_CALL ? rf[layout.fn] : 0, op == SHIM_CALL ? 0 : rf[layout.seq]},
	    .values = {rf[layout.inputs], rf[layout.inputs] + 16 * n},
	    .name = op == SHIM_CALL ? name : NULL,
	    .base = op == SHIM_CALL ? plan_base(name) : 0,
	    .exceptions = exceptions_of(t)->uncaught,
	};
	enter(t, op, rf, &call, op == SHIM_NODE ? take_tensors(t, values, n) : n, name, now);
out:
	t->busy = false;
	return context;
}

static bool is_new(const struct call *c)
{
	return c->name && !stand_is_unheard() && new_operators_meet(c->name, c->data[0]);
}

static void leave(struct recorder_thread *t, struct call *call, const uint64_t *rf, uint64_t now)
{
	thread_await_room(t);
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
	struct op_hit h = thread_hit(t, t->share->op[kind], t->regs, now);
	t->awaited |= is_new(call);
	t->out.stop = (h.plan->flags & PLAN_STOP || t->awaited) && !t->share->away;
	shadow_stack_exit(&t->ops, &h);
	t->awaited &= !t->out.held;
	thread_sent(t, now, h.plan);
}

/* An op that throws has no exit record; the next record shows that it has ended. */
static void end(const uint64_t *rf)
{
	struct recorder_thread *t = inside_memory_had();
	struct shim_share *s = shim_share();
	if (!t || !s || t->share != s || t->busy || t->epoch != shim_epoch())
		return;
	if (rf == t->learned) {
		t->learned = NULL;
		if (t->learned_exceptions == exceptions_of(t)->uncaught &&
		    !record_layout_end(&layout, rf))
			give_up(s, SHIM_NO_LAYOUT);
		return;
	}
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
	struct recorder_thread *t = recorder_take();
	if (!t)
		return;
	uint64_t regs[ARCH_REGS] = {0};
	regs[ARCH_ARG0] = code;
	struct op_hit h = thread_hit(t, t->share->op[SHIM_CALL], regs, ticks_now(&t->ticks));
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
	torch.has_global = (bool (*)(void))dlsym(h, "_ZN2at18hasGlobalCallbacksEv");
	torch.has_local = (bool (*)(void))dlsym(h, "_ZN2at23hasThreadLocalCallbacksEv");
	return torch.add && torch.remove && torch.name && torch.num_inputs && torch.exceptions &&
	       torch.sequence;
}

/* Runs before libtorch's static objects are destroyed; they are not touched afterwards. */
static void at_exit(void)
{
	activities_exit();
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
	jumps_are_adding(true);
	handles[0] = torch.add(c);
	c.start = start_backward;
	c.scopes[RECORD_FUNCTION] = false;
	c.scopes[RECORD_BACKWARD] = true;
	handles[1] = torch.add(c);
	jumps_are_adding(false);
	registered = 1;
	if (first)
		atexit(at_exit);
	first = false;
}

void recorder_look(void)
{
	const struct shim_share *s = shim_share();
	if (s && s->code_freed)
		pycode_watch(code_freed);
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
	stand_begin();
	if (is_unknown) {
		layout = (struct record_layout){0};
		checked = 0;
		is_unknown = false;
	}
	new_operators_begin();
	pyframes_begin();
	ticks_prepare();
	shim_lock();
	if (!registered && !exiting) {
		jumps_begin(!torch.has_global || torch.has_global(), torch.has_local);
		add_callbacks();
	}
	shim_unlock();
	recorder_look();
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
