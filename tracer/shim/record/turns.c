/* Turns in which a thread records ops, and in which it leaves them out (turn_rests), with what
 * it spends in each. It changes over where no op is open, so that none is recorded by half, nor one
 * within another that is not recorded. */
#include "tracer/shim/record/internal.h"

#include <time.h>

#include "base/system.h"

/* Whether no op is open, so far as that is known at the entry of one at `sp`. A thread that rests
 * sees no exceptions: what is entered from as far out as the outermost op shows that this has
 * ended. */
static bool is_between_ops(struct recorder_thread *t, uint64_t sp)
{
	return t->turn.rests ? sp >= t->turn.sp : !t->ops.depth;
}

/* After so many ops it records, when all is measured, wherever it is: as it does where ditrace
 * attaches. */
static bool has_waited(struct recorder_thread *t, uint32_t next)
{
	enum { LONG = 1 << 16 };
	return !next && t->turn.waited++ > LONG;
}

enum { IDLE_CALLS = 256 };

/* What a jump takes at an op that is left out, ns in 1 / IDLE_CALLS: hot in the caches. */
static uint64_t idle_calls(uint64_t since)
{
	for (unsigned i = 0; i < IDLE_CALLS; i++)
		jump_idle();
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) - since;
}

static void begin_turn(struct recorder_thread *t, uint32_t next)
{
	struct shim_turn *was = &thread_slot(t)->turn[t->turn.number];
	uint64_t now = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (t->turn.number) {
		thread_count(&was->cpu_ns, now - t->turn.cpu_ns);
		thread_count(&was->ops, t->turn.ops);
	}
	if (t->turn.rests) {
		thread_count(&was->idle_ns, idle_calls(now) * t->turn.jumps / IDLE_CALLS);
		now = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	}
	t->turn = (struct turn_state){.number = next, .rests = turn_rests(next), .cpu_ns = now};
}

void turns_pass(struct recorder_thread *t, uint64_t sp)
{
	t->turn.jumps++;
	if (sp < t->turn.sp)
		return;
	t->turn.sp = sp;
	t->turn.op = UINT32_MAX;
	t->turn.again = 0;
}

bool turns_enter(struct recorder_thread *t, uint64_t sp, uint32_t op)
{
	const uint32_t next = atomic_load_explicit(&t->share->turn, memory_order_relaxed);
	if (next != t->turn.number && next <= TURNS_LAST &&
	    (is_between_ops(t, sp) || turn_rests(next) == t->turn.rests || has_waited(t, next)))
		begin_turn(t, next);
	t->turn.ops++;
	thread_count(&thread_slot(t)->turn[t->turn.number].entered, 1);
	if (!t->turn.rests)
		return true;
	const bool is_outermost = sp >= t->turn.sp;
	turns_pass(t, sp);
	if (is_outermost)
		t->turn.op = op;
	else
		t->turn.again += op == t->turn.op;
	return false;
}

void turns_leave(struct recorder_thread *t, uint32_t op)
{
	t->turn.jumps++;
	if (!t->turn.sp || op != t->turn.op)
		return;
	if (t->turn.again)
		t->turn.again--;
	else
		t->turn.sp = 0;
}
