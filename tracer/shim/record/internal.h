/* What the files of this folder share. */
#ifndef TRACER_SHIM_RECORD_INTERNAL_H
#define TRACER_SHIM_RECORD_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/code/arch_x86_64.h"
#include "tracer/engine/plan_reader.h"
#include "tracer/engine/ring.h"
#include "tracer/engine/shim/shim_share.h"

/* Where an at::RecordFunction keeps what (ATen/record_function.h): fn_ (a variant of std::string
 * and a reference to the FunctionSchema), sequence_nr_ and inputs_ stand in this order since 1.12,
 * other members come between and behind. Found on the first one, checked on the next. */

/* All in words from the start; 0: not known yet. */
struct record_layout {
	uint8_t fn;	/* address of the schema, or of the name's text */
	uint8_t inputs; /* c10::ArrayRef<const c10::IValue>: address, length */
	uint8_t seq;
	uint8_t outputs; /* std::vector<c10::IValue>: begin, end, end of storage */
	uint64_t
	    empty; /* while looking for the outputs: bit n: words n to n + 2 were 0 at a start */
};

/* Learn from, or check with, the record of an operator that starts: its name as
 * RecordFunction::name gives it, and RecordFunction::num_inputs. False: it is not what it must be.
 */
bool record_layout_start(struct record_layout *l, const uint64_t *rf, const char *name,
			 uint64_t ninputs);

/* The same when it ends without an exception. */
bool record_layout_end(struct record_layout *l, const uint64_t *rf);

/* Whether rf's name is a text of its own: no operator of the dispatcher. */
static inline bool record_is_named(const struct record_layout *l, const uint64_t *rf,
				   const char *name)
{
	return rf[l->fn] == (uint64_t)(uintptr_t)name;
}

/* CLOCK_MONOTONIC by the processor's own counter, which takes half as long to read. */

/* Of one thread. Zero-initialise. */
struct ticks {
	uint64_t at, ns; /* the counter when the clock was read last, and what it showed */
	uint64_t good;	 /* for so many ticks from then on the counter will do; 0: it will not */
	uint64_t rate;	 /* ns a tick, in 1 / 2^32; 0: not known */
	uint64_t last;	 /* ns that were given out */
};

/* Find out whether the kernel itself keeps the time by the counter. */
void ticks_prepare(void);

/* Read the clock, and from time to time learn the counter's rate. */
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

/* What the recorder (recorder.c) has of each thread, and the ring that the thread's records go to.
 */

struct eh_globals;

/* An op that is open on a thread: what its record's reads are told. */
struct call {
	const uint64_t *rf;
	uint64_t data[2];   /* SHIM_LOC_DATA */
	uint64_t values[2]; /* begin and end of a list of IValues */
	const char *name;
	unsigned exceptions;
};

struct recorder_thread {
	struct shim_share *share;
	unsigned epoch;
	unsigned index; /* of its ring */
	struct chunks_writer ring;
	bool busy;
	bool awaited; /* a new operator has ended: the thread stands at the next record of an end */
	uint32_t conf_seq;
	struct proc_conf conf;
	struct shadow_stack ops;
	struct ticks ticks;
	struct hit_buf out;
	const struct eh_globals *exceptions; /* NULL: not known yet */
	uint64_t regs[ARCH_REGS];	     /* what an op's plan asks for */
	struct call call[OPEN_MAX];
	uint64_t tensors[LIST_MAX]; /* as many as are read */
};

/* A counter that this thread alone counts up: no need of a locked instruction. */
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

/* The calling thread's, with a ring in `s`. NULL: it has none, which is counted. */
struct recorder_thread *thread_here(struct shim_share *s);

/* ditrace writes the configuration now and then while it learns, and may be killed at that: then
 * what was there before holds, and nobody waits. False: there was none. */
bool thread_update(struct recorder_thread *t);

#endif
