/* Carries out the reads of a probe plan (symbolizer/plan/plan.h) in user space, on a stopped
 * thread: the same items, byte for byte, as tracer/engine/bpf/probes.bpf.c makes of the same
 * memory, except that an object of known class is sent as its first word only, and a list of
 * IValues is not cut at 128. */
#ifndef TRACER_ENGINE_PLAN_READER_H
#define TRACER_ENGINE_PLAN_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "symbolizer/plan/plan.h"
#include "symbolizer/plan/unwind.h"
#include "tracer/engine/remote.h"
#include "tracer/engine/sums.h"

/* Hit buffers: a hit (symbolizer/plan/plan.h) being assembled in user space, sent as several
 * records when it is long. */

enum {
	HIT_BUF_MAX = 20 << 10,	  /* a record longer than this is sent before the next item */
	HIT_BUF_SLACK = 20 << 10, /* the most bytes of one item */
};

struct hit_buf {
	/* Takes a record; 0, or -1 when it was dropped. */
	int (*sink)(void *arg, const struct hit *h);
	/* May be NULL. Where to assemble the next record: HIT_BUF_MAX + HIT_BUF_SLACK bytes aligned
	 * to 8, passed to `sink` in place. Returns NULL when there is no room now. */
	void *(*place)(void *arg);
	void *arg;
	/* With `sums`, where there is no place for the record of a hit, or it is `tight`, only what
	 * tells op and stack is read (`lean`). Without a place `sink` may sum the call up: `row` is
	 * then its row. */
	bool sums;
	bool inner; /* the next hit is within a call that is summed up: no place is asked for */
	bool ends;  /* the next hit tells that recorded calls have ended: it is summed up only where
		       there is no room at all */
	bool tight; /* set by `place` */
	bool placed; /* the record has a place */
	bool lean;
	struct sum_row *row;
	bool dry;	 /* only try the reads, send nothing */
	bool *gap;	 /* the thread's: its last record was lost */
	bool stop;	 /* the thread is to stay stopped once the record is sent */
	bool held;	 /* such a record was sent */
	struct hit *hit; /* the record */
	__u8 *at;	 /* where to write next */
	__u8 *full;	 /* no item begins beyond this */
	_Alignas(8) __u8 own[HIT_BUF_MAX + HIT_BUF_SLACK];
};

/* Begin a hit; the caller sets all of its head next. `gap` is the thread's, read and set when
 * records are sent. */
struct hit *hit_buf_begin(struct hit_buf *b, bool *gap);

/* Send what there is with HIT_MORE, and begin the next fragment. */
void hit_buf_go_on(struct hit_buf *b);

/* Begin the next item, still without payload. Valid until the next item begins. */
static inline struct item *hit_buf_item(struct hit_buf *b, __u8 kind, __u8 read, __u32 aux)
{
	if (b->at > b->full)
		hit_buf_go_on(b);
	struct item *it = (struct item *)b->at;
	*it = (struct item){.kind = kind, .read = read, .aux = aux};
	b->at += sizeof(*it);
	return it;
}

/* hit_buf_room: where the next `len` bytes of payload go, with the padding to 8 bytes zeroed.
 * hit_buf_grow: they have been written there. */
static inline void *hit_buf_room(struct hit_buf *b, __u32 len)
{
	if (len & 7)
		memset(&b->at[len & ~7U], 0, 8);
	return b->at;
}

static inline void hit_buf_grow(struct hit_buf *b, __u32 len)
{
	b->at += (len + 7) & ~7U;
}

/* Append payload, padded to 8 bytes; returns where it went. The item's `len` is the caller's to
 * set. An item takes at most HIT_BUF_SLACK bytes in all. */
void *hit_buf_put(struct hit_buf *b, const void *bytes, __u32 len);

/* Append one word of payload. */
static inline void hit_buf_word(struct hit_buf *b, __u64 w)
{
	memcpy(b->at, &w, sizeof(w));
	b->at += sizeof(w);
}

/* Send the record, or its last fragment. */
void hit_buf_send(struct hit_buf *b);

/* The Python stack of a stopped thread, walked as symbolizer/python/python.h describes; the
 * counterpart in the kernel is tracer/engine/bpf/pywalk.bpf.h. */

enum { PY_RECENT = 64, PY_NAMED = 128 };

/* What is remembered of a thread between hits. Zero-initialise; fsbase is the caller's to set. */
struct py_thread {
	uint64_t fsbase; /* of the thread: pthread_self() */
	uint64_t tstate; /* its PyThreadState, 0: not known */
	bool is_certain; /* `tstate` comes from CPython itself, just now */
	uint32_t misses, wait;
	uint32_t nrecent, nmet;
	uint64_t recent[PY_RECENT]; /* frames of the last walk; not within the process itself */
	/* Some of the code objects that are known to be named, by hash: while pyframes_unsent was
	 * called for none since `named_at`. */
	uint32_t named_at;
	uint64_t named[PY_NAMED];
	uint64_t met[PY_FRAMES]; /* code objects that pyframes_put was the first to send; taken, and
				    nmet set to 0, by the caller */
};

/* A frame and its current instruction. frame 0: none. */
struct py_place {
	uint64_t frame, instr;
};

/* Note in `mem` what a walk is likely to read. */
void pyframes_foresee(const struct py_thread *t, const struct py_walk *w, struct remote *mem);

/* The innermost Python frame. `t` is updated only when not `collecting`. */
struct py_place pyframes_innermost(struct py_thread *t, const struct py_walk *w, struct remote *mem,
				   bool collecting);

/* Append an ITEM_STACK of `frame` and all frames outside it. Those inside the frame `base` (0: all)
 * are counted in it as the backward's own if `is_backward`. */
void pyframes_put(struct py_thread *t, const struct py_walk *w, struct remote *mem,
		  struct hit_buf *out, uint64_t frame, bool is_backward, uint64_t base);

/* Forget which code objects pyframes_put has sent: another reader begins. */
void pyframes_begin(void);

/* The code object at this address was not sent after all, or is being freed: another may be there.
 */
void pyframes_unsent(uint64_t code);

/* Whether pyframes_put has sent the code object at this address, in any process. May give a false
 * positive, never a false negative. */
bool pyframes_may_have_named(uint64_t code);

/* Whether the op whose caller was frame `was` must have ended, given that the innermost frame is
 * `now`: while an op runs, the Python code that called it does not advance. Needed for ops left by
 * an exception when the stack is deeper now than it was then. */
bool pyframes_moved_on(const struct py_walk *w, struct remote *mem, struct py_place now,
		       struct py_place was);

/* One stop of a thread at the entry or exit of an op. Nothing is owned. */
struct reading {
	struct remote *mem;
	struct hit_buf *out;
	const struct proc_conf *conf;
	const struct op_plan *plan;
	const uint64_t *w;    /* LOC_MAX words saved at the entry */
	const uint64_t *regs; /* ARCH_REGS registers as they are now (enum arch_reg) */
	const uint64_t *fp;   /* LOC_FP, every other word; NULL: not known */
	uint64_t sp;	      /* stack pointer at the entry */
	bool is_exit;
	bool unsure; /* the object being read may not be of the class it looks like */
};

/* Append the items of the plan's entry or exit reads to r->out. While r->mem collects, unknown
 * memory is only noted there, and the items are meaningless. */
void plan_reader_run(const struct reading *r);

/* The std::string at `at`, of the ABI given by r->conf: address and length of its text in s. 0 or
 * -errno. */
int plan_reader_std_string(const struct reading *r, uint64_t at, uint64_t s[2]);

/* The shadow stack: the ops open on a thread, followed from hit to hit, and the records of them.
 * For engines in user space; the counterpart in the kernel is tracer/engine/bpf/probes.bpf.c. */

struct open_op {
	uint64_t sp, seq;
	struct py_place py;
	uint64_t base; /* in the backward: the Python frame that called the engine; 0: none */
	uint32_t op;
	bool muted, backward, py_sent, counted;
	bool aside;	     /* PLAN_ASIDE */
	struct sum_row *row; /* the call is summed up, with all that it calls; NULL: it is not */
	uint64_t ts;	     /* of the entry */
	uint64_t inner_ns;   /* spent in calls made by it that are summed up */
	uint64_t w[LOC_MAX];
};

/* One thread. Zero-initialise, then set tid. */
struct shadow_stack {
	uint32_t tid; /* as the records have it */
	uint32_t depth, shown;
	uint64_t seq;
	bool gap;
	bool thrown; /* a recorded call was left by an exception: the next record tells that */
	struct sums *sums; /* NULL: none is summed up */
	struct sums_writer *sums_writer;
	struct sums_code *code; /* NULL: none will be */
	struct py_thread py;
	struct open_op open[OPEN_MAX];
};

/* What walking the native stack of a thread needs. */
struct native_walk {
	const struct unwind_table *table;
	uint64_t low, high;	  /* the stack is within; high 0: not known yet */
	struct unwind_frame from; /* where to begin; pc 0: at the entry of a function */
	/* Set low and high to the stack that `sp` is in. False: it is not known. */
	bool (*find)(struct native_walk *w, uint64_t sp);
	unsigned found; /* how often it has */
};

/* A hit: the thread is stopped at a probe. Nothing is owned. */
struct op_hit {
	struct remote *mem; /* of the thread, begun for this stop */
	struct hit_buf *out;
	const struct proc_conf *conf;
	const struct op_plan *plan; /* of `op`; NULL for shadow_stack_code_freed */
	const uint64_t *regs;	    /* ARCH_REGS registers, enum arch_reg */
	const uint64_t *fp; /* the low bytes of the SSE argument registers are every other word of
			       these; NULL: not known */
	struct native_walk *native; /* NULL: no native stack is sent */
	uint64_t fsbase;
	uint64_t ts; /* CLOCK_MONOTONIC, ns */
	uint32_t op;
	uint16_t proc;
};

/* Append an ITEM_NATIVE, and the ITEM_SLICE that belongs to it; `to_python`: NATIVE_TO_PYTHON. */
void native_walk_put(const struct op_hit *h, bool to_python);

/* The entry of an op. False when it is nested too deep to be followed. */
bool shadow_stack_entry(struct shadow_stack *t, const struct op_hit *h);

/* The exit of an op. One that was already running when the probes were placed is ignored. */
void shadow_stack_exit(struct shadow_stack *t, const struct op_hit *h);

/* A Python code object, the first integer argument, is being freed. Whether some record may have
 * named it. */
bool shadow_stack_code_freed(struct shadow_stack *t, const struct op_hit *h);

/* torch::jit::parseSchema(const std::string &, ...), which returns through a hidden pointer. */
void shadow_stack_schema(struct shadow_stack *t, const struct op_hit *h);

/* at::getStepCallbacksUnlessEmpty: whether it was called for a dispatched op; *seen: whether for
 * one that is open here. */
bool shadow_stack_dispatched(struct shadow_stack *t, const uint64_t *regs, bool *seen);

#endif
