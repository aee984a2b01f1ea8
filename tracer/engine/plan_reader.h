/* Carrying out the reads of a probe plan (symbolizer/plan/plan.h) in user space on a thread that
 * stands still: the same items, byte for byte, as tracer/engine/bpf/probes.bpf.c makes of the same
 * memory, but that the class alone is sent of an object whose class is known, and of a list of
 * IValues more than the first 128. */
#ifndef TRACER_ENGINE_PLAN_READER_H
#define TRACER_ENGINE_PLAN_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "symbolizer/plan/plan.h"
#include "tracer/engine/remote.h"

/* A hit (symbolizer/plan/plan.h) as it is put together in user space, and sent in parts when it is
 * long. */

enum {
	HIT_BUF_MAX = 20 << 10,	  /* a part is sent before it grows beyond this */
	HIT_BUF_SLACK = 20 << 10, /* the most bytes of one item */
};

struct hit_buf {
	/* Takes a record; 0, or -1 when it was lost. */
	int (*sink)(void *arg, const struct hit *h);
	/* May be NULL: where the next record is to be put together, HIT_BUF_MAX + HIT_BUF_SLACK
	 * bytes aligned to 8; it goes to `sink` from there. NULL: there is no such place now. */
	void *(*place)(void *arg);
	void *arg;
	bool dry;	 /* the reads are only tried: nothing is sent */
	bool *gap;	 /* of the thread: its last record was lost */
	bool stop;	 /* the thread is to stand still once the record is sent */
	bool held;	 /* such a record was sent */
	struct hit *hit; /* the record */
	__u8 *at;	 /* where what comes next goes */
	__u8 *full;	 /* behind this no item begins */
	_Alignas(8) __u8 own[HIT_BUF_MAX + HIT_BUF_SLACK];
};

/* Begin a hit, whose head is to be set next, all of it. `gap` is the thread's, read and set when
 * records are sent. */
struct hit *hit_buf_begin(struct hit_buf *b, bool *gap);

/* Send what there is, more is to come. */
void hit_buf_go_on(struct hit_buf *b);

/* The next item, without payload so far. Valid until the next item begins. */
static inline struct item *hit_buf_item(struct hit_buf *b, __u8 kind, __u8 read, __u32 aux)
{
	if (b->at > b->full)
		hit_buf_go_on(b);
	struct item *it = (struct item *)b->at;
	*it = (struct item){.kind = kind, .read = read, .aux = aux};
	b->at += sizeof(*it);
	return it;
}

/* Where the next `len` bytes of payload go, and that they went there; padding to 8 bytes is seen
 * to. */
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

/* Append payload, padded to 8 bytes. An item takes at most HIT_BUF_SLACK bytes in all. Its `len` is
 * the caller's to set. Returns where the bytes went. */
void *hit_buf_put(struct hit_buf *b, const void *bytes, __u32 len);

static inline void hit_buf_word(struct hit_buf *b, __u64 w)
{
	memcpy(b->at, &w, sizeof(w));
	b->at += sizeof(w);
}

void hit_buf_send(struct hit_buf *b);

/* The Python stack of a thread that stands still, walked as symbolizer/python/python.h
 * describes: what tracer/engine/bpf/pywalk.bpf.h does in the kernel. */

enum { PY_RECENT = 64 };

/* What is remembered of a thread between its stops. Zero-initialise; fsbase is the caller's. */
struct py_thread {
	uint64_t fsbase; /* of the thread: pthread_self() */
	uint64_t tstate; /* its PyThreadState, 0: not known */
	bool is_certain; /* CPython itself has told of `tstate`, just now */
	uint32_t misses, wait;
	uint32_t nrecent;
	uint64_t recent[PY_RECENT]; /* frames of the last walk */
};

/* A frame and the instruction it stands at. frame 0: none. */
struct py_place {
	uint64_t frame, instr;
};

/* Note what a walk is likely to read, in `mem`. */
void pyframes_foresee(const struct py_thread *t, const struct py_walk *w, struct remote *mem);

/* The innermost Python frame. `t` learns from it only when `mem` does not collect. */
struct py_place pyframes_innermost(struct py_thread *t, const struct py_walk *w, struct remote *mem,
				   bool collecting);

/* Append an ITEM_STACK of all frames from `frame` outwards. */
void pyframes_put(struct py_thread *t, const struct py_walk *w, struct remote *mem,
		  struct hit_buf *out, uint64_t frame);

/* Whether pyframes_put has named the code object at this address, of any process: true at times
 * where it has not. */
bool pyframes_may_have_named(uint64_t code);

/* Whether the op whose caller was frame `was` cannot be running any more, as the innermost frame is
 * `now`: while an op runs, the Python code that called it stands still. An exception that took the
 * op away leaves no other trace when the stack is deeper now than it was. */
bool pyframes_moved_on(const struct py_walk *w, struct remote *mem, struct py_place now,
		       struct py_place was);

/* One stop of a thread at the entry or the exit of an op. Nothing is owned. */
struct reading {
	struct remote *mem;
	struct hit_buf *out;
	const struct proc_conf *conf;
	const struct op_plan *plan;
	const uint64_t *w;    /* LOC_MAX words kept at the entry */
	const uint64_t *regs; /* ARCH_REGS registers as they are now (enum arch_reg) */
	uint64_t sp;	      /* stack pointer at the entry */
	bool is_exit;
	bool unsure; /* what is being read may not be what it looks like */
};

/* Append the items of the plan's entry or exit reads to r->out. While r->mem collects, what is not
 * known yet is noted there, and the items are worth nothing. */
void plan_reader_run(const struct reading *r);

/* The std::string at `at`, of the ABI that r->conf says: address and length of its text, in s. 0 or
 * -errno. */
int plan_reader_std_string(const struct reading *r, uint64_t at, uint64_t s[2]);

/* The ops that are open on a thread, followed from probe hit to probe hit, and the records of them:
 * what the programs of tracer/engine/bpf/probes.bpf.c do, for engines in user space. */

struct open_op {
	uint64_t sp, seq;
	struct py_place py;
	uint32_t op;
	bool muted, backward, py_sent, counted;
	bool aside; /* PLAN_ASIDE */
	uint64_t w[LOC_MAX];
};

/* One thread. Zero-initialise, then set tid. */
struct shadow_stack {
	uint32_t tid; /* as the records have it */
	uint32_t depth, shown;
	uint64_t seq;
	bool gap;
	struct py_thread py;
	struct open_op open[OPEN_MAX];
};

/* A hit: the thread stands still at a probe. Nothing is owned. */
struct op_hit {
	struct remote *mem; /* of the thread, begun for this stop */
	struct hit_buf *out;
	const struct proc_conf *conf;
	const struct op_plan *plan; /* of `op`; NULL for shadow_stack_code_freed */
	const uint64_t *regs;	    /* ARCH_REGS registers, enum arch_reg */
	uint64_t fsbase;
	uint64_t ts; /* CLOCK_MONOTONIC, ns */
	uint32_t op;
	uint16_t proc;
};

/* At the entry of an op. False when it was nested too deep to be followed. */
bool shadow_stack_entry(struct shadow_stack *t, const struct op_hit *h);

/* At its exit. An op that was running when the probes came is not known, and passed over. */
void shadow_stack_exit(struct shadow_stack *t, const struct op_hit *h);

/* A Python code object, the first integer argument, is being freed. */
void shadow_stack_code_freed(struct shadow_stack *t, const struct op_hit *h);

/* At torch::jit::parseSchema(const std::string &, ...), whose result goes through a hidden pointer.
 */
void shadow_stack_schema(struct shadow_stack *t, const struct op_hit *h);

/* At at::getStepCallbacksUnlessEmpty: whether it is called for a dispatched op, and whether that is
 * one that is open here. */
bool shadow_stack_dispatched(struct shadow_stack *t, const uint64_t *regs, bool *seen);

#endif
