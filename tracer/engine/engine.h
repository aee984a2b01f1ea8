/* An engine carries out a probe plan on processes and hands back the hits. */
#ifndef TRACER_ENGINE_ENGINE_H
#define TRACER_ENGINE_ENGINE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/target/elf.h"
#include "tracer/engine/turns.h"
#include "tracer/proc/follow.h"
#include "tracer/proc/spawn.h"

/* Probe sites of one file. `path` must be reachable from ditrace's mount namespace (through
 * /proc/PID/root for a process in another one). Not owned. */
struct probe_file {
	const char *path;
	const struct probe_site *sites;
	size_t nsites;
	/* For sites with windows (len), which stay valid until they are detached, or with `late`
	 * during the call: the file, and what to add to its addresses to get those in the process.
	 * NULL: none has one. */
	const struct elf_file *elf;
	uint64_t bias;
	uint64_t engine_main, engine_main_size; /* as in struct op_table */
	/* Of libtorch_cpu, for an engine that takes them: SHIM_MEMORIES sites in libc10, that file
	 * and what to add to its addresses. NULL: what is done with memory is not recorded. */
	const struct probe_site *memory;
	const struct elf_file *c10;
	uint64_t c10_bias;
	bool late; /* mapped after the process was attached to: its sites are to be set at once */
};

/* Whether a process has mapped all the libraries its tracer needs; asked when libraries were
 * loaded. */
typedef bool interesting_fn(pid_t pid);

/* What an engine's helper sends, by sigqueue(3), to a ditrace that has been stopped by SIGSTOP
 * while threads wait for it, ahead of a SIGCONT of its own: let go of them, and stop again.
 * sival_ptr: when it was seen stopped, in ns of CLOCK_MONOTONIC. Without a handler it is ignored
 * (signal(7)). */
enum { ENGINE_HALTS = SIGURG };

enum { ENGINE_ALL_PROCS = UINT16_MAX };
enum { ENGINE_AT_ONCE = 100000 }; /* records after which consume may return early */

struct engine_counters {
	uint64_t hits; /* probe hits so far */
	uint64_t lost; /* records that were dropped, all causes */
	/* Time that all probes together have taken of the traced threads, traps included; 0: not
	 * known, also before calibrate. */
	uint64_t probe_ns;
	bool probe_is_least; /* they took more, as the program had to fill its caches again */
	bool probe_is_stop;  /* the threads were stopped meanwhile, and took no CPU time */
	/* Dispatched ops while count_dispatch is on; those of them that a probe was hit for. */
	uint64_t dispatched, dispatched_seen;
	uint64_t no_blocks; /* processes of which it does not see where blocks of record_function
			       begin and end */
};

/* Called for every record, in the order in which they were taken. `h` is valid only during the
 * call; h->size has been checked against the record. */
typedef void engine_hit_fn(const struct hit *h, void *arg);

/* What the vendor's library says of a device, as it comes: a launch and what it made the device do
 * come separately, in any order, and late; they have a number in common. */
enum activity_record_kind {
	RECORD_LAUNCH, /* a call of the host: tid, start_ns, end_ns, correlation */
	RECORD_RAN,    /* what came of it: all but tid */
	RECORD_NAME,   /* the text of a name, before its first use: name, text */
	/* Of the process's memory: name is the address. RECORD_ALLOCATED: tid, device, start_ns,
	 * bytes; RECORD_FREED: bytes 0: not known. total, reserved: what of the device's memory is
	 * allocated now, and what its allocator has of it; 0: not known. In the order in which they
	 * were done. */
	RECORD_ALLOCATED,
	RECORD_FREED,
	RECORD_MEMORY_LOST, /* so many of the last two were lost: bytes */
	/* So many records were lost: bytes. With 0 it comes first of all of a process, before its
	 * first launch: from then on ops are kept to find those of launches. */
	RECORD_LOST,
};

struct activity_record {
	uint8_t kind;	  /* enum activity_record_kind */
	uint8_t activity; /* enum activity_kind */
	/* Of a copy: from and to; of a set: to. As CUPTI numbers kinds of memory
	 * (CUpti_ActivityMemoryKind, CUPTI 11.8 to 13.0); 0: not known. */
	uint8_t from, to;
	int8_t device_type, device_index; /* c10::DeviceType */
	bool in_graph;
	uint32_t correlation, stream;
	int32_t pid, tid;	   /* as seen from ditrace; tid 0: not known */
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
	uint64_t bytes, total, reserved;
	/* Of a kernel: a number, within the process; 0: none. Of a copy: its
	 * CUpti_ActivityMemcpyKind; 0: not known. */
	uint64_t name;
	const char *text; /* mangled, as the library has it; valid during the call */
};

typedef void engine_activity_fn(const struct activity_record *r, void *arg);

struct engine {
	const char *name;
	pid_t tracer; /* process that does the tracing; 0: ditrace itself */
	/* Why the tracing process is gone when consume returns -ECHILD, and what that means for the
	 * traced processes. */
	const char *gone, *gone_hint;
	int wake;      /* readable when a stopped thread waits for its record (PLAN_STOP); -1: none
			  ever does */
	bool observes; /* takes SITE_OBSERVED sites, and of others those with windows */
	int pause_ms;  /* set by consume: how much time there is until the next call, if nothing new
			  is expected; at most 1: the usual millisecond */
	struct err trouble; /* something to report to the user; whoever reports it clears it */
	unsigned missed;    /* processes that run untraced as they had to wait too long */
	/* Set plan entries first .. first + n - 1. 0 or -errno (-E2BIG: more than the nplans given
	 * at opening). */
	int (*set_plans)(struct engine *g, uint32_t first, const struct op_plan *plans, uint32_t n,
			 struct err *e);
	/* Set how process number `proc` is read; may be called again at any time. 0 or -errno. */
	int (*set_proc)(struct engine *g, uint16_t proc, const struct proc_conf *conf);
	/* More rows by which stacks of process number `proc` are walked (proc_conf.native), `n` of
	 * them. NULL: this engine walks none. */
	void (*add_rows)(struct engine *g, uint16_t proc, const struct native_row *rows, size_t n);
	/* Add the probes of `file` to those in `pid`. 0 or -errno. */
	int (*attach)(struct engine *g, pid_t pid, uint16_t proc, const struct probe_file *file,
		      struct err *e);
	/* Remove all probes of process number `proc`, or of all for ENGINE_ALL_PROCS. */
	void (*detach)(struct engine *g, uint16_t proc);
	/* Hand over what has arrived since the last call; returns the number of records or -errno.
	 * Fewer than ENGINE_AT_ONCE means that none are left. Never blocks: call it about every
	 * millisecond; see `pause_ms`. A thread stopped at a record with HIT_STOPPED resumes when
	 * `fn` returns. */
	int (*consume)(struct engine *g, engine_hit_fn *fn, void *arg);
	/* Hand over what devices did, as consume; call it after consume. All records of hits taken
	 * before a launch ended have been handed over by consume when it comes, or come in its next
	 * call. NULL: the engine knows nothing of devices. */
	int (*activities)(struct engine *g, engine_activity_fn *fn, void *arg);
	/* Whether the thread of the record with HIT_STOPPED that `fn` is being called with has
	 * stood still until now: while this process is stopped it may be let go, and what was read
	 * meanwhile is of no use. NULL: always. */
	bool (*stood)(struct engine *g);
	/* This process is about to stop itself (`away`), or goes on: until then no thread is
	 * stopped or waits for it any more, except those whose records consume and follow still
	 * have to hand over. NULL: none ever does. */
	void (*set_away)(struct engine *g, bool away);
	/* Registers, by enum arch_reg (ARCH_REGS of them), of the thread stopped at the record that
	 * `fn` is being called with. 0 or -errno. NULL: not supported by this engine. */
	int (*registers)(struct engine *g, pid_t tid, uint64_t *out);
	/* Start or stop counting dispatched ops. */
	void (*count_dispatch)(struct engine *g, int on);
	/* NULL for an engine that does not select calls (PLAN_PICK). Counts a call of plan entry
	 * `op` that was seen by other means than its probe; returns its number. */
	uint64_t (*count_call)(struct engine *g, uint16_t proc, uint32_t op);
	/* With count_call: whether gradients are awaited (PLAN_PICK) from now on. */
	void (*set_awaited)(struct engine *g, bool awaited);
	void (*counters)(struct engine *g, struct engine_counters *out);
	/* Have all threads take that turn: 1 to TURNS_MAX, then TURNS_LAST, then 0. NULL: the
	 * engine cannot leave ops out for a while. */
	void (*set_turn)(struct engine *g, uint32_t turn);
	/* With set_turn: what threads have spent in a turn, as far as they have begun later ones.
	 */
	struct turn_spent (*turn)(const struct engine *g, uint32_t turn);
	/* For turns_leave_out_exits, of an engine that changes over in set_turn, for all threads at
	 * once, and knows no CPU times: turn leaves these 0, and has what was done between two
	 * calls of set_turn. NULL: of another. */
	void (*programs)(const struct engine *g, struct turn_programs *out);
	/* Measure what a trap takes; takes some milliseconds. May leave a probe in ditrace itself
	 * until all are detached. */
	void (*calibrate)(struct engine *g);
	/* From now on attach may bring what it needs into process `pid`, as into the first one that
	 * is to be traced; NULL: nothing is brought in. */
	void (*expect)(struct engine *g, pid_t pid);
	/* Whether process `pid` has nothing of that. NULL: nothing is brought in. */
	bool (*is_outside)(pid_t pid);
	/* Trace all threads of `pid` and whatever it starts from now on. 0 or -errno. NULL for an
	 * engine that does not follow processes itself: use follow.h beside it. */
	int (*watch)(struct engine *g, pid_t pid, struct err *e);
	/* With watch: as follow_read. FOLLOW_MAP has no path and comes once all the needed
	 * libraries are mapped, FOLLOW_FORK for children of such processes; for these two the
	 * thread `tid` stays stopped until the call returns. */
	int (*follow)(struct engine *g, follow_fn *fn, void *arg);
	/* Detach everything and free `g`. */
	void (*close)(struct engine *g);
};

enum engine_choice { ENGINE_AUTO, ENGINE_BPF, ENGINE_PTRACE, ENGINE_SHIM };

struct engine_wanted {
	enum engine_choice choice;
	uint32_t nplans; /* the most plan entries that will be set */
	interesting_fn *interesting;
	pid_t pid; /* the running process to trace; 0: one that will be started */
	const struct spawn_user *user; /* of that one; NULL: this process's */
	bool stops; /* threads are to stop (PLAN_STOP), which those under bpf do not */
	const char
	    *not_shim; /* why ENGINE_AUTO is to try bpf first, in a few words; NULL: it is not */
	/* Calls for whose records there is no room may be summed up (HIT_SUM) instead of lost. */
	bool may_sum;
	/* For the engine shim, which alone will do for ENGINE_AUTO then: threads wait for room
	 * (--no-loss). */
	bool waits;
	uint64_t buffer; /* bytes of a ring (--buffer, engine_ring_bytes); 0: the engine's own */
	/* struct engine.activities is not to be used; or also of processes in which a device is in
	 * use already. */
	bool no_devices, devices;
};

enum { ENGINE_RING_LEAST = 512 << 10, ENGINE_RING_MOST = 64 << 20 };

/* Bytes of a ring: what is `wanted`, or 0: the `usual`, within what rings may have. */
static inline uint64_t engine_ring_bytes(uint64_t wanted, uint64_t usual)
{
	const uint64_t bytes = wanted ? wanted : usual;
	return bytes < ENGINE_RING_LEAST  ? ENGINE_RING_LEAST
	       : bytes > ENGINE_RING_MOST ? ENGINE_RING_MOST
					  : bytes;
}

/* The engine bpf: uprobe_multi links (Linux 6.6, include/uapi/linux/bpf.h BPF_TRACE_UPROBE_MULTI).
 * Needs CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN. Returns 0 and *out, or -errno with *e naming
 * what is missing. */
int engine_bpf_open(const struct engine_wanted *w, struct engine **out, struct err *e);

/* The engine ptrace: breakpoints, handled by a tracing process of its own, which restores
 * everything however ditrace ends. Needs only the right to ptrace the processes. Returns 0 and
 * *out, or -errno with *e. */
int engine_ptrace_open(const struct engine_wanted *w, struct engine **out, struct err *e);

/* The engine bpf, which also stops threads: for plans with PLAN_STOP and PLAN_PICK at the calls
 * selected by `pick`, for plans with PLAN_STOP alone at every call. Follows processes itself. Needs
 * what both engines need. Returns 0 and *out, or -errno with *e. */
int engine_both_open(const struct engine_wanted *w, const struct pick *pick, struct engine **out,
		     struct err *e);

/* The engine shim: a library inside the traced processes to which jumps lead (jumps.h), and which
 * records what PyTorch reports to its observers (ATen/record_function.h) of what passes none.
 * Processes started from now on get it by LD_PRELOAD in this process's environment, which needs no
 * privilege; into w->pid it is injected by ptrace, at once if that process is interesting. 0 and
 * *out, or -errno with *e. */
int engine_shim_open(const struct engine_wanted *w, struct engine **out, struct err *e);

/* Whether that engine is fit for the running process `pid`, or (0) for one that this one starts, as
 * far as can be known beforehand. 0, or -errno with *e: -EACCES if it would have to observe every
 * op, since nobody may write into code here. */
int engine_shim_fits(pid_t pid, struct err *e);

extern const char *const engine_names[]; /* words of --engine, in that order, ended by NULL */

/* Open the engine of that choice; for ENGINE_AUTO the first that works, of shim, bpf and ptrace.
 * *note (may be NULL): if that is not the first, its `what` says in one line which one it is and
 * why; else its code is 0. */
int engine_open(const struct engine_wanted *w, struct engine **out, struct err *note,
		struct err *e);

/* What the engines bpf and ptrace offer beyond struct engine to the engine that combines them
 * (tracer/engine/ptrace/engine_both.c): eBPF sees every call and selects some, whose threads ptrace
 * stops. */

/* Engine bpf: set what PLAN_PICK selects. 0 or -errno. */
int engine_bpf_pick(struct engine *g, const struct pick *pick);

/* Count a call of plan entry `op` in process number `proc` that eBPF did not see. Returns its
 * number, from 1 on; 0 without memory. */
uint64_t engine_bpf_count_call(struct engine *g, uint16_t proc, uint32_t op);

/* Set whether gradients are awaited (PLAN_PICK). */
void engine_bpf_set_awaited(struct engine *g, bool awaited);

/* Records so far whose thread should have stopped but blocks the signal. */
uint64_t engine_bpf_unheld(struct engine *g);

/* Restart the call counts of process number `proc`. */
void engine_bpf_forget_calls(struct engine *g, uint16_t proc);

/* Engine ptrace: stop each thread that gets a SIGURG from the kernel (SI_KERNEL), and report it by
 * a HIT_STANDS record. */
void engine_ptrace_hold_signalled(struct engine *g);

/* Resume such a thread, with signal `sig` (0: none). */
void engine_ptrace_release(struct engine *g, pid_t tid, int sig);

#endif
