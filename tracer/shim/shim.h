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

/* The operators that ditrace has not heard of. Those of PyTorch itself stay as long as the process,
 * and the library's file names them; one that the program has defined may be gone, with its schema,
 * before ditrace gets a processor. */

/* Whether the operator of this name ("namespace::name") whose handle is at this address is met for
 * the first time since new_operators_begin, and not one of PyTorch's "aten". Of at most some
 * hundreds. From any thread. */
bool new_operators_meet(const char *name, uint64_t handle);

void new_operators_begin(void);

/* Callbacks on at::RecordFunction (ATen/record_function.h): what at::addGlobalCallback takes, in
 * 1.12 to 2.13, is {start, end, sampling probability, scopes, inputs, outputs, ids} by value, 40
 * bytes. It returns a handle that at::removeCallback takes. */

#define RECORD_ADD "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE"
#define RECORD_REMOVE "_ZN2at14removeCallbackEm"

enum { RECORD_FUNCTION, RECORD_BACKWARD, RECORD_SCOPES = 10 };

/* std::unique_ptr<ObserverContext> start(const RecordFunction &): returned through memory. */
typedef void **record_start_fn(void **context, const uint64_t *rf);
typedef void record_end_fn(const uint64_t *rf, void *context);

struct record_callback {
	record_start_fn *start;
	record_end_fn *end; /* NULL: none */
	double probability;
	bool scopes[RECORD_SCOPES];
	bool inputs, outputs, ids;
};

/* Whose turn it is when only a share of the time may be spent on calls. No clock, no Python: the
 * caller says what time it is. */

enum { BUDGET_CALLS = 1 << 13 }; /* slots, a power of two; half of them are used */

/* A function at a place of the program. */
struct budget_call {
	const void *what; /* not NULL */
	uint64_t place;
	uint64_t turn;		  /* when it was taken last; 0: never */
	uint64_t taken, judged;	  /* calls, and backwards of them */
	uint64_t coming;	  /* backwards that are to come */
	double forward, backward; /* nanoseconds for them */
	double reserved;	  /* nanoseconds for those that are to come */
};

/* Zero-initialise, then budget_begin. */
struct budget {
	double share;	 /* of the time; 0: any */
	double account;	 /* nanoseconds spent, or lost since nobody spent them */
	double reserved; /* nanoseconds for backwards that are to come */
	double spent;	 /* nanoseconds, of `taken` calls */
	double dearest;	 /* nanoseconds that a call was expected to take lately, at most */
	uint64_t taken;
	uint64_t since; /* nanoseconds; 0: nothing was asked yet */
	uint64_t turns, ncalls, begun;
	struct budget_call calls[BUDGET_CALLS];
};

/* Whether this call is taken at the time `now_ns`: 0 if not, else a number for what follows. It is
 * when what it is expected to take, backward and all, is left of the share of the time so far, and
 * all others had a turn since its last; the more time there is to spare, the fewer others will do.
 * A call that was not taken yet is expected to take what others do in the mean, and ten
 * milliseconds at least, for PyTorch does much at the first call. So that share is
 * exceeded by no more than one call takes longer than expected. Of more calls than there are slots,
 * those that are not known share one turn. */
uint64_t budget_decide(struct budget *b, const void *what, uint64_t place, uint64_t now_ns);

/* For the forward, or the backward, of the call with that number so many nanoseconds were spent. A
 * number of before budget_begin, and 0, are of no call. */
void budget_spend(struct budget *b, uint64_t number, bool backward, uint64_t ns);

/* Its backward is to come; it was judged, or (false) never will be. */
void budget_await(struct budget *b, uint64_t number);
void budget_came(struct budget *b, uint64_t number, bool judged);

/* Another share; all calls are new. */
void budget_begin(struct budget *b, double share);

#endif
