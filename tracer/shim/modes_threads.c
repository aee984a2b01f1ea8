/* Threads that run already when the modes come in: each has a stack of modes that only itself can
 * change, and is found when it calls an op. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tracer/shim/record_callback.h"
#include "tracer/shim/shim.h"

enum { EVERY_NS = 20 * 1000 * 1000 };

static struct {
	void *(*thread_state)(void);
	int (*ensure)(void);
	void (*release)(int);
	uint64_t (*add)(struct record_callback);
	void (*remove)(uint64_t);
} f;
static void (*enter)(void);
static uint64_t handle;
static bool added;
static _Atomic bool exiting;
static __thread uint64_t asked_ns;

/* Only a thread that Python knows is made to wait for the GIL: nobody who holds it waits for such a
 * one. */
static void **on_op(void **context, const uint64_t *rf)
{
	(void)rf;
	*context = NULL;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (now - asked_ns < EVERY_NS || !f.thread_state())
		return context;
	asked_ns = now;
	int state = f.ensure();
	enter();
	f.release(state);
	return context;
}

static void at_end(const uint64_t *rf, void *context)
{
	(void)rf, (void)context;
}

/* Comes before the end of libtorch's own objects: they are not touched afterwards. */
static void at_exit(void)
{
	exiting = true;
}

static bool find(void *torch)
{
	f.thread_state = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
	f.ensure = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
	f.release = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
	f.add = torch ? (uint64_t(*)(struct record_callback))dlsym(torch, RECORD_ADD) : NULL;
	f.remove = torch ? (void (*)(uint64_t))dlsym(torch, RECORD_REMOVE) : NULL;
	return f.thread_state && f.ensure && f.release && f.add && f.remove;
}

void modes_threads_start(void (*fn)(void))
{
	static bool first = true;
	struct record_callback c = {.start = on_op, .end = at_end, .probability = 1};
	c.scopes[RECORD_FUNCTION] = true;
	if (added || exiting || !find(shim_find_torch()))
		return;
	if (first)
		atexit(at_exit);
	first = false;
	enter = fn;
	handle = f.add(c);
	added = true;
}

void modes_threads_stop(void)
{
	if (added && !exiting)
		f.remove(handle);
	added = false;
}
