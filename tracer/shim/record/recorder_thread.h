/* What the recorder (recorder.c) has of each thread, and the ring that the thread's records go to.
 */
#ifndef TRACER_SHIM_RECORD_RECORDER_THREAD_H
#define TRACER_SHIM_RECORD_RECORDER_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/code/arch_x86_64.h"
#include "tracer/engine/chunks.h"
#include "tracer/engine/shadow_stack.h"
#include "tracer/engine/shim/shim_share.h"
#include "tracer/shim/record/ticks.h"

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
