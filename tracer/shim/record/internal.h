/* What the files of the recorder share. */
#ifndef TRACER_SHIM_RECORD_INTERNAL_H
#define TRACER_SHIM_RECORD_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/code/arch_x86_64.h"
#include "tracer/engine/plan_reader.h"
#include "tracer/engine/ring.h"
#include "tracer/engine/shim/shim_share.h"
#include "tracer/shim/shim.h"

/* record_layout.c: offsets within an at::RecordFunction (ATen/record_function.h). fn_ (a variant of
 * std::string and a reference to the FunctionSchema, whose index is its last word), sequence_nr_
 * and inputs_ have followed one another since 1.12 (read: 1.13 and 2.0 to 2.14), with other members
 * before and after them. Learned from the first one that shows them, checked on later ones. */

/* Offsets in words; 0: not known yet. */
struct record_layout {
	uint8_t fn;	/* address of the schema, or of the name's text */
	uint8_t inputs; /* c10::ArrayRef<const c10::IValue>: address, length */
	uint8_t seq;
	uint8_t outputs; /* std::vector<c10::IValue>: begin, end, end of storage */
	uint64_t
	    empty; /* while searching for outputs: bit n: words n to n + 2 were 0 at every start */
};

/* Learn from, or check with, the record of an operator that starts: its name as returned by
 * RecordFunction::name, and RecordFunction::num_inputs, the number of its arguments. False: the
 * layout does not fit. */
bool record_layout_start(struct record_layout *l, const uint64_t *rf, const char *name,
			 uint64_t ninputs);

/* The same when it ends without an exception. */
bool record_layout_end(struct record_layout *l, const uint64_t *rf);

/* Whether rf's name is a string of its own, so that it is no operator of the dispatcher. Also while
 * the layout is not known, which such a record does not show. */
bool record_is_named(const struct record_layout *l, const uint64_t *rf, const char *name);

/* ticks.c: CLOCK_MONOTONIC from the TSC, which takes half as long to read. */

/* Of one thread. Zero-initialise. */
struct ticks {
	uint64_t at, ns; /* the TSC when the clock was last read, and what the clock said */
	uint64_t good;	 /* ticks after `at` for which the TSC may be used; 0: it may not */
	uint64_t rate;	 /* ns per tick, in 1 / 2^32; 0: not known */
	uint64_t last;	 /* the last time returned */
};

/* Find out whether the kernel itself uses the TSC as clocksource. */
void ticks_prepare(void);

/* Read the clock, and from time to time update the TSC's rate. Keeps all registers. */
uint64_t ticks_read_clock(struct ticks *t);

/* CLOCK_MONOTONIC in ns; never less than before. */
static inline uint64_t ticks_now(struct ticks *t)
{
	uint64_t past = arch_ticks() - t->at;
	if (past >= t->good)
		return ticks_read_clock(t);
	uint64_t ns = t->ns + (past * t->rate >> 32);
	if (ns > t->last)
		t->last = ns;
	return t->last;
}

/* recorder_thread.c: what the recorder has for each thread, and the ring that its records go to. */

struct eh_globals;

/* An op that is open on a thread: what its reads refer to. */
struct call {
	const uint64_t *rf;
	uint64_t data[2];   /* SHIM_LOC_DATA */
	uint64_t values[2]; /* begin and end of a list of IValues */
	const char *name;
	uint32_t base; /* plan_base of it, or of the op that a jump announced */
	unsigned exceptions;
};

/* turns.c: turns in which a thread records, and rests (turn_rests). */
struct turn_state {
	uint32_t number;
	bool rests;
	/* While it rests: the stack pointer at the entry of the outermost op; 0: none is open.
	 * Which op that is, and how many more of it are open within. */
	uint64_t sp;
	uint32_t op, again;
	uint32_t waited;      /* ops entered since it could have recorded again */
	uint64_t cpu_ns, ops; /* CPU time when it began; ops entered since */
	uint64_t jumps;	      /* that led here since, while it rests */
};

/* What each hit uses comes first and lies together: the program's work has filled the caches. */
struct recorder_thread {
	struct shim_share *share;
	unsigned epoch;
	unsigned index; /* of its ring */
	uint32_t conf_seq;
	unsigned known; /* what the observer is about to be told of although jumps record it: 1 <<
			   an enum shim_op, or 0 */
	bool busy;
	bool is_brief; /* records are, as the ring fills */
	bool awaited;  /* a new operator has ended: stop at the next exit record for its schema */
	struct hit *place; /* for the record that is being made, there or in out.own */
	struct ticks ticks;
	/* With jumps: the stack pointer at the entry of an op that is not recorded and has not been
	 * dispatched yet, else 0. */
	uint64_t announced;
	uint64_t node_class; /* vtable of the node that the autograd engine evaluates */
	struct turn_state turn;
	struct native_walk native; /* how its native stack is walked */
	struct proc_conf conf;
	uint64_t
	    unread;	/* `tail` of its ring when ditrace was found to be stopped; 0: it was not */
	uint64_t loads; /* how many libraries were ever loaded, when a counter last stopped here */
	const uint64_t *learned;	     /* the record whose layout was checked at its start, */
	unsigned learned_exceptions;	     /* and struct call's `exceptions` then */
	const struct eh_globals *exceptions; /* NULL: not known yet */
	struct chunks_writer ring;
	struct shadow_stack ops;
	struct call call[OPEN_MAX];
	struct call entering;
	uint64_t regs[ARCH_REGS]; /* pseudo-registers that an op's plan reads */
	struct chunks_writer memory;
	struct sums_writer sums;
	uint64_t tensors[LIST_MAX]; /* as many as are read */
	struct hit_buf out;
	struct brief brief; /* of what went to `ring` */
};

/* Add to a counter that only this thread writes, without a locked instruction; its old value. */
static inline uint64_t thread_count(_Atomic uint64_t *counter, uint64_t n)
{
	uint64_t was = atomic_load_explicit(counter, memory_order_relaxed);
	atomic_store_explicit(counter, was + n, memory_order_relaxed);
	return was;
}

static inline struct shim_thread *thread_slot(const struct recorder_thread *t)
{
	return &t->share->thread[t->index];
}

/* What the calling thread records with now, marked as busy until it clears that; NULL: nothing is
 * to be recorded. Between inside_begin and inside_end. */
struct recorder_thread *recorder_take(void);

/* recorder_thread.c: struct native_walk.find, by the kernel. */
bool native_bounds_find(struct native_walk *w, uint64_t sp);

/* For the entry of an op on the calling thread: what its native stack is walked with; NULL: none is
 * to be. `from`: where to begin (struct native_walk). */
static inline struct native_walk *thread_native(struct recorder_thread *t, struct unwind_frame from)
{
	t->native.table = &t->share->unwind;
	t->native.from = from;
	t->native.find = native_bounds_find;
	return t->conf.native ? &t->native : NULL;
}

/* The caller's own frame, as if it were the caller of something. */
static inline __attribute__((always_inline)) struct unwind_frame unwind_here(void)
{
	struct unwind_frame f;
	__asm__ volatile("lea 1(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
			 : "=&r"(f.pc), "=&r"(f.sp), "=&r"(f.bp));
	return f;
}

/* The number in enum arch_reg of the register that brings integer argument `n` of the op. */
static inline unsigned argument_reg(const struct op_plan *p, unsigned n)
{
	return p->flags & PLAN_MOVED && p->arg_reg[n] < ARCH_REGS ? p->arg_reg[n] : arch_int_arg[n];
}

/* Of the shared memory's plan. The registers must have ARCH_SP. */
static inline struct op_hit thread_hit(struct recorder_thread *t, uint32_t op, const uint64_t *regs,
				       uint64_t now)
{
	return (struct op_hit){
	    .mem = remote_new(),
	    .out = &t->out,
	    .conf = &t->conf,
	    .plan = &t->share->plan[op],
	    .regs = regs,
	    .fsbase = (uint64_t)(uintptr_t)__builtin_thread_pointer(),
	    .ts = now,
	    .op = op,
	    .proc = t->share->proc,
	};
}

/* As thread_records, where turns are taken. */
bool turns_enter(struct recorder_thread *t, uint64_t sp, uint32_t op);

/* A thread that rests enters something unknown, or leaves that op. */
void turns_pass(struct recorder_thread *t, uint64_t sp);
void turns_leave(struct recorder_thread *t, uint32_t op);

/* Whether the op that is entered there is to be recorded. */
static inline bool thread_records(struct recorder_thread *t, uint64_t sp, uint32_t op)
{
	if (!t->turn.number && !atomic_load_explicit(&t->share->turn, memory_order_relaxed))
		return true;
	return turns_enter(t, sp, op);
}

/* Whether the observer still has to be told of all, to learn the layout of what it is told. */
bool recorder_learns(void);

/* Set the thread's Python state as CPython itself tells it. */
void recorder_ask_python(struct recorder_thread *t);

/* A record was made, which took since then: count it, and stand still where ditrace is to
 * look at what it refers to. */
void thread_sent(struct recorder_thread *t, uint64_t since, const struct op_plan *plan);

/* No thread stops for new operators any more, as ditrace was once too slow to read one. */
bool stand_is_unheard(void);
void stand_begin(void);

/* Whether the thread's ring has room for the longest hit. */
bool thread_has_room(struct recorder_thread *t);

/* --no-loss: wait until it has, as long as ditrace is there and is not stopped. */
void thread_wait_for_room(struct recorder_thread *t);

/* Before anything is recorded, and before the clock is read for it. */
static inline void thread_await_room(struct recorder_thread *t)
{
	if (t->share->waits && !thread_has_room(t))
		thread_wait_for_room(t);
}

/* The calling thread's, with a ring in `s`. NULL: none is free, which is counted as lost. */
struct recorder_thread *thread_here(struct shim_share *s);

/* Take over a new configuration. ditrace rewrites it while it learns, and may be killed in the
 * middle: then the old one stays in force, and nobody waits. False: there has been none yet. */
bool thread_update(struct recorder_thread *t);

/* What the jumps that ditrace writes into libtorch (tracer/engine/shim/jumps.h) lead to. */

/* jumps.c: called by the handlers. `regs`: ARCH_REGS registers by enum arch_reg, as they were at
 * the jump; without ORIG_AX, IP, CS and FLAGS. `fp`: the eight SSE argument registers, 16 bytes
 * each. */

/* The entry of op number `op` of the plan. */
void jump_entered(const uint64_t *regs, uint32_t op, const uint64_t *fp);

/* Its exit. Changes no register but the general ones. */
void jump_left(const uint64_t *regs, uint32_t op);

/* The entry of an op that is not to be recorded, nor observed. */
void jump_announced(const uint64_t *regs);

/* The entry of a function of enum shim_step. May change its arguments in `regs`. */
void jump_stepped(uint64_t *regs, uint32_t which);

/* The entry of a function of enum shim_memory. */
void jump_memory_told(const uint64_t *regs, uint32_t which);

/* From now on: whether the program has observers of its own for all threads; how to find out
 * whether it has for this one (NULL: that is not known). */
void jumps_begin(bool others, bool (*local)(void));

/* Whether the library itself adds a callback now. */
void jumps_are_adding(bool own);

/* jump_places.c: where memory may be mapped from which jumps reach all of a library at `low` to
 * `high`, and the other way: the best places first, of at most `len` bytes each. One of all `len`
 * bytes is best, the nearest of several; then the larger ones. `maps`: a descriptor of
 * /proc/PID/maps, to be read to its end. Others may map something there meanwhile. */
struct jump_pool jump_places(int maps, uint64_t low, uint64_t high, uint64_t len);

/* debugger.c: have gdb know how to step from stubs in that pool, too, to the functions with the
 * jumps; and no longer, of all pools. */
void debugger_show(const struct jump_pool *pool);
void debugger_hide(void);

/* jump_handlers_x86_64.c: the addresses of the handlers, into *out. */
void jump_handlers(struct shim_jumps *out);

/* Do what a jump at an op that is left out does. Between inside_begin and inside_end. */
void jump_idle(void);

/* freed_code.c: report each code object that CPython frees, until pycode_unwatch. */
void pycode_watch(void (*freed)(uint64_t code));
void pycode_unwatch(void);

/* new_operators.c: operators that ditrace has not heard of. PyTorch's own last as long as the
 * process, and their names are in the library's file; one that the program defines may be gone,
 * with its schema, before ditrace is scheduled. */

/* Whether the operator "namespace::name" with the handle at this address is met for the first time
 * since new_operators_begin, and is not in "aten". Tracks some hundreds at most. Thread-safe. */
bool new_operators_meet(const char *name, uint64_t handle);

/* Forget all operators met. */
void new_operators_begin(void);

#endif
