/* What processes do with memory, as the library in each passes it on. */
#include <errno.h>
#include <string.h>

#include "tracer/engine/shim/internal.h"

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
static bool oldest(struct engine_shim *m, struct inside *i, const struct memory_heads *heads,
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

static void hand_over(struct inside *i, unsigned slot, const struct shim_memory_record *x,
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
		hand_over(i, slot, &copy, fn, arg);
	return true;
}

/* Also, once, that none were. */
static void tell_lost(struct inside *i, engine_activity_fn *fn, void *arg)
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
	while (n < ENGINE_AT_ONCE && oldest(m, i, &heads, &slot) &&
	       take_memory_record(m, i, slot, fn, arg))
		n++;
	tell_lost(i, fn, arg);
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
