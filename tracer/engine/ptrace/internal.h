/* What the files of the engine ptrace share. */
#ifndef TRACER_ENGINE_PTRACE_INTERNAL_H
#define TRACER_ENGINE_PTRACE_INTERNAL_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>
#include <time.h>
#include <stddef.h>

#include "base/err.h"
#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/plan/plan.h"
#include "tracer/engine/engine.h"
#include "tracer/engine/plan_reader.h"
#include "tracer/engine/ptrace/trap_page.h"
#include "tracer/engine/remote.h"
#include "tracer/engine/ring.h"
#include "tracer/engine/sums.h"
#include "tracer/proc/follow.h"
#include "tracer/proc/seize.h"

/* emulate_x86_64.c: executes the instruction under a breakpoint without lifting the breakpoint:
 * common instructions are emulated on the registers of the stopped thread, others relocated to be
 * executed out of line. x86-64. */

enum { EMULATE_INSN_MAX = 15 }; /* bytes of the longest instruction; Intel SDM volume 2, 2.3.11 */
enum { EMULATE_MOVED_MAX = EMULATE_INSN_MAX + 14 }; /* with a jump behind it */

enum emulate_kind {
	EMULATE_NONE, /* not emulated: see emulate_relocate */
	EMULATE_NOP,  /* nop of any length, endbr64, pause */
	EMULATE_PUSH, /* of a register */
	EMULATE_POP,  /* to a register */
	EMULATE_JUMP, /* relative */
	EMULATE_COND, /* conditional jump, relative */
	EMULATE_CALL, /* relative */
	EMULATE_RET,
	EMULATE_SUB_SP, /* sub or add of a constant to rsp */
	EMULATE_MOVE,	/* 64-bit register to register */
};

struct emulated {
	uint8_t kind; /* enum emulate_kind */
	uint8_t len;
	uint8_t reg, src; /* enum arch_reg */
	uint8_t cond;	  /* the low four bits of the opcode */
	int32_t value; /* displacement, constant subtracted, or bytes ret pops beside the address */
};

/* Decode the instruction at `code`, of which `n` bytes are given. 0, or -ENOTSUP when it is not one
 * of these. */
int emulate_decode(const uint8_t *code, size_t n, struct emulated *out);

/* Access to 8 bytes of the thread's memory at `addr`. 0 or -errno. */
struct emulate_memory {
	int (*read)(void *arg, uint64_t addr, uint64_t *out);
	int (*write)(void *arg, uint64_t addr, uint64_t value);
	void *arg;
};

/* Emulate `i`, which is at `addr`, on the ARCH_REGS registers. 0, or -errno of a memory access,
 * with nothing changed. */
int emulate_run(const struct emulated *i, uint64_t addr, uint64_t *regs,
		const struct emulate_memory *m);

/* Rewrite the instruction at `from` so that it does the same when executed at `to`; its bytes go to
 * out. Returns its length; -ENOTSUP when it transfers control, or its RIP-relative operand is out
 * of range from `to`; -EILSEQ when it is no instruction; -ENOMEM. */
int emulate_relocate(const uint8_t *code, size_t n, uint64_t from, uint64_t to,
		     uint8_t out[EMULATE_INSN_MAX]);

/* Write a jump to `to`, which changes no register. Returns its length. */
size_t emulate_jump(uint8_t *out, uint64_t to);

/* Write a push, whose length is *len, and what undoes it and jumps to `to`. Returns the length of
 * both. */
size_t emulate_touch(uint8_t out[EMULATE_MOVED_MAX], uint64_t to, size_t *len);

/* The share: what ditrace and its tracing process have in common. Shared memory for what flows one
 * way without waiting, and requests on a socket. */

enum {
	SHARE_RING = 32 << 20, /* bytes of records, if none are said */
	SHARE_SUMS = 128,      /* threads whose calls are summed up at a time */
	SHARE_NEWS = 1024,     /* process events in flight */
	SHARE_BYTES = 1 << 20, /* code bytes changed at a time, in all processes */
	SHARE_REGS = 32,
};

/* A byte of code that was changed, recorded so that ditrace can restore it if its tracing process
 * dies. */
struct changed_byte {
	uint64_t addr;
	int32_t pid; /* whose memory */
	uint8_t was;
	uint8_t in_use; /* the entry is valid; set last, cleared first */
};

/* A struct follow_event; if `held`, the thread it names stays stopped until REQUEST_RELEASE.
 * FOLLOW_EXIT with `held`: the process is about to exit, its last records have been sent. */
struct news {
	enum follow_kind kind;
	pid_t pid, tid, parent;
	bool held;
};

/* What of a thread's calls is summed up where the ring has no room. The tracing process takes a
 * free one; ditrace frees it when the thread has ended and all has been read. */
struct share_sums {
	_Atomic bool taken, ended;
	uint16_t proc;
	struct sums sums;
};

struct share {
	int wake;	     /* eventfd: readable when a stopped thread waits for its record */
	bool may_sum;	     /* calls are summed up, instead of lost */
	uint32_t ring_bytes; /* of `ring` */
	struct ring records; /* in `ring`; the tracing process writes */
	_Alignas(64) _Atomic uint32_t news_head;
	_Atomic uint32_t news_tail;
	struct news news[SHARE_NEWS];
	_Atomic uint64_t hits, lost, sampled, sampled_ns;
	_Atomic uint64_t dispatched, dispatched_seen;
	_Atomic int counting; /* dispatched ops */
	_Atomic uint32_t
	    missing; /* breakpoints that somebody else removed, last from process missing_in */
	_Atomic int32_t missing_in;
	_Atomic int standing;	   /* report SIGURGs from the kernel by HIT_STANDS */
	uint64_t regs[SHARE_REGS]; /* answer to REQUEST_REGS, by enum arch_reg */
	_Atomic uint32_t nbytes;   /* entries of `bytes` ever used */
	struct changed_byte bytes[SHARE_BYTES];
	struct sums_code code;
	_Atomic uint32_t nsums; /* of `sums` only so many, the first, were ever taken */
	struct share_sums sums[SHARE_SUMS];
	uint8_t ring[];
};

enum request_kind {
	REQUEST_PLANS,	 /* first, n; n struct op_plan follow */
	REQUEST_PROC,	 /* proc; a struct proc_conf follows */
	REQUEST_WATCH,	 /* pid: trace all its threads and what it starts */
	REQUEST_ATTACH,	 /* pid, proc; a path of `path_len` bytes and n struct probe_site follow */
	REQUEST_DETACH,	 /* proc */
	REQUEST_RELEASE, /* pid: a held thread; sig: deliver this signal, 0: none */
	REQUEST_REGS,	 /* pid: a thread held at an op; its registers go to `regs` */
	REQUEST_AWAY,	 /* n: hold no thread until it is 0 again */
	REQUEST_LEAVE,	 /* restore everything and end */
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
	int32_t code; /* 0, or -errno with `err` */
	struct err err;
};

/* Append a record. 0, or -1 when there is no room. Only the tracing process writes. */
int share_put(struct share *s, const struct hit *h);

/* How much of the ring is in use, in sixteenths. */
unsigned share_fill(const struct share *s);

/* A place to sum up calls of a thread of process number `proc`; NULL: all are taken. */
struct share_sums *share_take_sums(struct share *s, uint16_t proc);

/* What ditrace knows of these. Zero-initialise. */
struct share_reader {
	struct sums_reader *of[SHARE_SUMS];
	uint64_t read_ns; /* when they were last read */
};

/* Hand over what was summed up; `which`: SUMS_*. Returns the number of rows. */
int share_read_sums(struct share *s, struct share_reader *r, unsigned which, engine_hit_fn *fn,
		    void *arg);
void share_reader_free(struct share_reader *r);

/* The next record; NULL: none. Valid until share_drop is called with it. */
const struct hit *share_next(struct share *s);
void share_drop(struct share *s, const struct hit *h);

/* Append news; false when there is no room. */
bool share_tell(struct share *s, const struct news *n);

/* Make `wake` readable. */
void share_wake(struct share *s);

/* Restore all changed bytes through /proc/PID/mem. Async-signal-safe. */
void share_repair(struct share *s);

/* Breakpoints of one address space: which bytes of code are changed, and for what uses. */

enum { USE_LINKER = 0x10 }; /* beside enum site_kind: the linker's notification */
enum { NO_PROC = 0xfffe };
enum { CODE_BYTES = 16 }; /* from the breakpoint on, zeros beyond the end of the file */

/* What a breakpoint is for. */
struct use {
	uint32_t kind; /* enum site_kind or USE_LINKER */
	uint32_t op;
	uint16_t proc;
	uint32_t next; /* internal */
};

struct breakpoint {
	uint64_t addr;
	bool live;	      /* the byte is changed now; else it was once */
	struct emulated insn; /* kind EMULATE_NONE: to be executed out of line */
	uint8_t code[CODE_BYTES];
	uint64_t scratch;   /* where that is */
	uint32_t byte;	    /* index into the share's bytes */
	uint32_t first_use; /* internal */
};

struct breakpoints;

/* Open the address space of process `pid`; changed bytes are listed in `share`, which must outlive
 * it. 0 with one reference, or -errno with *e. */
int breakpoints_open(pid_t pid, struct share *share, struct breakpoints **out, struct err *e);

/* The same for a process just forked from one with the space `s`: it has the same bytes changed,
 * but only the linker's uses. On failure the child's code is restored and *out has no breakpoints,
 * or is NULL when the child cannot be reached at all. 0 or -errno with *e. */
int breakpoints_fork(const struct breakpoints *s, pid_t child, struct breakpoints **out,
		     struct err *e);

/* Take another reference; returns `s`. */
struct breakpoints *breakpoints_ref(struct breakpoints *s);
/* Drop a reference (NULL allowed). The last one frees `s`; the process's code stays as it is. */
void breakpoints_put(struct breakpoints *s);

/* The process it was opened for. */
pid_t breakpoints_pid(const struct breakpoints *s);

/* Set a breakpoint at `addr`, where the file has `code`. An address may have several uses, newest
 * first. 0; -EBUSY when the memory differs from the file; -ENOTSUP when the instruction can neither
 * be emulated nor moved; -errno. */
int breakpoints_add(struct breakpoints *s, uint64_t addr, const uint8_t code[CODE_BYTES],
		    const struct use *use);

/* Remove the uses of process number `proc` (all for ENGINE_ALL_PROCS) except the linker's, and
 * restore the bytes that have no use left. */
void breakpoints_remove(struct breakpoints *s, uint16_t proc);

/* Restore one byte; restore all of them. */
void breakpoints_give_up(struct breakpoints *s, struct breakpoint *b);
void breakpoints_restore(struct breakpoints *s);

/* Check the next `n` breakpoints, in turn; if one is missing, set all the missing ones again. In a
 * process that once had eBPF probes, the kernel takes any int3 at a probed instruction for its own
 * while somebody probes that instruction in another process, and then removes it
 * (kernel/events/uprobes.c of 6.18, handle_swbp, register_for_each_vma). Returns how many were
 * missing. */
size_t breakpoints_mend(struct breakpoints *s, size_t n);

/* The breakpoint at `addr`, live or not; NULL: there never was one. */
struct breakpoint *breakpoints_find(struct breakpoints *s, uint64_t addr);

/* The use after `u` of the breakpoint (NULL: the first); NULL: no more. */
const struct use *breakpoints_next_use(const struct breakpoints *s, const struct breakpoint *b,
				       const struct use *u);

/* The number of live breakpoints. */
size_t breakpoints_live(const struct breakpoints *s);

/* Read or write memory of the process regardless of its protection. 0 or -errno. */
int breakpoints_read(const struct breakpoints *s, uint64_t addr, void *buf, size_t len);
int breakpoints_write(const struct breakpoints *s, uint64_t addr, const void *buf, size_t len);

/* An address at which one instruction can be executed out of line: in the trap page or, without
 * one, the program's entry point, whose code never runs again. 0: not known. */
uint64_t breakpoints_scratch(const struct breakpoints *s);

/* Write code of at most EMULATE_MOVED_MAX bytes at `at`, one of the two. It stays until the next
 * one, or until breakpoints_restore, as a thread may be left alone in it. 0 or -errno. */
int breakpoints_put_out_of_line(struct breakpoints *s, uint64_t at, const uint8_t *code,
				size_t len);

/* The trap page of the address space, `addr` 0 if there is none; use the one at `addr`, as
 * trap_page_open; forget it. */
const struct trap_page *breakpoints_page(const struct breakpoints *s);
int breakpoints_use_page(struct breakpoints *s, uint64_t addr, bool left_behind);
void breakpoints_leave_page(struct breakpoints *s);

/* Whether another process of ours has the same address space. */
bool breakpoints_are_shared(const struct breakpoints *s);

/* The tracing process: the threads and processes that it traces, and the steps of its work. */

enum { TRACEE_SLOTS = 1024 };
#define TRACER_NAME "ditrace-tracer"

struct tracee_process {
	struct tracee_process *next;
	pid_t pid;
	struct breakpoints *space;
	unsigned threads;
	bool told;   /* reported that it has the needed libraries, or need not be */
	bool probed; /* ditrace has placed sites in it */
};

struct tracee {
	struct tracee *next;	   /* in its slot */
	struct tracee_process *of; /* NULL: its process is not known yet */
	pid_t tid;
	bool waiting;		  /* stopped until its parent's stop tells its process */
	bool held;		  /* stopped until REQUEST_RELEASE */
	bool held_at_op;	  /* held for its record */
	bool held_by_signal;	  /* held for a record of eBPF, which sent it the signal */
	bool late_trap;		  /* the SIGTRAP of a finished single-step is still to come */
	bool asked;		  /* interrupted, and has not stopped yet */
	bool checked;		  /* its process had the trap page when it was last looked at */
	struct shadow_stack *ops; /* NULL: it has hit no probe */
	struct share_sums *sums;  /* NULL: none of its calls was summed up */
	/* A breakpoint whose hit was recorded, but whose instruction is still to be executed. */
	uint64_t skip_addr, skip_sp;
};

struct tracer {
	struct share *share;
	int sock;
	bool ending, leaving;
	bool away; /* ditrace is about to stand still: nothing is held for it */
	bool (*interesting)(pid_t pid); /* interesting_fn */
	uint32_t nplans;
	struct op_plan *plans;
	struct proc_conf procs[PROC_SLOTS];
	struct remote *mem;
	struct hit_buf out;
	struct tracee *hit; /* whose records `out` takes */
	struct tracee_process *processes;
	struct tracee *slot[TRACEE_SLOTS];
};

/* Take a stop that tracee_wait has left. */
void tracee_take_stop(const struct tracee *x);

/* The registers of a stopped thread. False when it has been killed. */
bool tracee_get_regs(const struct tracee *x, union regs *r);
void tracee_set_regs(const struct tracee *x, const union regs *r);

/* tracees.c: the tables. NULL: not traced. */
struct tracee *tracee_find(const struct tracer *t, pid_t tid);
struct tracee_process *tracee_process_find(const struct tracer *t, pid_t pid);

/* Enter a process whose breakpoints are `space`, which it takes over. NULL without memory. */
struct tracee_process *tracee_process_new(struct tracer *t, pid_t pid, struct breakpoints *space);

/* Set the linker's breakpoint, which reports new libraries. A static program maps none. */
void tracee_watch_linker(struct tracee_process *p);

/* Enter thread `tid`, which is traced, with the process that /proc names, if that is known. NULL
 * without memory. */
struct tracee *tracee_add(struct tracer *t, pid_t tid);

/* Forget its open ops. */

/* Forget the thread; with the last one also its process, whose exit is reported. NULL allowed. */
void tracee_drop(struct tracer *t, struct tracee *x);

/* The first stop of a new thread or process of `parent` (NULL: look in /proc). False when it has to
 * wait until its parent's stop tells whose it is. */
bool tracee_adopt(struct tracer *t, struct tracee *x, struct tracee_process *parent);

/* The process has called execve: all its other threads are gone. */
void tracee_exec(struct tracer *t, struct tracee *x);

/* Report a process event to ditrace; true when thread `tid` is to be held for it. */
bool tracee_tell(struct tracer *t, enum follow_kind kind, pid_t pid, pid_t tid, pid_t parent,
		 bool held);

/* Resume with signal `sig` (0: none). */
void tracee_resume(const struct tracee *x, int sig);

/* tracee_hit.c: execute the instruction at which a thread was held at an op, and resume it; *other
 * as below. False: it is at no breakpoint any more. */
bool tracee_go_on(struct tracee *x, int *other);

/* Handle a SIGTRAP stop. False, with nothing done, when it is of none of our
 * breakpoints; else the thread was resumed or held, or *other is the wait status of another stop
 * that came in between and is still to be handled. */
enum { TRACEE_NO_STATUS = -1 };
/* The wait status of a stop by PTRACE_INTERRUPT. */
enum { TRACEE_QUIET = PTRACE_EVENT_STOP << 16 | SIGTRAP << 8 | 0x7f };
bool tracee_hit(struct tracer *t, struct tracee *x, int *other);

/* tracee_stop.c: handle the wait status `status` of `tid`. */
void tracee_waited(struct tracer *t, pid_t tid, int status);

/* The ARCH_REGS registers of a thread held at an op, as they would be without the breakpoint. 0, or
 * -ESRCH when it is not held or gone. */
int tracee_registers(const struct tracee *x, uint64_t *out);

/* Set a thread stopped by SIGTRAP back to before the breakpoint of ours that it hit; false when the
 * signal is not ours. */
bool tracee_rewind(struct tracee *x);

/* Whether the SIGTRAP in `info`, delivered or pending, is the late one of a single-step of ours. */
bool tracee_is_late_trap(const struct tracee *x, const siginfo_t *info);

/* How long to wait for stops: so many turns of this pause, two seconds in all. */
enum { TRACEE_TURNS = 10000 };
static const struct timespec tracee_turn = {.tv_nsec = 200 * 1000};

/* tracee_seize.c: trace all threads of `pid`. 0 and *out, or -errno with *e. */
int tracee_seize(struct tracer *t, pid_t pid, struct tracee_process **out, struct err *e);

/* ptrace_share.c: start a process that repairs the code (share_repair) when `sock` is closed at its
 * other end, which only the tracing process must have, so when that ends in whatever way. It closes
 * the `n` descriptors `others`, which others wait for to be closed. Its PID, or -1 with errno. */
pid_t keeper_start(struct share *share, int sock, const int *others, unsigned n);

/* tracee_seize.c: restore all code and detach from everything. */
void tracees_leave(struct tracer *t);

/* tracer_sites.c: probe sites of a file as addresses in a process. */

/* Carry out a REQUEST_ATTACH: trace the process if it is not traced yet, and set breakpoints at the
 * sites in `payload`. 0 or -errno with *e; breakpoints set until then stay. */
int tracer_sites_attach(struct tracer *t, const struct request *q, const void *payload,
			struct err *e);

/* ptrace_share.c: where the records of hits go. Sets up t->out, for t->share. */
void tracer_records_begin(struct tracer *t);

/* tracer_main.c: the tracing process. It has a session of its own and outlives ditrace just long
 * enough to restore the traced processes. */

/* Serve requests from `sock` until it is closed or SIGTERM comes, then leave. `parent` is the
 * process that forked this one; `nplans` is the most plans that will be set. Call it in a fresh
 * single-threaded child, and end the process after it. */
void tracer_main(struct share *share, int sock, pid_t parent, uint32_t nplans,
		 interesting_fn *interesting);

#endif
