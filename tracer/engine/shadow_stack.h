/* The ops that are open on a thread, followed from probe hit to probe hit, and the records of them:
 * what the programs of tracer/engine/bpf/probes.bpf.c do, for engines in user space. */
#ifndef TRACER_ENGINE_SHADOW_STACK_H
#define TRACER_ENGINE_SHADOW_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/plan/plan.h"
#include "tracer/engine/hit_buf.h"
#include "tracer/engine/pyframes.h"
#include "tracer/engine/remote.h"

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
