/* What the files of this folder share. */
#ifndef TRACER_ENGINE_PTRACE_INTERNAL_H
#define TRACER_ENGINE_PTRACE_INTERNAL_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>
#include <time.h>

#include "base/err.h"
#include "symbolizer/plan/plan.h"
#include "tracer/engine/engine.h"
#include "tracer/engine/plan_reader.h"
#include "tracer/engine/ptrace/emulate_x86_64.h"
#include "tracer/engine/remote.h"
#include "tracer/engine/ring.h"
#include "tracer/proc/follow.h"

/* What ditrace and its tracing process (engine ptrace) share: memory for what goes one way without
 * waiting, and the requests on the socket between them. */

enum {
	SHARE_RING = 32 << 20, /* bytes of records */
	SHARE_NEWS = 1024,     /* events of processes on their way */
	SHARE_BYTES = 1 << 20, /* code bytes changed at a time, in all processes */
	SHARE_REGS = 32,
};

/* A byte of code that was changed. Kept so that ditrace can put it back when its tracing process is
 * gone. */
struct changed_byte {
	uint64_t addr;
	int32_t pid; /* whose memory */
	uint8_t was;
	uint8_t in_use; /* this entry means something; set last, cleared first */
};

/* One of struct follow_event; the thread it names is kept still until REQUEST_RELEASE if `held`.
 * FOLLOW_EXIT that is held: the process is about to end, and its last records have been sent. */
struct news {
	enum follow_kind kind;
	pid_t pid, tid, parent;
	bool held;
};

struct share {
	int wake;	     /* eventfd: readable when a thread stands still for its record */
	struct ring records; /* in `ring`; the tracing process writes */
	_Alignas(64) _Atomic uint32_t news_head;
	_Atomic uint32_t news_tail;
	struct news news[SHARE_NEWS];
	_Atomic uint64_t hits, lost, sampled, sampled_ns;
	_Atomic uint64_t dispatched, dispatched_seen;
	_Atomic int counting; /* dispatched ops */
	_Atomic uint32_t
	    missing; /* breakpoints that somebody else took out, of process missing_in */
	_Atomic int32_t missing_in;
	_Atomic int standing;	   /* a SIGURG of the kernel's is told of: HIT_STANDS */
	uint64_t regs[SHARE_REGS]; /* answer to REQUEST_REGS, by enum arch_reg */
	_Atomic uint32_t nbytes;   /* entries of `bytes` ever used */
	struct changed_byte bytes[SHARE_BYTES];
	uint8_t ring[SHARE_RING];
};

enum request_kind {
	REQUEST_PLANS,	 /* first, n; n struct op_plan follow */
	REQUEST_PROC,	 /* proc; a struct proc_conf follows */
	REQUEST_WATCH,	 /* pid: trace all its threads and what it starts */
	REQUEST_ATTACH,	 /* pid, proc; a path of `path_len` bytes and n struct probe_site follow */
	REQUEST_DETACH,	 /* proc */
	REQUEST_RELEASE, /* pid: a thread that is held; sig: what it goes on with, 0: no signal */
	REQUEST_REGS,	 /* pid: a thread that is held at an op; its registers go to `regs` */
	REQUEST_LEAVE,	 /* take everything out and end */
};

struct request {
	uint32_t kind; /* enum request_kind */
	int32_t pid;
	int32_t sig;
	uint16_t proc;
	uint16_t path_len;
	uint32_t first, n;
	uint32_t len; /* bytes that follow */
};

struct reply {
	int32_t code; /* 0 or -errno, and then `err` */
	struct err err;
};

/* Append a record. 0, or -1 when there is no room. */
int share_put(struct share *s, const struct hit *h);

/* The next record, NULL: none. Valid until share_drop is called with it. */
const struct hit *share_next(struct share *s);
void share_drop(struct share *s, const struct hit *h);

/* Append news; false when there is no room. */
bool share_tell(struct share *s, const struct news *n);

/* Make `wake` readable. */
void share_wake(struct share *s);

/* Put back all bytes that are changed, through /proc/PID/mem. For signal handlers, too. */
void share_repair(struct share *s);

/* The breakpoints in one address space: which bytes of code are changed, and what for. */

enum { USE_LINKER = 0x10 }; /* beside enum site_kind: the linker has mapped libraries */
enum { NO_PROC = 0xfffe };
enum { CODE_BYTES = 16 }; /* from a breakpoint on, zeros behind the end of the file */

/* What a breakpoint is for. */
struct use {
	uint32_t kind; /* enum site_kind or USE_LINKER */
	uint32_t op;
	uint16_t proc;
	uint32_t next; /* internal */
};

struct breakpoint {
	uint64_t addr;
	bool live;	      /* the byte is changed; false: it was once, and is not any more */
	struct emulated insn; /* kind EMULATE_NONE: to be carried out elsewhere */
	uint8_t code[CODE_BYTES];
	uint32_t byte;	    /* index of the share's entry */
	uint32_t first_use; /* internal */
};

struct breakpoints;

/* The address space of process `pid`; bytes that are changed are listed in `share`, which must
 * outlive it. 0 with one reference, or -errno with *e. */
int breakpoints_open(pid_t pid, struct share *share, struct breakpoints **out, struct err *e);

/* That of a process just forked from one with the space `s`: the same bytes are changed, for no use
 * but the linker's. Where that fails, the child's code is as in its file and *out has no
 * breakpoints; NULL when the child cannot be reached at all. */
int breakpoints_fork(const struct breakpoints *s, pid_t child, struct breakpoints **out,
		     struct err *e);

struct breakpoints *breakpoints_ref(struct breakpoints *s);
void breakpoints_put(
    struct breakpoints *s); /* NULL allowed; the last one forgets, changing nothing */

/* The process that it was opened for. */
pid_t breakpoints_pid(const struct breakpoints *s);

/* Change the byte at `addr`, whose code is `code` in the file. Uses of the same address add up,
 * the newest comes first. 0; -EBUSY when something else stands there than in the file; -ENOTSUP
 * when the instruction cannot be carried out; -errno. */
int breakpoints_add(struct breakpoints *s, uint64_t addr, const uint8_t code[CODE_BYTES],
		    const struct use *use);

/* End the uses of process number `proc` (all for ENGINE_ALL_PROCS), and put back the bytes that are
 * of no use then, or were of none before. */
void breakpoints_remove(struct breakpoints *s, uint16_t proc);

/* Put back one byte, all bytes. */
void breakpoints_give_up(struct breakpoints *s, struct breakpoint *b);
void breakpoints_restore(struct breakpoints *s);

/* See whether the next `n` breakpoints, in turn, are there, and where one is not, put all in again
 * that are missing. Where a process once had eBPF probes, the kernel takes any breakpoint at an
 * instruction for its own as long as somebody probes that one in another process, and takes it out
 * (kernel/events/uprobes.c of 6.18, handle_swbp, register_for_each_vma). Returns how many were
 * missing. */
size_t breakpoints_mend(struct breakpoints *s, size_t n);

/* The breakpoint at `addr`, live or not; NULL: none ever was. */
struct breakpoint *breakpoints_find(struct breakpoints *s, uint64_t addr);

/* The use after `u` (NULL: the first) of the breakpoint; NULL: none. */
const struct use *breakpoints_next_use(const struct breakpoints *s, const struct breakpoint *b,
				       const struct use *u);

/* How many breakpoints are live. */
size_t breakpoints_live(const struct breakpoints *s);

/* Memory of the process, whatever its protection: 0 or -errno. */
int breakpoints_read(const struct breakpoints *s, uint64_t addr, void *buf, size_t len);
int breakpoints_write(const struct breakpoints *s, uint64_t addr, const void *buf, size_t len);

/* A place of code that never runs again, for one instruction at a time: the program's entry point.
 * 0: not known. */
uint64_t breakpoints_scratch(const struct breakpoints *s);

/* Inside of the tracing process of the engine ptrace: the threads and processes that it traces, and
 * the steps of its work, each in a file of its own. */

enum { TRACEE_SLOTS = 1024 };
#define TRACER_NAME "ditrace-tracer"

struct tracee_process {
	struct tracee_process *next;
	pid_t pid;
	struct breakpoints *space;
	unsigned threads;
	bool told;   /* that it has the libraries that are looked for */
	bool probed; /* some of its breakpoints are of use to ditrace */
};

struct tracee {
	struct tracee *next;	   /* in its slot */
	struct tracee_process *of; /* NULL: which process it is of is not known yet */
	pid_t tid;
	bool waiting;		  /* stopped until its parent's stop says whose it is */
	bool held;		  /* stopped until REQUEST_RELEASE */
	bool held_at_op;	  /* and that for its record */
	bool held_by_signal;	  /* or for that of eBPF, which has sent it one */
	bool late_trap;		  /* the SIGTRAP of a step that is done is still to come */
	bool asked;		  /* to stop, and has not yet */
	struct shadow_stack *ops; /* NULL: it has met no probe */
	/* The breakpoint that was met and told of, but not carried out, as a signal came first. */
	uint64_t skip_addr, skip_sp;
};

struct tracer {
	struct share *share;
	int sock;
	bool ending, leaving;
	bool (*interesting)(pid_t pid); /* has it mapped all that is looked for? */
	uint32_t nplans;
	struct op_plan *plans;
	struct proc_conf procs[PROC_SLOTS];
	struct remote *mem;
	struct hit_buf out;
	struct tracee_process *processes;
	struct tracee *slot[TRACEE_SLOTS];
};

/* tracees.c: the tables. */
struct tracee *tracee_find(const struct tracer *t, pid_t tid);
struct tracee_process *tracee_process_find(const struct tracer *t, pid_t pid);

/* A record of thread `tid`, which is traced; of the process that /proc says, if that is known. NULL
 * without memory. */
struct tracee *tracee_add(struct tracer *t, pid_t tid);

/* Forget it; with the last thread, its process, which is told. NULL allowed. */
void tracee_drop(struct tracer *t, struct tracee *x);

/* A new thread or process of `parent` (NULL: as far as /proc tells) has come to its first stop.
 * False when it has to wait until the stop of its parent tells whose it is. */
bool tracee_adopt(struct tracer *t, struct tracee *x, struct tracee_process *parent);

/* It runs another program: all its other threads are gone. */
void tracee_exec(struct tracer *t, struct tracee *x);

/* Trace all threads of `pid`. 0, or -errno with *e in words for the user. */
int tracee_seize(struct tracer *t, pid_t pid, struct tracee_process **out, struct err *e);

/* Tell ditrace; true when thread `tid` is to be held for that. */
bool tracee_tell(struct tracer *t, enum follow_kind kind, pid_t pid, pid_t tid, pid_t parent,
		 bool held);

/* tracee_stop.c: what a stop means, and going on from it. */
void tracee_waited(struct tracer *t, pid_t tid, int status);
void tracee_resume(const struct tracee *x, int sig);

/* tracee_hit.c: the thread has stopped by SIGTRAP. False when that is none of our breakpoints, and
 * nothing was done; else it goes on, is held, or the stop that came instead was taken care of. */
bool tracee_hit(struct tracer *t, struct tracee *x);

/* The registers of a thread that is held at an op, ARCH_REGS of them, as they would be without the
 * breakpoint. 0, or -ESRCH when it is gone. */
int tracee_registers(const struct tracee *x, uint64_t *out);

/* Put the thread, stopped by SIGTRAP, back to before the breakpoint of ours that it has met; false
 * when the signal is none of ours. */
bool tracee_rewind(struct tracee *x);

/* The SIGTRAP that the thread stopped by, or that waits in `info`, is of a step of ours that was
 * finished without it. */
bool tracee_is_late_trap(const struct tracee *x, const siginfo_t *info);

/* How long stops are waited for: turns of a pause each, two seconds. */
enum { TRACEE_TURNS = 10000 };
static const struct timespec tracee_turn = {.tv_nsec = 200 * 1000};

/* tracee_settle.c: ask the thread to stop once (->asked, which is returned), unless it waits in a
 * system call: a stop would end some of these with EINTR (signal(7)). A fork is no such call. */
bool tracee_ask(struct tracee *x);

/* A fork that began before its thread was seized makes a child that nobody traces: wait for it, so
 * that no breakpoint gets into it. One that waits for its child (vfork) shares its memory, and is
 * not waited for longer than TRACEE_TURNS. -ESRCH: the process has ended meanwhile. */
int tracees_settle(struct tracer *t, pid_t pid);

/* tracee_leave.c: put all code back and let everything go, as it would be without us. */
void tracees_leave(struct tracer *t);

/* Probe sites of a file as addresses in a process: a step of the tracing process. */

/* Carry out a REQUEST_ATTACH: trace the process if it is not traced yet, and put breakpoints at all
 * the sites that follow. 0 or -errno with *e; what was put in until then stays. */
int tracer_sites_attach(struct tracer *t, const struct request *q, const void *payload,
			struct err *e);

/* The tracing process of the engine ptrace. It lives in a session of its own and outlives ditrace
 * by the moment that it takes to leave the traced processes as they were. */

struct share; /* tracer/engine/ptrace/internal.h */

/* Serve the requests that come from `sock` until it is closed or SIGTERM comes, then leave.
 * `parent` is the process that forked this one; `nplans` is the most plans that will be set. Called
 * in a fresh child with no other thread; the caller ends the process after it. */
void tracer_main(struct share *share, int sock, pid_t parent, uint32_t nplans,
		 interesting_fn *interesting);

#endif
