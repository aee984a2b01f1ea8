#define _GNU_SOURCE
#include "tracer/shim/record/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tracer/shim/shim.h"

enum {
	NO_CONF = 1, /* odd: never a finished one */
	/* Where less than such a part of the ring is free, records are brief, and then lean. */
	FILLING = 2,
	TIGHT = 4,
};

static __thread unsigned refused; /* epoch in which there was no free ring; 0: never */

/* Room in the thread's ring while more than `keep` chunks are free; NULL: there is none. */
static void *room(struct recorder_thread *t, uint32_t most, uint32_t keep)
{
	return chunks_room(&thread_slot(t)->records, &t->ring, t->share->ring[t->index], most,
			   keep);
}

/* Where to make a record, once there is room for it. Where calls may be summed up, the last chunk
 * is kept for the ends of those that are recorded. A brief record, which costs more time than it
 * saves where there is room, is made besides first. */
static void *thread_place(void *arg)
{
	struct recorder_thread *t = arg;
	t->place = room(t, HIT_BUF_MAX + HIT_BUF_SLACK, t->out.sums);
	t->is_brief = t->ring.nspare < t->share->chunks / FILLING;
	t->out.tight = t->ring.nspare < t->share->chunks / TIGHT && !t->share->waits;
	return t->place && t->is_brief ? (void *)t->out.own : t->place;
}

bool thread_has_room(struct recorder_thread *t)
{
	enum { WHOLE = 2 }; /* chunks: a hit may be longer than one record */
	return room(t, HIT_BUF_MAX + HIT_BUF_SLACK, WHOLE);
}

static void number_stop(struct recorder_thread *t, struct hit *h)
{
	_Atomic uint32_t *stand = &thread_slot(t)->stand;
	uint32_t next = shim_stand_word(shim_stand_number(*stand) + 1, SHIM_STANDS);
	h->stop = shim_stand_number(next);
	atomic_store(stand, next);
}

/* Into the last chunk. Of the end of an op its time is sent, and what is summed up within it; of a
 * hit whose first records were sent, that it is complete; of freed code, which. */
static int send_small(struct recorder_thread *t, const struct hit *h)
{
	enum { ENDS = OPEN_MAX * 128 };
	const bool is_rest = h->flags & HIT_CONT, is_of_code = h->kind == HIT_CODE_FREED;
	uint32_t size = is_of_code || is_rest ? sizeof(*h) : h->size;
	struct hit *to = room(t, is_rest || h->kind == HIT_EXIT ? size : size + ENDS, 0);
	if (!to)
		return -1;
	for (uint32_t i = 0; i < size / 8; i++)
		((uint64_t *)to)[i] = ((const uint64_t *)h)[i];
	to->size = size;
	if (to->flags & HIT_STOPPED)
		number_stop(t, to);
	brief_whole(&t->brief, to);
	chunks_done(&thread_slot(t)->records, to);
	return 0;
}

/* A record that has no place. */
static int thread_overflow(struct recorder_thread *t, struct hit *h)
{
	int r = -1;
	if (h->kind == HIT_CODE_MET) {
		pyframes_unsent(h->sp);
		return r;
	}
	if (h->flags & HIT_MORE && t->out.lean)
		return r; /* the last record of the hit says so */
	if (t->out.ends && t->out.lean && !(h->flags & HIT_CONT)) {
		h->flags |= HIT_LEAN;
		if (!send_small(t, h))
			return 0;
		h->flags &= (uint8_t)~HIT_LEAN;
	}
	if (t->out.lean && h->kind == HIT_ENTRY && !(h->flags & HIT_CONT))
		r = (t->out.row = sums_enter(t->ops.sums, &t->sums, h, !t->ops.py.nmet)) ? 0 : -1;
	else if (t->out.lean)
		r = send_small(t, h);
	if (r)
		thread_count(&thread_slot(t)->lost, 1);
	return r;
}

static int thread_sink(void *arg, const struct hit *made)
{
	struct recorder_thread *t = arg;
	struct hit *h = (struct hit *)made;
	if (!t->out.placed)
		return thread_overflow(t, (struct hit *)t->out.own);
	if (h->flags & HIT_STOPPED)
		number_stop(t, h);
	if (h == t->place)
		brief_whole(&t->brief, h);
	else
		brief_put(&t->brief, h, t->place);
	chunks_done(&thread_slot(t)->records, t->place);
	return 0;
}

void recorder_thread_ends(void *memory)
{
	struct recorder_thread *t = memory;
	if (t->epoch == shim_epoch() && shim_share() == t->share)
		atomic_store(&t->share->thread[t->index].ended, 1);
}

static void count_thread(struct shim_share *s, uint32_t n)
{
	uint32_t was = s->nthreads;
	while (was < n && !atomic_compare_exchange_weak(&s->nthreads, &was, n))
		;
}

/* What went into an earlier ring is not in the new one. */
static void forget_sent(struct recorder_thread *t)
{
	if (t->epoch)
		memset(&t->brief, 0, sizeof(t->brief));
}

static bool claim(struct recorder_thread *t, struct shim_share *s)
{
	int32_t tid = (int32_t)syscall(SYS_gettid);
	for (unsigned i = 0; i < SHIM_THREADS; i++) {
		int32_t none = 0;
		if (!atomic_compare_exchange_strong(&s->thread[i].tid, &none, tid))
			continue;
		count_thread(s, i + 1);
		s->thread[i].self = (uint32_t)(uintptr_t)__builtin_thread_pointer();
		forget_sent(t);
		t->share = s;
		t->index = i;
		t->epoch = shim_epoch();
		chunks_begin(&s->thread[i].records, &t->ring, s->chunks);
		chunks_begin(&s->thread[i].memory, &t->memory, SHIM_MEMORY_CHUNKS);
		sums_begin(&s->sums[i], &t->sums, &s->code);
		t->conf_seq = NO_CONF;
		memset(&t->ops, 0, sizeof(t->ops));
		t->turn = (struct turn_state){0};
		t->ops.tid = (uint32_t)tid;
		t->ops.sums = &s->sums[i];
		t->ops.sums_writer = &t->sums;
		t->ops.code = &s->code;
		t->out.sums = s->may_sum;
		return true;
	}
	return false;
}

struct recorder_thread *thread_here(struct shim_share *s)
{
	struct recorder_thread *t = inside_memory_had();
	unsigned epoch = shim_epoch();
	if (t && t->share == s && t->epoch == epoch)
		return t;
	if (refused == epoch) {
		atomic_fetch_add_explicit(&s->lost, 1, memory_order_relaxed);
		return NULL;
	}
	t = inside_memory(sizeof(*t));
	if (!t)
		return NULL;
	t->out.place = thread_place;
	t->out.sink = thread_sink;
	t->out.arg = t;
	if (claim(t, s))
		return t;
	refused = epoch;
	return NULL;
}

bool thread_update(struct recorder_thread *t)
{
	struct shim_share *s = t->share;
	struct proc_conf conf;
	uint32_t seq = atomic_load_explicit(&s->conf_seq, memory_order_acquire);
	if (seq == t->conf_seq || seq & 1)
		return t->conf_seq != NO_CONF;
	memcpy(&conf, &s->conf, sizeof(conf));
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&s->conf_seq, memory_order_relaxed) == seq) {
		t->conf = conf;
		t->conf_seq = seq;
	}
	return t->conf_seq != NO_CONF;
}

/* How a thread waits for ditrace. */

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

/* Where the stack of a thread is, as /proc/self/maps (proc(5)) says. */

/* Nothing else is mapped so near below the main thread's stack (Linux, arch/x86/mm/mmap.c). */
enum { GAP = 64 << 20 };

struct bounds {
	uint64_t sp, low, high; /* high 0: not found */
};

/* A thread's own stack alone: it is there as long as the thread, and so is what lies above it, up
 * to the thread pointer (glibc, nptl/allocatestack.c) or the end of the main thread's. What else is
 * mapped above the stack pointer may be gone the next time. */
static void bounds_line(struct bounds *b, const char *line)
{
	const uint64_t self = (uint64_t)(uintptr_t)__builtin_thread_pointer();
	char *s;
	const uint64_t start = strtoull(line, &s, 16);
	const uint64_t end = *s == '-' ? strtoull(s + 1, &s, 16) : 0;
	if (b->sp < start || b->sp >= end || s[0] != ' ' || s[1] != 'r' || s[2] != 'w')
		return;
	const bool is_thread = self > b->sp && self < end;
	/* That of the main thread grows down. */
	b->low = is_thread ? start : end - GAP;
	b->high = is_thread ? self : strstr(s, "[stack]") ? end : 0;
}

/* What is longer is a line of a file. */
static void bounds_read(struct bounds *b, int maps)
{
	enum { LINE = 128 };
	char buf[4096], line[LINE];
	size_t len = 0;
	ssize_t n;
	while (!b->high && ((n = read(maps, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR)))
		for (ssize_t i = 0; i < n; i++) {
			if (len < LINE - 1)
				line[len++] = buf[i];
			if (buf[i] != '\n')
				continue;
			line[len - 1] = 0;
			bounds_line(b, line);
			len = 0;
		}
}

static void find_bounds(void *arg)
{
	int saved = errno;
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps >= 0) {
		bounds_read(arg, maps);
		close(maps);
	}
	errno = saved;
}

/* A thread that changes its stack again and again pays for that; no more is read for it then. */
bool native_bounds_find(struct native_walk *w, uint64_t sp)
{
	enum { STACKS_MOST = 64 };
	struct bounds b = {.sp = sp};
	if (w->found >= STACKS_MOST)
		return false;
	w->found++;
	saved_call(find_bounds, &b);
	if (!b.high)
		return false;
	w->low = b.low;
	w->high = b.high;
	return true;
}
