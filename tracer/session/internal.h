/* Internal to tracer/session: shared by opening (session_open.c), consuming records (session.c)
 * and events (session_events.c),
 * adding processes (session_procs.c) and probing them (session_probes.c). */
#ifndef TRACER_SESSION_INTERNAL_H
#define TRACER_SESSION_INTERNAL_H

#include <pthread.h>

#include "base/system.h"
#include "base/text.h"
#include "perf/trace/trace_format.h"
#include "symbolizer/decode/decoder.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/ops/filter.h"
#include "symbolizer/ops/ops.h"
#include "symbolizer/target/process.h"
#include "symbolizer/when/when.h"
#include "tracer/engine/engine.h"
#include "tracer/observe/observer.h"
#include "tracer/session/session.h"

enum {
	PLANS_MAX = 16384,
	THREAD_SLOTS = 1024,
	TARGETS_MAX = 4096,   /* described in the trace, one after the other */
	DISPATCH_LEAST = 100, /* fewest dispatched ops for which a share is reported */
};

struct proc {
	struct target *target; /* NULL: the slot is free */
	struct process_rank rank;
	bool is_worker, is_whole; /* as in struct trace_process */
	bool has_ops;		  /* some were seen */
	bool alive;
	bool boxed;	     /* boxed calls are probed */
	bool code_freed;     /* the freeing of Python code is probed */
	uint32_t generation; /* generation of the configuration that the engine has */
	size_t rows;	     /* native_callers_rows that the engine has */
	uint64_t added;
	uint64_t next_python; /* when to look for it again */
	uint64_t next_boxed;  /* when to look for the address of boxed calls again */
	bool decoded;	      /* the process has exited and all its records are decoded */
	uint64_t *kernels;    /* addresses of the libraries of kernels that were met */
	size_t nkernels, kernels_room;
	unsigned missing_kernels; /* of these, without probes */
};

/* A library of a kernel that inductor generated; several processes may have it. */
struct session_kernel {
	char name[64]; /* of the file, which is a hash of the kernel: inodes are used again */
	uint64_t inode;
	uint32_t major, minor;
	int code; /* as of op_table_add_kernel */
	struct op_sites sites;
};

/* The op table of a libtorch, and that file's identity. */
struct loaded_ops {
	struct op_table *table; /* NULL: none */
	uint64_t inode;
	uint32_t major, minor;
};

/* The op table of the process that will be traced first, built in a separate thread while the
 * kernel verifies the engine's programs. */
struct preload {
	pthread_t thread;
	bool running;
	pid_t pid;
	enum ops_kind kind;
	struct loaded_ops ops;
};

/* A thread that has hit probes (`met`), or may. */
struct traced_thread {
	pid_t pid, tid;
	bool met;
	uint64_t last_ns;  /* its CPU time when it was last read; else when the probes were in */
	uint64_t spent_ns; /* CPU time since its first hit */
};

enum { COST_THREADS = 512 };

struct session_cost {
	struct traced_thread threads[COST_THREADS];
	unsigned n;
	bool unknown;	  /* there were more threads */
	uint64_t from_ns; /* what was spent before does not count; CLOCK_MONOTONIC */
	/* Hits that do not count: while probes were being placed, which takes long with bpf. */
	uint64_t hits_left_out, hits_before;
	/* Those that do, until CPU times were read last: what comes later is not in these either,
	 * and it takes long, on a busy machine, until probes are out. */
	uint64_t hits_counted;
	pid_t last_tid;
	uint16_t last_proc;
};

struct session_turns {
	uint32_t n;	  /* the turn that threads take; 0: none yet, or no more */
	uint64_t next_ns; /* when the next begins */
	bool over;
	/* With engine->programs: CPU time of the threads when the turn began, and of each turn. */
	uint64_t cpu_from, cpu_ns[TURNS_LAST + 1];
	uint64_t from_ns;  /* when recording began, once that is over */
	uint64_t left_out; /* ops that were recorded until then */
};

struct session {
	const struct session_opts *o;
	struct engine *engine;
	struct err engine_note; /* code 0: none */
	bool is_note_of_start;	/* it is told at the start alone, not in the summary */
	struct decoder *decoder;
	struct launches *launches; /* NULL: of devices nothing is known, or wanted */
	struct preload preload;
	struct op_table *ops;	  /* same as loaded.table */
	struct loaded_ops loaded; /* of the first libtorch found; others are not traced */
	/* cpu_sites wanted ones of OPS_CPU, then those of OPS_PYTHON, then of OPS_C10 */
	struct probe_site *sites;
	size_t cpu_sites, python_sites, c10_sites;
	size_t boxed_site; /* of OPS_CPU, for jumps: the first of 1 + EXITS_MAX of boxed calls,
			      without windows until they are found */
	struct probe_site boxed_python[1 + EXITS_MAX]; /* the same, of OPS_PYTHON */
	size_t nboxed_python;
	struct session_kernel *kernels;
	size_t nkernels, kernels_room;
	struct filter ops_filter, not_filter;
	struct when *when; /* NULL: no condition */
	char chosen[512];  /* the options that leave ops out, as typed; "": none */
	struct when_counts when_counts;
	struct observer *observers;
	const char *stops; /* the option that makes threads stop at ops; NULL: none */
	unsigned needs;	   /* OBSERVER_*, of all observers */
	bool stopped;	   /* whether the thread of the record being decoded is stopped */
	struct proc procs[PROCS_MAX];
	unsigned nprocs; /* of these only so many, the first, were ever used */
	unsigned total;
	pid_t ranked_pid; /* the process asked for last, and its rank + 1 */
	uint32_t ranked_rank1;
	bool pynode_known;		 /* the offset of the Python object in PyNode is known */
	const struct py_frame *textless; /* the last frame whose source text was not found */
	int32_t named[THREAD_SLOTS];	 /* threads whose names were told, by tid */
	struct trace_target *targets;
	size_t ntargets, targets_room;
	struct err fatal; /* why nothing can be traced as requested; code 0: it can */
	pid_t fatal_pid;  /* in which process that was found */
	bool calibrated;  /* the cost of a probe was measured */
	uint64_t events, lost;
	uint64_t lost_ns;   /* when lost records were last counted */
	uint64_t no_blocks; /* processes without, besides those that the engine knows of */
	uint64_t lean;	    /* of these events, those without arguments or results (HIT_LEAN) */
	uint64_t start_ns, first_ns, now, kept_house;
	uint64_t news_ns;	       /* when a process, or a stack of frames, was last new */
	uint64_t resolved;	       /* py_stacks_resolved then */
	uint64_t limit_from_ns;	       /* see session_start_time; 0: not called */
	uint64_t stats_ns, stats_hits; /* when stats were last written, and the hits by then */
	uint64_t dispatch_since;       /* start of the current count; 0: not counting */
	uint64_t dispatch_next;
	struct session_cost cost;
	struct session_turns turns;
};

/* Call `fn` of each observer that has one. */
#define OBSERVERS_CALL(s, fn, ...)                                                                 \
	do {                                                                                       \
		for (struct observer *o_ = (s)->observers; o_; o_ = o_->next)                      \
			if (o_->fn)                                                                \
				o_->fn(o_, ##__VA_ARGS__);                                         \
	} while (0)

/* The first observer that has `fn`, or NULL. */
#define OBSERVERS_FIRST(s, fn)                                                                     \
	({                                                                                         \
		struct observer *o_ = (s)->observers;                                              \
		while (o_ && !o_->fn)                                                              \
			o_ = o_->next;                                                             \
		o_;                                                                                \
	})

static inline uint64_t session_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* session_events.c: create the decoder, which passes its events to the session. 0 or -ENOMEM. */
int session_begin_decoding(struct session *s);

/* The slot of a traced process; NULL if it is not traced. */
struct proc *session_proc(struct session *s, pid_t pid);

/* session_events.c: what devices did. Begin to join it with ops, if an observer wants it. 0 or
 * -ENOMEM. */
int session_begin_devices(struct session *s);

/* Take what has come, after the decoder's tick; `behind`: not all hits were consumed. Returns like
 * the engine's activities. */
int session_take_activities(struct session *s, bool behind);

/* Records of ops were lost since s->lost_ns. */
void session_devices_lost(struct session *s);

/* Pass on what waits of process `pid` (0: of all), as launches_end; call it before its target is
 * freed. */
void session_end_launches(struct session *s, pid_t pid, uint64_t until_ns);

/* session_open.c: whether the engine shim will be taken, unless it cannot be. */
bool session_expects_shim(const struct session *s);

/* The option that needs each call, so that none may be summed up; NULL: none does. */
const char *session_needs_each(const struct session *s);

/* session_procs.c: tell the observers anew of processes that turned out to be no ranks. */
void session_find_launchers(struct session *s);

/* session_plan.c: give the engine this session's plan, the part of the op table that the options
 * select, and put its sites into s->sites. 0 or -errno with *e. */
int session_make_plan(struct session *s, struct err *e);

/* Whether this op passes the name lists. */
bool session_wants(const struct session *s, const struct op_desc *op);

/* session_procs.c: tell the observers the name of the event's thread, once for each thread: that
 * of a worker of a DataLoader by its number, any other as its process has named it. */
void session_name_thread(struct session *s, const struct op_event *ev);

/* session_probes.c: probe the n sites of library `lib` (enum ops_file) in the process of slot
 * `index`; late: struct probe_file's. Returns 0, also if the process has no such library, or -errno
 * with *e. */
int session_probe_library(struct session *s, uint16_t index, const struct libraries *l,
			  unsigned lib, const struct probe_site *sites, size_t n, bool late,
			  struct err *e);

/* For the engine shim, which is told of all other boxed calls: find the jumps at blocks of
 * record_function, if no process before has told where. 0; -EAGAIN: it is not known yet; -ENOTSUP:
 * there is no place for them. */
int session_find_boxed(struct session *s, const struct proc *p);

/* session_late.c: whether the process, which was started after this one and has just been added,
 * may have called ops before; that is told. */
bool session_came_late(struct session *s, const struct proc *p);

/* session_probes.c: probe the kernels of inductor that the process has loaded since the last call,
 * while `tid`, which may be about to call them, stands; 0: no thread is. */
void session_probe_kernels(struct session *s, struct proc *p, pid_t tid);

/* The same if this hit says that some may have been loaded: of a counter that stops. They are,
 * between start and stop of several, and the thread stands meanwhile where the engine lets it. */
void session_look_for_kernels(struct session *s, const struct hit *h);

/* Complete what was not possible when the process was added: its Python had not started, its
 * operators were not registered. */
void session_complete_procs(struct session *s);

/* session_procs.c: update the engine as soon as the layout of the tensors of a process is known. */
void session_update_procs(struct session *s);

/* After each consume: free the slots of exited processes whose records are decoded, many at a time.
 * `all`: all records were consumed. */
void session_free_ended(struct session *s, bool all);

/* Whether no process is about to need a probe for its boxed calls. Placing a probe waits for RCU
 * grace periods, on a busy machine for seconds: what can wait does so until then. */
bool session_is_settled(const struct session *s);

/* Count dispatched ops for a short while, from time to time. */
void session_sample_dispatch(struct session *s);

/* session_plan.c: start to build the op table of `pid` in the background; build it, or take the one
 * in progress, into s->ops (0 or -errno); discard one that was not taken. */
void session_preload(struct session *s, pid_t pid);
int session_load_ops(struct session *s, pid_t pid, const struct libraries *l, struct err *e);
void session_end_preload(struct session *s);

/* Whether the op table was built from `m`, a libtorch. */
bool session_has_ops_of(const struct session *s, const struct mapping *m);

/* session_cost.c: the CPU time of traced threads. */

/* A thread has hit a probe; called by session_cost_hit. */
void session_cost_meet(struct session *s, const struct hit *h);

/* For each hit: its thread counts from its first one on. */
static inline void session_cost_hit(struct session *s, const struct hit *h)
{
	if ((pid_t)h->tid != s->cost.last_tid || h->proc != s->cost.last_proc)
		session_cost_meet(s, h);
}

/* Read the CPU time of each, while it is there. */
void session_cost_update(struct session *s);

/* Probes are about to be placed in a process, and are in it: what is spent in between is left out,
 * of all processes. */
void session_cost_placing(struct session *s);
void session_cost_placed(struct session *s);

/* Only what comes from now on counts. */
void session_cost_restart(struct session *s);

/* ns that all of them took since their first hits; 0: not known. */
uint64_t session_cost_cpu(const struct session *s);

/* c->probe_ns, as far as it counts. */
uint64_t session_cost_probes(const struct session *s, const struct engine_counters *c);

/* session_cost.c: --measure-overhead. While that is measured nothing is recorded. */

/* The next turn, if it is time; also begins to measure, and ends that. */
void session_turns_step(struct session *s);

/* At the end: say so if nothing was recorded, as it was still being measured. */
void session_turns_finish(const struct session *s);

/* Whether the event, or sum, began before recording did, or lies in an op that did. */
bool session_turns_is_before(const struct session *s, const struct op_event *ev);

/* What was found, into *out. */
void session_turns_tell(const struct session *s, struct trace_stats *out);

void session_free_target_info(struct trace_target *t);

/* By how much an op takes more CPU time where it is recorded, in parts of what it takes else. */
struct turns_found {
	double slowdown; /* the median of the pairs */
	double error;	 /* half of what the median lies in with a probability of 95 % */
	unsigned turns;	 /* that this is of; 0: of too few to say anything */
};

/* session_cost.c: `spent` of turns 1 to n (spent[0] is that of turn 1). */

/* Sets what the remaining probes took in the turns of rest (idle_ns), by the turn beside each: an
 * entry costs the difference of the two, less that of the programs at their exits, and an exit
 * what an entry does, but for its program. That includes what no clock inside a probe sees: the
 * traps, and the caches that the program has to fill again. */
void turns_leave_out_exits(struct turn_spent *spent, unsigned n, const struct turn_programs *p);

/* Pairs in which few ops were entered do not count. */
struct turns_found turns_compare(const struct turn_spent *spent, unsigned n);

#endif
