/* Parts of the library inside a traced process. It links neither libtorch nor libpython, calls
 * nothing of theirs but what each header names, prints nothing, and keeps no lock while ops run. */
#ifndef TRACER_SHIM_SHIM_H
#define TRACER_SHIM_SHIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracer/engine/shim/shim_share.h"

/* client.c: SHIM_STATE. */
extern __attribute__((visibility("default"))) struct shim_state ditrace_shim_state;

/* The memory shared with ditrace, NULL while there is none. To be used between
 * inside_begin and inside_end only. */
struct shim_share *shim_share(void);

/* Call ditrace on the socket whose path this is and take part from now on, with a thread that waits
 * for the end of it; returns when that is settled. False: there is no ditrace, or it does not want
 * this process, or it is inside already. `torch`: handle of its libtorch_cpu (dlopen). */
bool shim_come(const char *socket_path, void *torch);

/* The library's handle of the process's libtorch_cpu, NULL: it has none. */
void *shim_find_torch(void);

/* Whether this process is a fork that has not asked yet: true once, for one of its threads. That
 * one asks, and waits for the answer. */
bool shim_take_forked(void);
bool shim_come_forked(void *torch);

/* Tell ditrace that a thread stands still for it. Between inside_begin and inside_end. */
void shim_wake(void);

/* Have the library take itself out, soon. */
void shim_go(void);

/* Counts up with each fork and each coming: what was kept of a thread before holds no more. */
unsigned shim_epoch(void);

/* Nobody forks, and nobody else adds or removes callbacks meanwhile. */
void shim_lock(void);
void shim_unlock(void);

/* answer.c: connected to the socket at `path`, -1 with errno. What is read from it waits for
 * SHIM_PATIENCE_S. */
int answer_dial(const char *path);

/* The shared memory that ditrace's answer brings, whole and sealed, to be closed by the caller; -1:
 * it brings none. */
int answer_receive(int fd);

/* quiescence.c: a thread's own. */
enum { SHIM_OWN_HEAD = 64 };
struct shim_place {
	_Alignas(64) _Atomic uint32_t depth; /* the thread is at work in the library */
	_Atomic uint32_t taken;
	void *_Atomic own; /* begins with its size; the recorder's is behind SHIM_OWN_HEAD */
};
extern __thread struct shim_place *shim_place;

bool inside_prepare(void);
struct shim_place *inside_claim(void);

/* Each way in from outside begins and ends with these: until then shim_share's memory and
 * inside_memory's stay. False: there is nothing to do, inside_end is not to be called. */
static inline bool inside_begin(void)
{
	struct shim_place *p = shim_place ? shim_place : inside_claim();
	if (!p)
		return false;
	atomic_store_explicit(&p->depth, p->depth + 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

static inline void inside_end(void)
{
	struct shim_place *p = shim_place;
	atomic_store_explicit(&p->depth, p->depth - 1, memory_order_release);
}

/* Memory of this thread, zeroed when it is new; it goes with the thread, or when the library takes
 * itself out. NULL: there is none. */
void *inside_memory(size_t size);

/* The same if there is some already. */
static inline void *inside_memory_had(void)
{
	char *own = shim_place ? shim_place->own : NULL;
	return own ? own + SHIM_OWN_HEAD : NULL;
}

/* Wait until no thread is at work here, and free the memory of each. Nobody can find shim_share any
 * more. */
void inside_await_nobody(void);
void inside_fork(void);

/* recorder.c: register with the libtorch_cpu whose handle this is (dlopen). */
void recorder_start(void *torch);

/* The thread that has this memory ends; it is at work here meanwhile. */
void recorder_thread_ends(void *memory);

/* Take the callbacks out; nothing happens when they are not in. */
void recorder_stop(void);

/* pycode.c: tell of each code object that CPython frees, from now on. */
void pycode_watch(void (*freed)(uint64_t code));
void pycode_unwatch(void);

/* modes.c: what functions of PyTorch do is to be changed in this process, as ditrace says on this
 * socket (NULL: nothing is), if CPython is in it. Called when libtorch is initialised. */
void modes_start(const char *socket);

#endif
