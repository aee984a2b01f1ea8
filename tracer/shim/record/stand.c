/* How a thread waits for ditrace. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tracer/shim/record/internal.h"
#include "tracer/shim/shim.h"

/* ditrace was once too slow to read a new operator: threads no longer stop for them. */
static _Atomic bool unheard;
/* The last wait for ditrace was in vain: it stands still, and threads wait for a moment only. */
static _Atomic bool unanswered;

/* Whether the thread, in this state after that many milliseconds, is to go on by itself; the first
 * look at ditrace's state is soon enough after a wait of LOOK_MS. */
static bool is_enough(const struct shim_share *s, uint32_t state, int ms, int patience_ms)
{
	enum { LOOK_MS = 100 };
	if (state == SHIM_STANDS && (ms > patience_ms || !s->on || s->away))
		return true;
	return (ms % LOOK_MS == 0) && ms && shim_is_stopped();
}

struct wait {
	struct recorder_thread *thread;
	int patience_ms;
	bool looked; /* ditrace has */
};

/* Wait as enum shim_stand describes. */
static void stand_still(void *arg)
{
	struct wait *w = arg;
	struct recorder_thread *t = w->thread;
	const bool is_short = unanswered;
	const int turn_ms = is_short ? SHIM_SHORT_PATIENCE_MS : 20;
	const struct timespec turn = {.tv_nsec = turn_ms * 1000 * 1000};
	_Atomic uint32_t *stand = &thread_slot(t)->stand;
	int saved = errno;
	uint32_t now, state;
	shim_wake();
	bool looked = true;
	for (int ms = 0; looked && shim_share() == t->share; ms += turn_ms) {
		now = *stand;
		state = now & SHIM_STAND_MASK;
		if (state == SHIM_GOES)
			break;
		if (is_enough(t->share, state, ms, is_short ? turn_ms : w->patience_ms))
			looked =
			    !atomic_compare_exchange_strong(stand, &now, now & ~SHIM_STAND_MASK);
		else
			syscall(SYS_futex, stand, FUTEX_WAIT, now, &turn, NULL, 0);
	}
	unanswered = !looked && t->share->on && !t->share->away;
	errno = saved;
	w->looked = looked;
}

static void account(struct recorder_thread *t, uint64_t since)
{
	struct shim_thread *of = thread_slot(t);
	if (thread_count(&of->hits, 1) % HIT_SAMPLE != HIT_SAMPLE - 1)
		return;
	uint64_t took = ticks_now(&t->ticks) - since;
	if (took > HIT_LONGEST_NS)
		return;
	thread_count(&of->sampled, 1);
	thread_count(&of->sampled_ns, took);
}

void thread_sent(struct recorder_thread *t, uint64_t since, const struct op_plan *plan)
{
	const bool stops = plan->flags & PLAN_STOP;
	struct wait w = {t, 1000 * (stops ? SHIM_PATIENCE_S : SHIM_NEW_PATIENCE_S), false};
	account(t, since);
	t->out.stop = false;
	if (!t->out.held)
		return;
	saved_call(stand_still, &w);
	if (!stops && !w.looked)
		unheard = true;
	t->out.held = false;
}

/* A stopped ditrace is not waited for again until it has read something. */
static void wait_for_room(void *arg)
{
	enum { LOOK_TURNS = 100 };
	const struct timespec turn = {.tv_nsec = 1000 * 1000};
	struct recorder_thread *t = arg;
	const struct ring *r = &thread_slot(t)->records.ring;
	int saved = errno;
	for (unsigned n = 1; shim_share() == t->share && t->share->on && !t->share->away; n++) {
		if (thread_has_room(t))
			break;
		if (t->unread && t->unread == r->tail + 1)
			break;
		t->unread = n % LOOK_TURNS == 0 && shim_is_stopped() ? r->tail + 1 : 0;
		if (!t->unread)
			syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &turn, NULL);
	}
	errno = saved;
}

void thread_wait_for_room(struct recorder_thread *t)
{
	saved_call(wait_for_room, t);
}

bool stand_is_unheard(void)
{
	return unheard;
}

void stand_begin(void)
{
	unheard = unanswered = false;
}
