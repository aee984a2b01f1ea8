/* Threads that were running when the modes were installed, or that Python did not start: only a
 * thread itself can change its stack of modes, so each is caught when it calls an op. */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/system.h"
#include "tracer/shim/extension/modes.h"
#include "tracer/shim/shim.h"

/* std::shared_ptr<c10::SafePyObject>, whose first word is the Python object
 * (c10/core/SafePyObject.h). */
struct shared {
	object *const *object;
	void *count;
};

/* at::impl::PythonTorchFunctionTLS (ATen/PythonTorchFunctionTLS.h) and
 * c10::impl::TorchDispatchModeTLS: static member functions, which return objects through a hidden
 * pointer. Before 2.0 a stack that is not empty has a mode in Python that calls those on it. */
static struct stack {
	const char *len_name, *at_name, *pop_name, *swap_name;
	int64_t (*len)(void);
	const struct shared *(*at)(int64_t);
	struct shared *(*pop)(struct shared *);
	void (*swap)(struct shared *);
} stacks[] = {
    {"_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv",
     "_ZN2at4impl22PythonTorchFunctionTLS12get_stack_atEl",
     "_ZN2at4impl22PythonTorchFunctionTLS9pop_stackEv",
     "_ZN2at4impl22PythonTorchFunctionTLS9swap_modeERSt10shared_ptrIN3c1012SafePyObjectEE", NULL,
     NULL, NULL, NULL},
    {"_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv",
     "_ZN3c104impl20TorchDispatchModeTLS12get_stack_atEl",
     "_ZN3c104impl20TorchDispatchModeTLS9pop_stackEv",
     "_ZN3c104impl20TorchDispatchModeTLS9swap_modeERSt10shared_ptrINS_12SafePyObjectEE", NULL, NULL,
     NULL, NULL},
};
enum { STACKS = sizeof(stacks) / sizeof(stacks[0]) };

extern int __cxa_thread_atexit_impl(void (*f)(void *), void *arg, void *dso); /* glibc 2.18 */

/* The popped reference is leaked on purpose: the mode lives as long as the process. */
static void thread_ends(void *unused)
{
	(void)unused;
	for (int i = 0; i < STACKS; i++) {
		const struct stack *s = &stacks[i];
		struct shared asking = {0}, last;
		if (!s->len || !s->at || !s->pop || s->len() != 1 ||
		    !modes_is_mode(*s->at(0)->object))
			continue;
		if (s->swap)
			s->swap(&asking);
		s->pop(&last);
	}
}

/* Look up the needed functions; `torch`: dlopen handle of libtorch_cpu. */
static void modes_thread_end_find(void *torch)
{
	for (int i = 0; i < STACKS; i++) {
		struct stack *s = &stacks[i];
		s->len = (int64_t(*)(void))dlsym(torch, s->len_name);
		s->at = (const struct shared *(*)(int64_t))dlsym(torch, s->at_name);
		s->swap = (void (*)(struct shared *))dlsym(torch, s->swap_name);
		s->pop = (struct shared * (*)(struct shared *)) dlsym(torch, s->pop_name);
	}
}

/* Thread-local destructors run in reverse order of registration, and a stack registers its own when
 * it is first used. So use both here: a stack first used later would be destroyed before ours runs.
 */
/* Called on a thread other than the main one that has the mode on: remove it from the thread's mode
 * stacks when it ends. PyTorch would take the GIL to drop its reference, and deadlock when the GIL
 * is held by whoever joins the thread. */
static void modes_thread_end_watch(void)
{
	static __thread bool watched;
	static char dso;
	if (watched)
		return;
	watched = true;
	for (int i = 0; i < STACKS; i++)
		if (stacks[i].len)
			stacks[i].len();
	__cxa_thread_atexit_impl(thread_ends, NULL, &dso);
}

enum { EVERY_NS = 20 * 1000 * 1000 };

static struct {
	void *(*thread_state)(void);
	int (*ensure)(void);
	void (*release)(int);
	uint64_t (*add)(struct record_callback);
	void (*remove)(uint64_t);
	bool (*in_parallel_region)(void); /* at::in_parallel_region; NULL: not found */
} f;
static bool (*enter)(void);
static uint64_t handle;
static bool added;
static _Atomic bool exiting;
static __thread uint64_t asked_ns;

enum known { KNOWN_ENTERED, KNOWN_WITHOUT_PYTHON, KNOWN_NOT_ENTERED, KNOWN };
static _Atomic long threads[KNOWN]; /* that ran an op, by what was found last */
static _Atomic unsigned counting;   /* incremented to restart the counts */
static __thread unsigned counted;
static __thread enum known counted_as;

static void count_as(enum known now)
{
	if (counted == counting && counted_as == now)
		return;
	if (counted == counting)
		threads[counted_as]--;
	counted = counting;
	counted_as = now;
	threads[now]++;
}

/* Whether the mode of operators came with a task: autograd's threads have that of the thread that
 * called backward() while they run nodes (at::ThreadLocalState), though Python does not know them.
 */
static bool is_carried(void)
{
	const struct stack *s = &stacks[STACKS - 1];
	for (int64_t i = s->len && s->at ? s->len() : 0; i-- > 0;)
		if (modes_is_mode(*s->at(i)->object))
			return true;
	return false;
}

/* Only a thread that Python knows may wait for the GIL: a holder of the GIL does not wait for such
 * a thread. */
static void **on_op(void **context, const uint64_t *rf)
{
	(void)rf;
	*context = NULL;
	uint64_t now = clock_ns(CLOCK_MONOTONIC_COARSE);
	if (now - asked_ns < EVERY_NS || !modes_ready || modes_out || exiting)
		return context;
	if (!f.thread_state()) {
		if (f.in_parallel_region && f.in_parallel_region())
			return context; /* a part of an op of another thread */
		count_as(is_carried() ? KNOWN_ENTERED : KNOWN_WITHOUT_PYTHON);
		return context;
	}
	asked_ns = now;
	int state = f.ensure();
	bool on = enter();
	if (!modes_out)
		count_as(on ? KNOWN_ENTERED : KNOWN_NOT_ENTERED);
	f.release(state);
	if (on && syscall(SYS_gettid) != getpid())
		modes_thread_end_watch();
	return context;
}

static void at_end(const uint64_t *rf, void *context)
{
	(void)rf, (void)context;
}

/* Runs before libtorch's static objects are destroyed; they are not touched afterwards. */
static void at_exit(void)
{
	exiting = true;
}

object *modes_threads_end(object *self, object *unused)
{
	(void)self, (void)unused;
	at_exit();
	return python_none();
}

static bool functions_find(void *torch)
{
	f.thread_state = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
	f.ensure = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
	f.release = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
	f.add = (uint64_t(*)(struct record_callback))dlsym(torch, RECORD_ADD);
	f.remove = (void (*)(uint64_t))dlsym(torch, RECORD_REMOVE);
	f.in_parallel_region = (bool (*)(void))dlsym(torch, "_ZN2at18in_parallel_regionEv");
	return f.thread_state && f.ensure && f.release && f.add && f.remove;
}

void modes_threads_start(bool (*fn)(void))
{
	static bool first = true;
	struct record_callback c = {.start = on_op, .end = at_end, .probability = 1};
	c.scopes[RECORD_FUNCTION] = true;
	void *torch = added || exiting ? NULL : shim_find_torch();
	if (!torch || !functions_find(torch))
		return;
	modes_thread_end_find(torch);
	if (first)
		atexit(at_exit);
	first = false;
	enter = fn;
	handle = f.add(c);
	added = true;
}

void modes_threads_forget(void)
{
	counting++;
	for (int i = 0; i < KNOWN; i++)
		threads[i] = 0;
}

object *modes_threads(object *self, object *unused)
{
	object *n[KNOWN], *r = NULL;
	(void)self, (void)unused;
	for (int i = 0; i < KNOWN; i++)
		n[i] = py.PyLong_FromLong(threads[i]);
	if (n[0] && n[1] && n[2])
		r = py.PyTuple_Pack(KNOWN, n[0], n[1], n[2]);
	for (int i = 0; i < KNOWN; i++)
		python_drop(n[i]);
	return r;
}

void modes_threads_stop(void)
{
	if (added && !exiting)
		f.remove(handle);
	added = false;
}
