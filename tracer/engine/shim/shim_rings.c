/* Reads what the threads of processes write, in the order of time over all of them: records of
 * hits, calls summed up, what was done with memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"
#include "tracer/engine/shim/internal.h"

struct sums_call {
	struct engine_shim *engine;
	struct inside *whose;
	unsigned slot;
	engine_hit_fn *fn;
	void *arg;
};

static void give_sum(struct hit *h, void *arg)
{
	struct sums_call *to = arg;
	to->engine->nsums++;
	h->tid = shim_tid(to->whose, to->slot, h->tid);
	to->fn(h, to->arg);
}

/* Hand over what the threads of a process have summed up: SUMS_*. */
static void read_sums(struct engine_shim *m, struct inside *i, unsigned which, engine_hit_fn *fn,
		      void *arg)
{
	struct sums_call to = {m, i, 0, fn, arg};
	const unsigned n = i->share && !i->broken ? shim_nthreads(i->share) : 0;
	for (unsigned k = 0; k < n && !i->broken; k++) {
		struct sums *s = &i->share->sums[k];
		if (!sums_changed(s))
			continue;
		to.slot = k;
		if (!i->sums[k])
			i->sums[k] = calloc(1, sizeof(*i->sums[k]));
		if (i->sums[k] && !sums_read(s, i->sums[k], i->proc, which, give_sum, &to))
			inside_broken(m, i);
	}
}

void shim_rings_find(struct engine_shim *m)
{
	m->nrings = 0;
	for (struct inside *i = m->all; i; i = i->next) {
		const unsigned n = i->share && !i->broken ? shim_nthreads(i->share) : 0;
		i->freed = i->share ? i->share->code.freed : 0;
		for (unsigned k = 0; k < n; k++) {
			struct shim_thread *t = &i->share->thread[k];
			if (!t->tid || m->nrings == RINGS_MAX)
				continue;
			if (t->ended && t->records.ring.head == t->records.ring.tail &&
			    t->memory.ring.head == t->memory.ring.tail &&
			    !sums_changed(&i->share->sums[k])) {
				free(i->sums[k]);
				free(i->brief[k]);
				i->sums[k] = NULL;
				i->brief[k] = NULL;
				t->ended = 0;
				t->tid = 0;
				continue;
			}
			m->rings[m->nrings++] = (struct ring_source){i, t, i->share->ring[k], k};
		}
	}
}

static uint64_t ts_of(const struct ring_source *x, const struct hit *h)
{
	const uint32_t size = *(const volatile uint32_t *)&h->size;
	return size & RING_BRIEF ? brief_ts(x->whose->brief[x->slot], h) : h->ts;
}

/* The ring whose next record is the oldest; NULL: all are empty. */
static struct ring_source *oldest_ring(struct engine_shim *m)
{
	struct ring_source *best = NULL;
	uint64_t ts = UINT64_MAX;
	for (unsigned k = 0; k < m->nrings; k++) {
		struct ring_source *x = &m->rings[k];
		int bad = 0;
		const struct hit *h =
		    x->whose->broken ? NULL : chunks_next_any(&x->thread->records, x->data, &bad);
		const uint64_t at = h ? ts_of(x, h) : UINT64_MAX;
		if (at < ts) {
			ts = at;
			best = x;
		}
		if (bad)
			inside_broken(m, x->whose);
	}
	return best;
}

/* Whether the thread stays stopped while the record that this is a copy of is handled. */
static bool claim(struct shim_thread *t, struct hit *copy)
{
	uint32_t stands = shim_stand_word(copy->stop, SHIM_STANDS);
	if (!(copy->flags & HIT_STOPPED))
		return false;
	if (atomic_compare_exchange_strong(&t->stand, &stands,
					   shim_stand_word(copy->stop, SHIM_LOOKED_AT)))
		return true;
	copy->flags &= (uint8_t)~HIT_STOPPED;
	return false;
}

/* Unless it has gone by itself, while this process was stopped, and may have stopped again. */
static void let_go(struct shim_thread *t, uint32_t number)
{
	uint32_t looked_at = shim_stand_word(number, SHIM_LOOKED_AT);
	if (!atomic_compare_exchange_strong(&t->stand, &looked_at,
					    shim_stand_word(number, SHIM_GOES)))
		return;
	syscall(SYS_futex, &t->stand, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* What went through this ring; NULL: no memory. */
static struct brief *brief_of(const struct ring_source *x)
{
	struct brief **of = &x->whose->brief[x->slot];
	if (!*of)
		*of = calloc(1, sizeof(**of));
	return *of;
}

/* The next record, whole. It is copied before it is used, since the traced process could change it
 * meanwhile. NULL: it is no record. */
static struct hit *ring_copy(struct engine_shim *m, const struct ring_source *x)
{
	struct hit *copy = (struct hit *)m->record;
	struct brief *brief = brief_of(x);
	const struct hit *h = chunks_next_any(&x->thread->records, x->data, NULL);
	const uint32_t size = h ? *(const volatile uint32_t *)&h->size : 0;
	const uint32_t n = ring_bytes(size);
	const uint32_t least = size & RING_BRIEF ? sizeof(uint64_t) : sizeof(*h);
	if (!brief || n < least || n > sizeof(m->record) ||
	    n > SHIM_RING - ((const uint8_t *)h - x->data))
		return NULL;
	memcpy(copy, h, n);
	copy->size = size;
	chunks_drop(&x->thread->records, h);
	if (size & RING_BRIEF)
		return brief_read(brief, copy);
	brief_whole(brief, copy);
	return copy;
}

static void ring_give(struct engine_shim *m, struct ring_source *x, struct hit *copy,
		      engine_hit_fn *fn, void *arg)
{
	copy->proc = x->whose->proc;
	copy->tid = shim_tid(x->whose, x->slot, copy->tid);
	m->standing = NULL;
	/* What was summed up before may have that code in its stack. */
	if (copy->kind == HIT_CODE_FREED)
		read_sums(m, x->whose, x->whose->gone ? SUMS_ENDED : 0, fn, arg);
	m->standing = claim(x->thread, copy) ? x->thread : NULL;
	fn(copy, arg);
	if (copy->kind == HIT_CODE_FREED)
		sums_code_known(&x->whose->share->code, (uint32_t)copy->seq);
	if (m->standing)
		let_go(x->thread, copy->stop);
}

bool shim_rings_take(struct engine_shim *m, engine_hit_fn *fn, void *arg)
{
	struct ring_source *x = oldest_ring(m);
	struct hit *copy = x ? ring_copy(m, x) : NULL;
	if (x && !copy)
		inside_broken(m, x->whose);
	if (!copy)
		return false;
	const struct hit was = *copy; /* the next one may be compared with it */
	ring_give(m, x, copy, fn, arg);
	*copy = was;
	return true;
}

/* Of a process; `empty`: all rings were. A record of freed code that was lost is not waited for. */
static unsigned readable_sums(struct inside *i, bool empty)
{
	struct sums_code *code = &i->share->code;
	if (empty)
		sums_code_known(code, i->freed);
	return (sums_code_is_known(code) ? 0 : SUMS_BARE) | (i->gone ? SUMS_ENDED : 0);
}

int shim_sums(struct engine_shim *m, bool empty, engine_hit_fn *fn, void *arg)
{
	enum { EVERY_NS = 50 * 1000 * 1000 };
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	m->standing = NULL;
	m->nsums = 0;
	const bool all = empty || now - m->summed >= EVERY_NS;
	for (struct inside *i = m->all; i; i = i->next)
		if (i->share && (all || i->gone))
			read_sums(m, i, readable_sums(i, empty), fn, arg);
	m->summed = all ? now : m->summed;
	return m->nsums;
}

/* Up to where each ring of a process has been looked at. */
struct memory_heads {
	unsigned n;
	uint64_t at[SHIM_THREADS];
};

static bool is_before(const struct chunks *c, uint64_t head)
{
	return c->ring.tail < head;
}

/* The ring with the oldest record. What is freed in one thread and allocated again in another must
 * come in this order: the record of the first was there when that of the second was written, so of
 * each ring only what was there before all were looked at may be the last to be taken. Whether any
 * ring still has such. */
static bool oldest_memory(struct engine_shim *m, struct inside *i, const struct memory_heads *heads,
			  unsigned *best)
{
	uint64_t ts = UINT64_MAX;
	bool any = false;
	for (unsigned k = 0; k < heads->n; k++) {
		struct chunks *c = &i->share->thread[k].memory;
		int bad = 0;
		const struct hit *h = chunks_next(c, i->share->memory_ring[k], &bad);
		if (bad) {
			inside_broken(m, i);
			return false;
		}
		if (!h)
			continue;
		any |= is_before(c, heads->at[k]);
		if (h->ts < ts) {
			ts = h->ts;
			*best = k;
		}
	}
	return any;
}

static void hand_over_memory(struct inside *i, unsigned slot, const struct shim_memory_record *x,
			     engine_activity_fn *fn, void *arg)
{
	const bool is_device = x->hit.op == SHIM_MEMORY_REPORT;
	const int64_t bytes = (int64_t)x->hit.seq;
	const bool freed = is_device ? bytes < 0 : x->hit.op == SHIM_MEMORY_DELETE;
	const struct shim_thread *t = &i->share->thread[slot];
	const struct activity_record r = {
	    .kind = freed ? RECORD_FREED : RECORD_ALLOCATED,
	    .device_type = is_device ? (int8_t)x->hit.generation : 0,
	    .device_index = is_device ? (int8_t)(x->hit.generation >> 8) : -1,
	    .pid = i->pid,
	    .tid = (int32_t)shim_tid(i, slot, (uint32_t)t->tid),
	    .start_ns = x->hit.ts,
	    .end_ns = x->hit.ts,
	    .bytes = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes,
	    .total = is_device ? x->total : 0,
	    .reserved = is_device ? x->reserved : 0,
	    .name = x->hit.sp,
	};
	fn(&r, arg);
}

/* Copied before it is used, as the process could change it meanwhile. */
static bool take_memory_record(struct engine_shim *m, struct inside *i, unsigned slot,
			       engine_activity_fn *fn, void *arg)
{
	struct chunks *c = &i->share->thread[slot].memory;
	const struct hit *h = chunks_next(c, i->share->memory_ring[slot], NULL);
	struct shim_memory_record copy;
	if (!h || h->size != sizeof(copy) ||
	    sizeof(copy) >
		SHIM_MEMORY_RING - (size_t)((const uint8_t *)h - i->share->memory_ring[slot])) {
		inside_broken(m, i);
		return false;
	}
	memcpy(&copy, h, sizeof(copy));
	chunks_drop(c, h);
	if (copy.hit.op < SHIM_MEMORIES)
		hand_over_memory(i, slot, &copy, fn, arg);
	return true;
}

/* Also, once, that none were. */
static void tell_memory_lost(struct inside *i, engine_activity_fn *fn, void *arg)
{
	const unsigned n = shim_nthreads(i->share);
	uint64_t lost = 0;
	for (unsigned k = 0; k < n; k++)
		lost += i->share->thread[k].memory_lost;
	if (lost <= i->memory_lost && i->memory_begun)
		return;
	i->memory_begun = true;
	const struct activity_record r = {
	    .kind = RECORD_MEMORY_LOST, .pid = i->pid, .bytes = lost - i->memory_lost};
	i->memory_lost = lost;
	fn(&r, arg);
}

int shim_memory(struct engine_shim *m, struct inside *i, engine_activity_fn *fn, void *arg)
{
	struct memory_heads heads;
	unsigned slot = 0;
	int n = 0;
	if (!i->share || i->broken || !i->share->memory)
		return 0;
	heads.n = shim_nthreads(i->share);
	for (unsigned k = 0; k < heads.n; k++)
		heads.at[k] = i->share->thread[k].memory.ring.head;
	while (n < ENGINE_AT_ONCE && oldest_memory(m, i, &heads, &slot) &&
	       take_memory_record(m, i, slot, fn, arg))
		n++;
	tell_memory_lost(i, fn, arg);
	return n;
}

void shim_memory_trouble(struct inside *i, struct err *e)
{
	if (e->code || !i->no_memory || i->memory_told)
		return;
	i->memory_told = true;
	err_set(e, -ENOTSUP,
		"memory of process %d is not recorded: the functions of its libc10 that are told "
		"of it have no place for jumps, or no memory is free within 2 GiB of it",
		i->pid);
	err_hint(e, "torch.profiler with profile_memory=True, in the program, tells of it");
}
