/* Parts of the library inside a traced process. It links neither libtorch nor libpython, calls
 * nothing of theirs beyond what each section names, prints nothing, and holds no lock while ops
 * run. */
#ifndef TRACER_SHIM_SHIM_H
#define TRACER_SHIM_SHIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tracer/engine/shim/shim_share.h"

/* state.c: SHIM_STATE. */
extern __attribute__((visibility("default"))) struct shim_state ditrace_shim_state;

/* The memory shared with ditrace, NULL while there is none. Use it between inside_begin and
 * inside_end only. */
struct shim_share *shim_share(void);

/* The memory shared from now on, and the socket that wakes ditrace; that there is none any more;
 * called in the child of a fork, which has neither. */
void shim_begin(struct shim_share *s, int sock);
void shim_end(void);
void shim_forked(void);

/* A dlopen handle of the process's libtorch_cpu; NULL: not loaded. */
void *shim_find_torch(void);

/* Whether this process is a fork that has not connected yet: true once, for one of its threads,
 * which then has it connect. */
bool shim_take_forked(void);

/* Tell ditrace that a thread is stopped for it. Between inside_begin and inside_end. */
void shim_wake(void);

/* answer_is_stopped of the ditrace that shim_begin was told of. */
bool shim_is_stopped(void);

/* Have the library leave soon. */
void shim_go(void);

/* Incremented by each fork and each connection: per-thread state of an older epoch is stale. */
unsigned shim_epoch(void);

/* While locked, nobody forks, and nobody else adds or removes callbacks. */
void shim_lock(void);
void shim_unlock(void);

/* client.c: connect to ditrace on the socket with this path and start recording, with a thread that
 * waits for the end of the connection. False: there is no ditrace, it does not want this process,
 * or the library is in use already. `torch`: dlopen handle of libtorch_cpu. */
bool shim_come(const char *socket_path, void *torch);

/* answer.c: whether root or this process's user listens at the other end of the socket `fd`
 * (unix(7), SO_PEERCRED): nobody else is to say what happens here. *peer (NULL allowed): that
 * process's ID, as it is seen here. */
bool answer_is_trusted(int fd, pid_t *peer);

/* Whether the process at the other end of the socket `fd`, which listened, is stopped (state T of
 * proc(5)). False also if that is not known: it is in a PID namespace that is not seen here. */
bool answer_is_stopped(int fd);

/* Connect to the socket at `path`. The descriptor, or -1 with errno; EACCES: it is not trusted.
 * Reads from it time out after SHIM_PATIENCE_S. */
int answer_dial(const char *path);

/* Remove the socket at `path`, and its folder, if a killed ditrace left it behind. */
void answer_tidy(const char *path);

/* Whether a descriptor is of memory of that size in bytes, sealed against shrinking (fcntl(2),
 * F_GET_SEALS): access beyond the end of a file is a SIGBUS. */
bool answer_is_whole(int memory, size_t size);

/* The shared memory's descriptor in ditrace's answer, checked for size and seals, to be closed by
 * the caller; -1: none. */
int answer_receive(int fd);

/* own_work.c: whether the calling thread works for ditrace itself, so that its ops are none of the
 * program's; returns whether it did. What is set within own_work_lock and own_work_unlock changes
 * nothing. */
bool own_work(bool is_own);
void own_work_lock(void);
void own_work_unlock(void);

/* In the child of a fork: none of the other threads is there. */
void own_work_forked(void);

/* quiescence.c: a thread's slot. */
enum { SHIM_OWN_HEAD = 64 };
struct shim_place {
	_Alignas(64) _Atomic uint32_t depth; /* nonzero: the thread is at work in the library */
	_Atomic uint32_t taken;
	void *_Atomic own; /* begins with its size; the recorder's part is after SHIM_OWN_HEAD */
};
extern __thread struct shim_place *shim_place;

/* Set up, once per process; false without memory. When a thread ends, `ends` is called on it, at
 * work here, with its memory (inside_memory) while there is shared memory. */
bool inside_prepare(void (*ends)(void *memory));
/* A free slot for the calling thread; NULL: there is none. */
struct shim_place *inside_claim(void);

/* Every entry from outside is bracketed by these, which keep the memory of shim_share and of
 * inside_memory alive. False: do nothing, and do not call inside_end. */
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

/* Memory of this thread, zeroed when it is new; freed when the thread ends or the library leaves.
 * NULL: none. `size` must always be the same. */
void *inside_memory(size_t size);

/* The same if there is some already. */
static inline void *inside_memory_had(void)
{
	char *own = shim_place ? shim_place->own : NULL;
	return own ? own + SHIM_OWN_HEAD : NULL;
}

/* Wait until no thread is at work here, and free each one's memory. shim_share must be NULL by now.
 */
void inside_await_nobody(void);
/* In the child of a fork: free the slots of the threads that it does not have. */
void inside_fork(void);

/* recorder.c: register with libtorch_cpu, whose dlopen handle this is. A fork that has not
 * connected yet has `come_forked` connect it at its first op; false: it is not to be recorded. */
void recorder_start(void *torch, bool (*come_forked)(void *torch));

/* jump_memory.c: map the memory for stubs, once per process, near libtorch_cpu, whose dlopen handle
 * this is. Where jumps may lead; a pool of no parts: nowhere. */
struct shim_jumps jump_memory(void *torch);

/* Have debuggers know what is in it, and no longer. */
void jump_memory_show(void);
void jump_memory_hide(void);

/* The pools near other libraries, to `out`; their number. */
unsigned jump_memory_near(struct jump_pool out[SHIM_NEAR]);

/* Map what struct shim_near asks for; called every SHIM_LOOK_MS by the library's thread. */
void jump_memory_look(void);

/* The thread that has this memory ends; it counts as at work here meanwhile. */
void recorder_thread_ends(void *memory);

/* See to what ditrace has asked for since; called every SHIM_LOOK_MS by the library's thread. */
void recorder_look(void);

/* Remove the callbacks, if they are registered. */
void recorder_stop(void);

/* modes.c: begin interventions in this process, if it has CPython, as ditrace says on this socket
 * (NULL: none). Called when libtorch is initialised. */
void modes_start(const char *socket);

/* record/: callbacks on at::RecordFunction (ATen/record_function.h). at::addGlobalCallback takes,
 * in 1.12 to 2.13, {start, end, sampling probability, scopes, inputs, outputs, ids} by value, 40
 * bytes, and returns a handle for at::removeCallback. */

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

/* Whether the program has observers of its own, for all threads or for one that has run an op:
 * profilers do. */
bool jumps_see_others(void);

/* device/activities.c: what devices do. */

/* Begin, or have what is complete sent; called every SHIM_LOOK_MS by the library's thread. */
void activities_look(void);

/* End, before the shared memory goes; it can begin again. */
void activities_stop(void);

/* The program is about to use the vendor's library itself: end, for good. */
void activities_yield(void);

/* The process exits: have all sent. */
void activities_exit(void);

/* In the child of a fork: what the parent has begun is not its own. */
void activities_forked(void);

/* budget.c: selects calls when only a share of the time may be spent on them. Uses neither clock
 * nor Python: the caller passes the time. */

enum { BUDGET_CALLS = 1 << 13 }; /* slots, a power of two; half of them are used */

/* A function called at a place of the program. */
struct budget_call {
	const void *what; /* not NULL */
	uint64_t place;
	uint64_t turn;		  /* of `turns`, when it was taken last; 0: never */
	uint64_t taken, judged;	  /* number of calls, and of backwards of them */
	uint64_t coming;	  /* backwards still to come */
	double forward, backward; /* nanoseconds spent on them */
	double reserved;	  /* nanoseconds set aside for those to come */
};

/* Zero-initialise, then budget_begin. */
struct budget {
	double share;	 /* of the time, 0 to 1; 0: no limit */
	double account;	 /* nanoseconds spent or forfeited */
	double reserved; /* nanoseconds set aside for backwards to come */
	double spent;	 /* nanoseconds, on `taken` calls */
	double dearest;	 /* the most nanoseconds that a call was expected to take lately */
	uint64_t taken;
	uint64_t since; /* time of the first decision, nanoseconds; 0: none yet */
	uint64_t turns, ncalls, begun;
	struct budget_call calls[BUDGET_CALLS];
};

/* Whether to take this call at the time `now_ns`: 0 if not, else a number for the functions below.
 * It is taken when its expected cost, backward included, fits into what is left of the share of the
 * time so far, and all others had a turn since its last one; the more is left, the fewer others are
 * required. A call that was never taken is expected to cost what others do on average, and at least
 * ten milliseconds, since PyTorch does much at a first call. So the share is exceeded by no more
 * than one call takes beyond its expectation. Calls beyond the number of slots share one turn. */
uint64_t budget_decide(struct budget *b, const void *what, uint64_t place, uint64_t now_ns);

/* Charge `ns` nanoseconds to the forward, or the backward, of the call with that number; for 0, or
 * a number from before budget_begin, to no call. */
void budget_spend(struct budget *b, uint64_t number, bool backward, uint64_t ns);

/* budget_await: its backward is to come. budget_came: it was judged, or (false) never will be. */
void budget_await(struct budget *b, uint64_t number);
void budget_came(struct budget *b, uint64_t number, bool judged);

/* Start with another share; all calls are forgotten. */
void budget_begin(struct budget *b, double share);

/* Calls out of code compiled with -mgeneral-regs-only. */

/* Find out what is to be saved. False: this processor cannot do it. */
bool saved_call_prepare(void);

/* Call fn(arg) with all that code compiled with -mgeneral-regs-only leaves alone saved: the
 * registers of the x87, SSE, AVX and AVX-512. For calls into other libraries from the exit of an
 * op. */
void saved_call(void (*fn)(void *), void *arg);

#endif
