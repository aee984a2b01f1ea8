/* What the files of the engine shim share. */
#ifndef TRACER_ENGINE_SHIM_INTERNAL_H
#define TRACER_ENGINE_SHIM_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/home.h"
#include "tracer/engine/ring.h"
#include "tracer/engine/engine.h"
#include "tracer/engine/shim/injector.h"
#include "tracer/engine/shim/jumps.h"
#include "tracer/engine/shim/shim_share.h"

/* The engine: shared by what carries out the plan and takes records (engine_shim.c) and what
 * handles the client processes (shim_clients.c). */

enum { RECORD_MAX = 48 << 10, RINGS_MAX = 1024 };

/* A thread, by its ID in the process's PID namespace and in ditrace's. */
struct shim_tid {
	uint32_t inner, outer;
};

/* A thread, by the low half of its pthread_self() and its ID in ditrace's PID namespace. */
struct shim_self {
	uint32_t self, outer;
};

enum { SHIM_BESIDE = 2 }; /* libc10, and libtorch_python for boxed calls */

/* A process that has the library and has connected, or is expected to. */
struct inside {
	struct inside *next;
	pid_t pid;
	struct shim_listener *listener; /* of what was injected; NULL: preloaded */
	int sock;			/* -1: not connected yet */
	int memory;
	uint64_t since; /* ns: expected to connect since then */
	uint16_t proc;
	bool greeted, gone, told;
	bool no_blocks;		  /* see struct engine_counters */
	bool broken;		  /* its rings were found corrupt and are no longer read */
	unsigned rounds;	  /* of consume since it has gone */
	struct shim_share *share; /* NULL: not traced */
	struct shim_jumps jumps;  /* where jumps may lead, as it says */
	unsigned nnear;		  /* so many of its struct shim_near are known: */
	struct jump_pool near[SHIM_NEAR];
	struct probe_file file;			/* what to trace there; elf NULL: without jumps */
	struct probe_file beside[SHIM_BESIDE];	/* the same of other libraries, */
	unsigned nbeside;			/* so many */
	struct sums_reader *sums[SHIM_THREADS]; /* NULL: nothing was summed up there yet */
	struct brief *brief[SHIM_THREADS];	/* NULL: nothing was read there yet */
	bool pids_known, other_pids;		/* it has PIDs of its own */
	struct shim_tid tids[SHIM_THREADS];	/* of the owners of the rings, as last asked for */
	struct shim_self selves[SHIM_THREADS];	/* the same, also of threads that have ended */
	uint64_t activities_lost;		/* that were told of */
	bool activities_begun, device_told;
	uint64_t memory_lost; /* that was told of */
	bool memory_begun;
	uint32_t freed;		     /* share->code.freed before its rings were last looked at */
	bool no_memory, memory_told; /* it was asked for, and there are no jumps for it */
};

/* A ring to read. */
struct ring_source {
	struct inside *whose;
	struct shim_thread *thread;
	const uint8_t *data;
	unsigned slot; /* its index */
};

/* The library is preloaded into what `run` starts, or injected into a running process, and connects
 * once there is a libtorch. */
struct engine_shim {
	struct engine engine;
	struct shim_listener *listeners;
	struct jumps *jumps; /* NULL: the helper process could not be started */
	interesting_fn *interesting;
	pid_t target;  /* a running process, to be injected once; 0: none */
	pid_t watched; /* the same while it has no libtorch; 0: none */
	struct inside *all;
	struct proc_conf conf[PROC_SLOTS];
	uint32_t nplans, nset; /* room for plans, and those up to the last one set */
	struct op_plan *plans;
	struct engine_counters past; /* of processes that are gone */
	struct ring_source rings[RINGS_MAX];
	unsigned nrings;
	bool may_sum, waits;
	uint32_t turn;
	struct turn_spent past_turns[TURNS_LAST + 1]; /* of processes that are gone */
	enum shim_devices devices;
	uint32_t chunks;		    /* of each ring */
	int nsums;			    /* handed over by this call of consume */
	uint64_t summed;		    /* CLOCK_MONOTONIC, ns: when sums were last read */
	uint64_t looked;		    /* the same: when rings were last looked at */
	const struct shim_thread *standing; /* for the record that is being handled; NULL: none */
	uint64_t record[RECORD_MAX / 8];
};

/* What comes on this socket wakes ditrace: a message, or a process that connects. */
void shim_clients_wake(const struct engine_shim *m, int sock);

/* The client `pid` that has not gone; NULL: it is not connected and not expected. */
struct inside *inside_find(struct engine_shim *m, pid_t pid);

/* Make the memory to share with it. 0 or -errno. */
int inside_share(struct inside *i);

/* Add the process's counters to *c; it must have such memory. */
void inside_count(const struct inside *i, struct engine_counters *c);

/* Add what its threads have spent in a turn. Needs i->share. */
void inside_add_turn(const struct inside *i, uint32_t turn, struct turn_spent *sum);

/* It has written over its records: they are no longer read. */
void inside_broken(struct engine_shim *m, struct inside *i);

/* Close its connection, unmap its memory and free `i`; its counts stay with the engine. It must be
 * out of m->all. */
void inside_drop(struct engine_shim *m, struct inside *i);

/* engine->follow: accept connections, read from them and report process events. */
int shim_clients_follow(struct engine *g, follow_fn *fn, void *arg);

/* Wait, up to a limit, until the library that was injected into `i`, which is to be traced, has
 * connected by `d` and records. It does not while the process is stopped. */
void shim_clients_await(struct engine_shim *m, struct inside *i, const struct shim_listener *d);

/* Wait, up to a limit, until running processes have taken the library out of use; their connections
 * are closed then. */
void shim_clients_await_leaving(struct engine_shim *m);

/* shim_clients.c: the ID, as ditrace sees it, of the thread that `i` knows as `inner` and that has
 * the ring `slot`; `inner` where it has ended. */
uint32_t shim_tid(struct inside *i, unsigned slot, uint32_t inner);

/* shim_activities.c: engine->activities. */
int shim_activities(struct engine *g, engine_activity_fn *fn, void *arg);

/* Have the processes' libraries send what there is, and wait for it, up to a limit. */
void shim_activities_flush(struct engine_shim *m, uint16_t proc);

/* Store in *e, once, what the user should know of why there are none. */
void shim_activities_trouble(struct inside *i, struct err *e);

/* shim_rings.c: list the rings in use, and free those that are empty and whose thread has ended. */
void shim_rings_find(struct engine_shim *m);

/* Hand over the oldest record of all rings. False: there is none. */
bool shim_rings_take(struct engine_shim *m, engine_hit_fn *fn, void *arg);

/* Hand over what was summed up, from time to time, and where nothing more will come (`empty`: all
 * rings were). Returns their number. */
int shim_sums(struct engine_shim *m, bool empty, engine_hit_fn *fn, void *arg);

/* engine->activities: what the process did with memory; the number of records. */
int shim_memory(struct engine_shim *m, struct inside *i, engine_activity_fn *fn, void *arg);
void shim_memory_trouble(struct inside *i, struct err *e);

/* shim_jumps.c: write the jumps at the sites of a process that has greeted and is to be traced. 0;
 * -errno with *e when there are none, and the observer is told of all ops. */
int shim_jumps_write(struct engine_shim *m, struct inside *i, struct err *e);

/* The same at the sites of a library that has come later. 0; -ENOSPC: there is
 * no memory within reach; -errno: it has no jumps. */
int shim_jumps_late(struct engine_shim *m, struct inside *i, const struct probe_file *file,
		    struct err *e);

/* shim_home.c: the folder of the library for started programs. */

/* Make the library's file, executable for its owner, in the folder `dir`, and that of the memory
 * for stubs (stub_image_make); they must not be there. 0 or -errno; a part of it may have been
 * written. */
int shim_home_write(int dir);

/* The folder that has this build's library, which stays there: its descriptor (O_PATH), and its
 * path; or -errno with *e. For root it is in /var/lib, else, and where that cannot be, in
 * $XDG_CACHE_HOME or $HOME/.cache; with `for_other`, which is root's, in /var/lib alone. */
int shim_home(char path[PATH_MAX], bool for_other, struct err *e);

/* shim_folder.c: the folder of a listener with the socket, and the library for a running process.
 */

#define SHIM_SOCKET_NAME "socket"

/* Make it in d->parent, where nobody but root and `user`, who makes it, can put another in its
 * place. 0 or -errno; shim_folder_clear in any case. */
int shim_folder_make(struct shim_listener *d, uid_t user);

/* Remove it, and close all descriptors of `d`. */
void shim_folder_clear(struct shim_listener *d);

/* shim_listener.c: whether a process of `user` cannot be given a library below this folder: why, as
 * above; NULL: it can. In the last one (`is_last`) the user must be able to make folders, and
 * nobody else but root and the owner of its user namespace, `root`, may decide what is in them. */
const char *shim_place_doubt(const struct stat *st, uid_t user, uid_t root, bool is_last);

/* injector_find.c: addresses in the process that the injector needs. */

struct injector_points {
	uint64_t dlopen, dlerror;
	uint64_t sigreturn; /* see remote_call_sigreturn */
};

/* Record that no library can be loaded into the process, and why. Returns the code. */
int injector_cannot_load(pid_t pid, const char *why, struct err *e);

/* 0 or -errno with *e, as injector_check. */
int injector_find_points(pid_t pid, struct injector_points *out, struct err *e);

/* Address of `symbol` of the library in process `pid`, if that is of this build. 0 and *out;
 * -ENOENT: not loaded; -EPROTO: only that of another build. */
int injector_find_library(pid_t pid, const char *symbol, uint64_t *out);

/* Store in the library's state how long (ns) the thread that called it was stopped. */
void injector_set_stood(pid_t pid, uint64_t ns);

/* remote_call: function calls made by a thread of another process, by ptrace(2).
 *
 * A signal frame, as the kernel would write it, is put on the thread's stack with all of its state,
 * and the function returns into rt_sigreturn(2). So even if the caller gets SIGKILL, the thread
 * finishes the function and continues where it was; an interrupted system call is then restarted or
 * ends with EINTR, as in signal(7). If all goes well the thread's registers are restored by ptrace,
 * and the system call continues undisturbed. */

struct remote_call {
	uint64_t function;
	uint64_t sigreturn; /* see remote_call_sigreturn */
	/* `size` bytes, copied to the stack; their address is the first argument (NULL: 0). */
	const void *data;
	size_t size;
	uint64_t second; /* second argument */
};

struct remote_thread;

/* Stop thread `tid`; waits at most `timeout_ms`. 0 and *out, or -errno: -EPERM, -ESRCH, -ETIMEDOUT
 * (the thread runs on undisturbed once this process ends), -ENOTSUP (not a 64-bit thread). Until
 * remote_thread_release the calling thread may wait for no other child. */
int remote_thread_stop(pid_t tid, unsigned timeout_ms, struct remote_thread **out);

/* Its registers by enum arch_reg, including those of the system call it was in. */
const uint64_t *remote_thread_regs(const struct remote_thread *t);

/* Make the call. 0 when the function has returned. -EFAULT: it faulted, with the signal not
 * delivered, or the stack has no room; -ETIMEDOUT: not within `timeout_ms`, and the thread finishes
 * it on its own; -ESRCH. */
int remote_thread_call(struct remote_thread *t, const struct remote_call *c, unsigned timeout_ms);

/* The same, with the function's return value in *result. While that is being fetched, for some
 * microseconds, the thread would not survive a SIGKILL of this process. */
int remote_thread_ask(struct remote_thread *t, const struct remote_call *c, unsigned timeout_ms,
		      uint64_t *result);

/* Restore the thread, let it run, free `t` (NULL allowed). */
void remote_thread_release(struct remote_thread *t);

/* Offset in `code`, `size` bytes of a C library, of the instructions that call rt_sigreturn and
 * that signal handlers return to (__restore_rt in glibc and musl); -1: none. */
ssize_t remote_call_sigreturn(const uint8_t *code, size_t size);

/* safepoint.c: whether a stopped thread could call dlopen(3) where it is, which takes locks of the
 * loader and of malloc that the thread must not already hold. */

struct safepoints;

/* For process `pid` with its present mappings. 0 and *out (free with safepoints_free), or -errno
 * with *e. */
int safepoints_new(pid_t pid, struct safepoints **out, struct err *e);
void safepoints_free(struct safepoints *s); /* NULL allowed */

/* Whether thread `tid` with these registers (by enum arch_reg) is at a safepoint. It is not when
 * its stack cannot be unwound completely; when the loader or another malloc is on it; when a
 * function of the C library is that may hold a lock (waits in the kernel and thread start do not);
 * or when little stack is left. */
bool safepoint(struct safepoints *s, pid_t tid, const uint64_t *regs);

/* shim_attach.c: what the processes are given; but for shim_bring_in as in struct engine. */

static inline struct engine_shim *shim_of(struct engine *g)
{
	return (struct engine_shim *)g;
}

int shim_set_plans(struct engine *g, uint32_t first, const struct op_plan *plans, uint32_t n,
		   struct err *e);
int shim_set_proc(struct engine *g, uint16_t proc, const struct proc_conf *conf);
void shim_add_rows(struct engine *g, uint16_t proc, const struct native_row *rows, size_t n);
int shim_attach(struct engine *g, pid_t pid, uint16_t proc, const struct probe_file *file,
		struct err *e);
void shim_detach(struct engine *g, uint16_t proc);

/* Inject the library. It connects once its thread runs, so not while the process is stopped. 0 and
 * *out, or -errno with *e. */
int shim_bring_in(struct engine_shim *m, pid_t pid, struct inside **out, struct err *e);

#endif
