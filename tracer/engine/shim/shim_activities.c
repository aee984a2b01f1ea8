/* What devices do, as the library in each process passes it on. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/system.h"
#include "symbolizer/event/event.h"
#include "tracer/engine/shim/internal.h"

/* The thread of a launch; 0: not known. CUPTI gives pthread_self(), or, where the program's own
 * profiler has asked for it, the thread ID (cuptiSetThreadIdType). */
static uint32_t thread_of(struct inside *i, uint32_t self)
{
	for (unsigned k = 0; k < SHIM_THREADS; k++) {
		const struct shim_thread *t = &i->share->thread[k];
		int32_t tid = t->tid;
		if (tid > 0 && (t->self == self || (uint32_t)tid == self))
			return shim_tid(i, k, (uint32_t)tid);
	}
	for (unsigned k = 0; k < SHIM_THREADS; k++)
		if (i->selves[k].self == self)
			return i->selves[k].outer;
	return 0;
}

/* Rings are freed when their threads have ended, and launches are told of later. */
static void remember_threads(struct inside *i)
{
	for (unsigned k = 0; k < SHIM_THREADS; k++) {
		const struct shim_thread *t = &i->share->thread[k];
		int32_t tid = t->tid;
		if (tid > 0 && t->self && t->self != i->selves[k].self)
			i->selves[k] = (struct shim_self){t->self, shim_tid(i, k, (uint32_t)tid)};
	}
}

static void hand_over(struct inside *i, const struct shim_activity *a, const char *text,
		      engine_activity_fn *fn, void *arg)
{
	const struct activity_record r = {
	    .kind = a->kind,
	    .activity = a->activity,
	    .from = a->from,
	    .to = a->to,
	    .device_type = a->device_type,
	    .device_index = a->device_index,
	    .in_graph = a->in_graph,
	    .correlation = a->correlation,
	    .stream = a->stream,
	    .pid = i->pid,
	    .tid = a->kind == RECORD_LAUNCH ? (int32_t)thread_of(i, a->thread) : 0,
	    .start_ns = a->start_ns,
	    .end_ns = a->end_ns,
	    .bytes = a->bytes,
	    .name = a->name,
	    .text = text,
	};
	fn(&r, arg);
}

/* Copied before it is used, as the process could change it meanwhile. */
static bool take_activity(struct engine_shim *m, struct inside *i, engine_activity_fn *fn,
			  void *arg)
{
	int bad = 0;
	struct shim_activities *s = &i->share->activities;
	struct shim_activity *copy = (struct shim_activity *)m->record;
	const struct hit *h = chunks_next(&s->records, i->share->activity_ring, &bad);
	uint32_t size = h ? h->size : 0;
	if (!h && !bad)
		return false;
	if (bad || size < sizeof(*copy) || size > sizeof(m->record) ||
	    size > SHIM_RING - (size_t)((const uint8_t *)h - i->share->activity_ring)) {
		inside_broken(m, i);
		return false;
	}
	memcpy(copy, h, size);
	chunks_drop(&s->records, h);
	const bool named = copy->kind == RECORD_NAME;
	if (copy->kind > RECORD_NAME || copy->activity >= ACTIVITY_KINDS ||
	    copy->end_ns < copy->start_ns ||
	    (named && (size == sizeof(*copy) || ((char *)copy)[size - 1])))
		return true;
	hand_over(i, copy, named ? copy->text : NULL, fn, arg);
	return true;
}

/* Also, once, that none were. */
static void tell_lost(struct inside *i, engine_activity_fn *fn, void *arg)
{
	uint64_t lost = i->share->activities.lost;
	if (lost <= i->activities_lost && i->activities_begun)
		return;
	i->activities_begun = true;
	const struct activity_record r = {
	    .kind = RECORD_LOST, .pid = i->pid, .bytes = lost - i->activities_lost};
	i->activities_lost = lost;
	fn(&r, arg);
	i->share->activities.noted = true;
}

int shim_activities(struct engine *g, engine_activity_fn *fn, void *arg)
{
	struct engine_shim *m = (struct engine_shim *)g;
	int n = 0;
	for (struct inside *i = m->all; i; i = i->next) {
		n += shim_memory(m, i, fn, arg);
		if (!i->share || i->broken || !i->share->activities.state)
			continue;
		remember_threads(i);
		while (n < ENGINE_AT_ONCE && take_activity(m, i, fn, arg))
			n++;
		tell_lost(i, fn, arg);
	}
	return n;
}

/* They were asked for, and begun in no process. */
static void tell_never(const struct inside *all, struct err *e)
{
	const struct inside *asked = NULL;
	for (const struct inside *i = all; i; i = i->next) {
		if (!i->share || i->share->activities.wanted != SHIM_DEVICES_ALWAYS)
			continue;
		if (i->share->activities.state > SHIM_DEVICE_NEAR)
			return;
		asked = i;
	}
	if (asked && !e->code)
		err_set(e, -ENODATA,
			"times of devices in process %d were not recorded: it used none, ran too "
			"few ops, or has a profiler of its own",
			asked->pid);
}

void shim_activities_flush(struct engine_shim *m, uint16_t proc)
{
	enum { LIMIT_MS = 500, STEP_MS = 2 };
	for (struct inside *i = m->all; i; i = i->next)
		if (i->share && (proc == ENGINE_ALL_PROCS || i->proc == proc))
			i->share->activities.flush++;
	for (struct inside *i = m->all; i; i = i->next) {
		struct shim_activities *s = i->share ? &i->share->activities : NULL;
		if (!s || i->gone || i->broken || s->state != SHIM_DEVICE_ON)
			continue;
		for (int ms = 0; ms < LIMIT_MS && s->flushed != s->flush; ms += STEP_MS)
			nanosleep(&(const struct timespec){.tv_nsec = STEP_MS * 1000000L}, NULL);
	}
	if (proc == ENGINE_ALL_PROCS)
		tell_never(m->all, &m->engine.trouble);
}

void shim_activities_trouble(struct inside *i, struct err *e)
{
	static const char *const why[] = {
	    [SHIM_DEVICE_UNASKED] = "it uses one already",
	    [SHIM_DEVICE_NO_LIBRARY] = "it has not loaded CUPTI, or one older than 11.8",
	    [SHIM_DEVICE_FAILED] = "CUPTI refuses",
	    [SHIM_DEVICE_YIELDED] = "the program's own profiler has begun, and CUPTI serves one",
	};
	int32_t state = i->share ? i->share->activities.state : SHIM_DEVICE_OFF;
	if (e->code || i->device_told || state < SHIM_DEVICE_UNASKED || state > SHIM_DEVICE_YIELDED)
		return;
	i->device_told = true;
	char code[40] = "";
	if (state == SHIM_DEVICE_FAILED)
		snprintf(code, sizeof(code), " (CUptiResult %d)", i->share->activities.error);
	err_set(e, -ENOTSUP, "times of devices in process %d are not recorded%s: %s%s", i->pid,
		state == SHIM_DEVICE_YIELDED ? " from here on" : "", why[state], code);
	if (state == SHIM_DEVICE_UNASKED)
		err_hint(e, "--devices asks CUPTI in the running process, as torch.profiler does");
}
