/* What the files of this folder share. */
#ifndef TRACER_ENGINE_SHIM_INTERNAL_H
#define TRACER_ENGINE_SHIM_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "tracer/engine/engine.h"
#include "tracer/engine/shim/injector.h"
#include "tracer/engine/shim/shim_share.h"

/* Inside of the engine shim: shared by what carries out the plan and takes records
 * (engine_shim.c) and what deals with the processes that call (shim_clients.c). */

enum { RECORD_MAX = 48 << 10, RINGS_MAX = 1024 };

/* One process that has the library in it, and has called or is going to. */
struct inside {
	struct inside *next;
	pid_t pid;
	int sock; /* -1: it has not called yet */
	int memory;
	uint64_t since; /* is expected to call */
	uint16_t proc;
	bool greeted, gone, told;
	bool broken;		  /* its rings cannot be believed any more */
	unsigned rounds;	  /* of consume since it is gone */
	struct shim_share *share; /* NULL: not traced */
};

/* A ring to read. */
struct ring_source {
	struct inside *whose;
	struct shim_thread *thread;
	const uint8_t *data;
};

/* The engine shim: a library that `run` preloads into what it starts, or that is brought into a
 * process that runs, and which calls once there is a libtorch. */
struct engine_shim {
	struct engine engine;
	struct shim_listener *listeners;
	interesting_fn *interesting;
	pid_t target;  /* runs and is to be entered, once; 0: none */
	pid_t watched; /* that, while it has no libtorch; 0: none */
	struct inside *all;
	struct proc_conf conf[PROC_SLOTS];
	uint32_t nplans;
	struct op_plan *plans;
	struct engine_counters past; /* of processes that have ended */
	struct ring_source rings[RINGS_MAX];
	unsigned nrings;
	uint64_t record[RECORD_MAX / 8];
};

/* The process `pid` that has not gone, NULL: none calls or is expected to. */
struct inside *inside_find(struct engine_shim *m, pid_t pid);

/* Memory to share with it. 0 or -errno. */
int inside_share(struct inside *i);

/* Add what the process has counted to *c; it must have such memory. */
void inside_count(const struct inside *i, struct engine_counters *c);

/* Its connection and memory, and `i`; what it counted stays with the engine. It must be out of
 * m->all. */
void inside_drop(struct engine_shim *m, struct inside *i);

/* engine->follow */
int shim_clients_follow(struct engine *g, follow_fn *fn, void *arg);

/* Wait, for a while, until those that run have taken the library out of use; what they have open is
 * closed then. */
void shim_clients_await_leaving(struct engine_shim *m);

/* Inside of tracer/engine/shim/injector.h: where what is needed is in the process. */

struct injector_points {
	uint64_t dlopen, dlerror;
	uint64_t sigreturn; /* of remote_call_sigreturn */
};

/* 0 or -errno with *e, as injector_check. */
int injector_find_points(pid_t pid, struct injector_points *out, struct err *e);

/* Address of `symbol` of the library in process `pid`, if that is of this build. 0 and *out;
 * -ENOENT: it is not there; -EPROTO: only that of another build is. */
int injector_find_library(pid_t pid, const char *symbol, uint64_t *out);

/* Have its state say how long the thread stood still that made it come. */
void injector_set_stood(pid_t pid, uint64_t ns);

/* Calls of functions in another process, made by one of its threads, by ptrace(2).
 *
 * Below what the thread has on its stack lies the frame of a signal, as the kernel writes it, with
 * all of the thread's state, and the function returns into rt_sigreturn(2). So whatever becomes of
 * the caller, SIGKILL included, the thread finishes the function and goes on where it was; a system
 * call that was interrupted is then restarted or ends with EINTR, as signal(7) has it. When all
 * goes well the thread is put back by ptrace, and the system call goes on as if nothing had been.
 */

struct remote_call {
	uint64_t function;
	uint64_t sigreturn; /* of remote_call_sigreturn */
	/* Copied to its stack; the address is the first argument (NULL: 0). `size` bytes. */
	const void *data;
	size_t size;
	uint64_t second; /* argument */
};

struct remote_thread;

/* Stop thread `tid`; waits at most `timeout_ms`. 0 and *out, or -errno: -EPERM, -ESRCH, -ETIMEDOUT
 * (when this process ends the thread runs on as if nothing had been done). Until
 * remote_thread_release the calling thread may wait for no other child. */
int remote_thread_stop(pid_t tid, unsigned timeout_ms, struct remote_thread **out);

/* Its registers by enum arch_reg, those of the system call it was in included. */
const uint64_t *remote_thread_regs(const struct remote_thread *t);

/* Have it call. 0 when the function has returned. -EFAULT: it did not, as it made a fault that was
 * not delivered, or there is no room on the stack; -ETIMEDOUT: not within `timeout_ms`, and the
 * thread will finish it by itself; -ESRCH. */
int remote_thread_call(struct remote_thread *t, const struct remote_call *c, unsigned timeout_ms);

/* The same, and *result is what the function returned. While that is fetched, some microseconds,
 * the thread would not survive a SIGKILL of this process. */
int remote_thread_ask(struct remote_thread *t, const struct remote_call *c, unsigned timeout_ms,
		      uint64_t *result);

/* Put the thread back, let it go on, free `t` (NULL allowed). */
void remote_thread_release(struct remote_thread *t);

/* Offset in `code`, `size` bytes of a C library, of the instructions that call rt_sigreturn, as
 * handlers of signals return to (__restore_rt in glibc and musl); -1: there are none. */
ssize_t remote_call_sigreturn(const uint8_t *code, size_t size);

/* Whether a thread that stands still could call dlopen(3) where it is: that takes locks of the
 * loader and of malloc, which are not to be taken twice by one thread. */

struct safepoints;

/* Of process `pid` with what it has mapped now. 0 and *out (free with safepoints_free), or -errno
 * with *e. */
int safepoints_new(pid_t pid, struct safepoints **out, struct err *e);
void safepoints_free(struct safepoints *s); /* NULL allowed */

/* `regs`: the thread's, by enum arch_reg. Not when its stack is not known to the end, when the
 * loader or another malloc is on it, when something of the C library is that is not known to hold
 * no lock (a wait in the kernel, the beginning of the thread), or when its stack is small. */
bool safepoint(struct safepoints *s, pid_t tid, const uint64_t *regs);

#endif
