/* What the engines bpf and ptrace have beside tracer/engine/engine.h, for the engine that is made
 * of both (tracer/engine/ptrace/engine_both.c): eBPF sees every call and picks some, whose threads
 * ptrace stops. */
#ifndef TRACER_ENGINE_ENGINE_PARTS_H
#define TRACER_ENGINE_ENGINE_PARTS_H

#include "tracer/engine/engine.h"

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
