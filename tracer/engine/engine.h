/* An engine: carries out a probe plan on processes and hands back the hits. */
#ifndef TRACER_ENGINE_ENGINE_H
#define TRACER_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/plan/plan.h"
#include "tracer/proc/follow.h"

/* The places of one file. `path` must name the file from where ditrace stands (through
 * /proc/PID/root for another mount namespace). Not owned. */
struct probe_file {
	const char *path;
	const struct probe_site *sites;
	size_t nsites;
};

/* Whether a process has mapped all that its tracer looks for; asked when libraries have come. */
typedef bool interesting_fn(pid_t pid);

enum { ENGINE_ALL_PROCS = UINT16_MAX };
enum { ENGINE_AT_ONCE = 100000 }; /* consume may stop after so many records */

struct engine_counters {
	uint64_t hits;	  /* probe hits so far */
	uint64_t lost;	  /* records that were dropped, all causes */
	uint64_t mean_ns; /* mean time of a hit within the probe itself */
	uint64_t trap_ns; /* time that a probe costs before it does anything; 0 before calibrate */
	uint64_t dispatched, dispatched_seen; /* see engine_count_dispatch */
};

/* Called for every record, in the order in which they were taken; `h` is valid during the call only
 * and h->size bytes long (checked against the record). */
typedef void engine_hit_fn(const struct hit *h, void *arg);

struct engine {
	const char *name;
	pid_t tracer; /* process that traces in place of ditrace; 0: ditrace itself */
	/* What has become of it when consume returns -ECHILD, and what that means for the traced.
	 */
	const char *gone, *gone_hint;
	int wake;      /* readable when a thread stands still for its record (PLAN_STOP); -1: none
			  ever does */
	bool observes; /* takes SITE_OBSERVED instead of entries and exits */
	struct err trouble; /* something that the user is to be told; whoever does clears it */
	/* Make plan entries first .. first + n - 1 known. 0 or -errno (-E2BIG: beyond the size
	 * given at opening). */
	int (*set_plans)(struct engine *g, uint32_t first, const struct op_plan *plans, uint32_t n,
			 struct err *e);
	/* How to read process number `proc`; may be called again at any time. 0 or -errno. */
	int (*set_proc)(struct engine *g, uint16_t proc, const struct proc_conf *conf);
	/* Put the probes of `file` into `pid`; adds to those it has. 0 or -errno. */
	int (*attach)(struct engine *g, pid_t pid, uint16_t proc, const struct probe_file *file,
		      struct err *e);
	/* Take all probes out of process number `proc`, or of all for ENGINE_ALL_PROCS. */
	void (*detach)(struct engine *g, uint16_t proc);
	/* Hand over what has come since the last call; returns the number of records or -errno.
	 * Less than ENGINE_AT_ONCE was all that there is. Never blocks: call it every millisecond
	 * or so. A thread that stands still at a record with HIT_STOPPED goes on when `fn` has
	 * returned. */
	int (*consume)(struct engine *g, engine_hit_fn *fn, void *arg);
	/* Registers of the thread that stands still at the record that `fn` is called with, by enum
	 * arch_reg (ARCH_REGS of them). 0 or -errno. NULL: an engine that cannot tell. */
	int (*registers)(struct engine *g, pid_t tid, uint64_t *out);
	void (*count_dispatch)(struct engine *g, int on);
	/* NULL for an engine that picks no calls (PLAN_PICK). For one that does: a call of plan
	 * entry `op` was seen in another way than by its probe; its number. */
	uint64_t (*count_call)(struct engine *g, uint16_t proc, uint32_t op);
	/* With count_call: whether gradients are awaited from now on. */
	void (*set_awaited)(struct engine *g, bool awaited);
	void (*counters)(struct engine *g, struct engine_counters *out);
	/* Measure trap_ns of the counters; takes some milliseconds. May leave a probe in ditrace
	 * itself until all are detached. */
	void (*calibrate)(struct engine *g);
	/* An engine that has to follow processes itself; NULL for one that does not care, beside
	 * which follow.h is to be used. Trace all threads of `pid` and whatever it starts from now
	 * on. 0 or -errno. */
	int (*watch)(struct engine *g, pid_t pid, struct err *e);
	/* With watch: as follow_read. FOLLOW_MAP comes once all that is looked for is mapped,
	 * without a path, FOLLOW_FORK for children of such processes; of these two the thread `tid`
	 * is kept still until the call returns. */
	int (*follow)(struct engine *g, follow_fn *fn, void *arg);
	/* Detach everything and free `g`. */
	void (*close)(struct engine *g);
};

/* The engine bpf: uprobe_multi links (Linux 6.6, include/uapi/linux/bpf.h BPF_TRACE_UPROBE_MULTI).
 * `nplans` is the most plan entries that will be set. Needs CAP_BPF and CAP_PERFMON, or
 * CAP_SYS_ADMIN. Returns 0 and *out, or -errno with *e saying what is missing. */
int engine_bpf_open(uint32_t nplans, struct engine **out, struct err *e);

/* The engine ptrace: breakpoints, met by a tracing process of its own, which leaves everything as
 * it was when ditrace ends in whatever way. `interesting` says whether a process has mapped all
 * that is looked for. Needs the right to ptrace the processes, no more. Returns 0 and *out, or
 * -errno with *e. */
int engine_ptrace_open(uint32_t nplans, interesting_fn *interesting, struct engine **out,
		       struct err *e);

/* The engine bpf, with the threads of the calls that `pick` picks standing still: those of plans
 * with PLAN_STOP and PLAN_PICK; of plans with PLAN_STOP alone all do. Follows processes itself.
 * Needs what both engines need. Returns 0 and *out, or -errno with *e. */
int engine_both_open(uint32_t nplans, interesting_fn *interesting, const struct pick *pick,
		     struct engine **out, struct err *e);

enum engine_choice { ENGINE_AUTO, ENGINE_BPF, ENGINE_PTRACE, ENGINE_SHIM };

struct engine_wanted {
	enum engine_choice choice;
	uint32_t nplans; /* the most plan entries that will be set */
	interesting_fn *interesting;
	pid_t pid; /* what is to be traced runs already; 0: it will be started */
};

/* The engine shim: a library inside the traced processes, which records what PyTorch tells its
 * observers (ATen/record_function.h). It comes into what is started from now on, by LD_PRELOAD in
 * the environment of this process, which needs no privilege; into w->pid it is brought by ptrace,
 * at once if that is interesting. 0 and *out, or -errno with *e. */
int engine_shim_open(const struct engine_wanted *w, struct engine **out, struct err *e);

extern const char *const engine_names[]; /* words of --engine, in that order, ended by NULL */

/* Open the engine of that choice; the first that works for ENGINE_AUTO. *note (may be NULL): when
 * that is not the first, its `what` says in one line which it is and why, else its code is 0. */
int engine_open(const struct engine_wanted *w, struct engine **out, struct err *note,
		struct err *e);

/* What the engines bpf and ptrace have beside tracer/engine/engine.h, for the engine that is made
 * of both (tracer/engine/ptrace/engine_both.c): eBPF sees every call and picks some, whose threads
 * ptrace stops. */

/* Of the engine bpf: what PLAN_PICK picks. 0 or -errno. */
int engine_bpf_pick(struct engine *g, const struct pick *pick);

/* One more call of plan entry `op` in process number `proc`, which eBPF has not seen: its number,
 * from 1 on; 0 without memory. */
uint64_t engine_bpf_count_call(struct engine *g, uint16_t proc, uint32_t op);

/* Whether gradients are awaited (PLAN_PICK). */
void engine_bpf_set_awaited(struct engine *g, bool awaited);

/* Records so far whose thread should stand still, and whose signal mask forbids it. */
uint64_t engine_bpf_unheld(struct engine *g);

/* Count the calls of process number `proc` from the start. */
void engine_bpf_forget_calls(struct engine *g, uint16_t proc);

/* Of the engine ptrace: hold threads at a SIGURG that the kernel sends (SI_KERNEL), and tell of
 * each by a record of the kind HIT_STANDS. */
void engine_ptrace_hold_signalled(struct engine *g);

/* Let such a thread go on, with signal `sig` (0: none). */
void engine_ptrace_release(struct engine *g, pid_t tid, int sig);

#endif
