#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"
#include "tracer/engine/shim/injector.h"
#include "tracer/engine/shim/internal.h"
#include "tracer/engine/shim/jumps.h"

static int watch(struct engine *g, pid_t pid, struct err *e)
{
	(void)e;
	shim_of(g)->watched = pid == shim_of(g)->target ? pid : 0;
	return 0;
}

static void expect(struct engine *g, pid_t pid)
{
	shim_of(g)->target = pid;
}

static bool is_outside(pid_t pid)
{
	struct shim_state s;
	return injector_state(pid, &s, NULL) == -ENOENT;
}

void inside_broken(struct engine_shim *m, struct inside *i)
{
	i->broken = true;
	i->share->on = 0;
	err_set(&m->engine.trouble, -EPROTO, "process %d has written over its records", i->pid);
	err_hint(&m->engine.trouble, "it runs on untraced; the trace has what came before");
}

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

/* List the rings in use, and free those that are empty and whose thread has ended. */
static void find_rings(struct engine_shim *m)
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
static struct ring_source *oldest(struct engine_shim *m)
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

static bool ring_take(struct engine_shim *m, struct ring_source *x, engine_hit_fn *fn, void *arg)
{
	struct hit *copy = ring_copy(m, x);
	if (!copy) {
		inside_broken(m, x->whose);
		return false;
	}
	const struct hit was = *copy; /* the next one may be compared with it */
	ring_give(m, x, copy, fn, arg);
	*copy = was;
	return true;
}

static bool stood(struct engine *g)
{
	const struct engine_shim *m = shim_of(g);
	const struct hit *copy = (const struct hit *)m->record;
	return m->standing && m->standing->stand == shim_stand_word(copy->stop, SHIM_LOOKED_AT);
}

static void set_away(struct engine *g, bool away)
{
	for (struct inside *i = shim_of(g)->all; i; i = i->next)
		if (i->share)
			i->share->away = away;
}

/* Report processes whose library refuses to record. */
static void look_after(struct engine_shim *m)
{
	static const char *const why[] = {
	    [SHIM_NO_SYMBOLS] = "its libtorch lacks a function that an observer needs",
	    [SHIM_NO_LAYOUT] =
		"the records that its libtorch passes to observers have an unknown layout",
	};
	for (struct inside *i = m->all; i; i = i->next) {
		shim_activities_trouble(i, &m->engine.trouble);
		shim_memory_trouble(i, &m->engine.trouble);
		int32_t refusal = i->share ? i->share->refusal : SHIM_FINE;
		if (refusal <= SHIM_FINE || refusal > SHIM_NO_LAYOUT || i->told)
			continue;
		i->told = true;
		err_set(&m->engine.trouble, -ENOTSUP, "%sprocess %d is not traced: %s",
			i->share->jumps ? "what does not pass at::_ops in " : "", i->pid,
			why[refusal]);
		err_hint(&m->engine.trouble, "try --engine bpf or --engine ptrace");
	}
}

/* Of a process; `empty`: all rings were. A record of freed code that was lost is not waited for. */
static unsigned readable_sums(struct inside *i, bool empty)
{
	struct sums_code *code = &i->share->code;
	if (empty)
		sums_code_known(code, i->freed);
	return (sums_code_is_known(code) ? 0 : SUMS_BARE) | (i->gone ? SUMS_ENDED : 0);
}

/* From time to time, and where nothing more will come. Returns their number. */
static int consume_sums(struct engine_shim *m, bool empty, engine_hit_fn *fn, void *arg)
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

/* The pause in which, at the pace since the last one, no ring becomes fuller than an eighth, nor
 * than what stays in caches. The rings were just found. */
static int pause_of(struct engine_shim *m)
{
	enum { PART = 8, CACHED = 256 << 10, MOST_MS = 8, MS = 1000 * 1000, LONG = 1000 * MS };
	const uint64_t now = clock_ns(CLOCK_MONOTONIC);
	const uint64_t past = now - m->looked < LONG ? now - m->looked : LONG;
	const uint64_t ring = (uint64_t)m->chunks * CHUNK / PART;
	const uint64_t room = ring < CACHED ? ring : CACHED;
	uint64_t most = 1;
	m->looked = now;
	for (const struct inside *i = m->all; i; i = i->next)
		if (!i->share || i->gone || i->share->memory)
			return 1;
	for (unsigned k = 0; k < m->nrings; k++) {
		const struct ring *r = &m->rings[k].thread->records.ring;
		const uint64_t n = r->head - r->tail;
		most = n > most ? n : most;
	}
	if (most > room)
		return 1;
	const uint64_t ms = past * room / most / MS;
	return ms < MOST_MS ? (int)ms : MOST_MS;
}

static int consume(struct engine *g, engine_hit_fn *fn, void *arg)
{
	struct engine_shim *m = shim_of(g);
	struct ring_source *x;
	int n = 0;
	look_after(m);
	find_rings(m);
	g->pause_ms = pause_of(m);
	while (n < ENGINE_AT_ONCE && (x = oldest(m)) && ring_take(m, x, fn, arg))
		n++;
	if (m->may_sum)
		n += consume_sums(m, !n, fn, arg);
	for (struct inside *i = m->all; i; i = i->next)
		i->rounds += i->gone && n < ENGINE_AT_ONCE;
	return n;
}

static void count_dispatch(struct engine *g, int on)
{
	(void)g, (void)on;
}

static void counters(struct engine *g, struct engine_counters *out)
{
	*out = shim_of(g)->past;
	out->probe_is_least = true;
	for (struct inside *i = shim_of(g)->all; i; i = i->next)
		if (i->share)
			inside_count(i, out);
}

static void set_turn(struct engine *g, uint32_t turn)
{
	shim_of(g)->turn = turn;
	for (struct inside *i = shim_of(g)->all; i; i = i->next)
		if (i->share)
			i->share->turn = turn;
}

static struct turn_spent turn(const struct engine *g, uint32_t number)
{
	const struct engine_shim *m = (const struct engine_shim *)g;
	struct turn_spent all = m->past_turns[number];
	for (const struct inside *i = m->all; i; i = i->next)
		if (i->share)
			inside_add_turn(i, number, &all);
	return all;
}

static void calibrate(struct engine *g)
{
	(void)g;
}

static void engine_close(struct engine *g)
{
	struct engine_shim *m = shim_of(g);
	shim_detach(g, ENGINE_ALL_PROCS);
	jumps_close(m->jumps);
	shim_clients_await_leaving(m);
	while (m->all) {
		struct inside *i = m->all;
		m->all = i->next;
		inside_drop(m, i);
	}
	while (m->listeners) {
		struct shim_listener *d = m->listeners;
		m->listeners = d->next;
		shim_listener_close(d);
	}
	if (m->engine.wake >= 0)
		close(m->engine.wake);
	free(m->plans);
	free(m);
}

/* For processes that this one will start. */
static int prepare(struct engine_shim *m, const struct spawn_user *user, struct err *e)
{
	int r = shim_listener_open(0, user, &m->listeners, e);
	if (!r)
		shim_clients_wake(m, m->listeners->sock);
	return r ? r : shim_listener_environment(m->listeners, SHIM_SOCKET, e);
}

/* MemAvailable of /proc/meminfo (proc(5)), bytes; 0: not known. */
static uint64_t memory_available(void)
{
	char line[128];
	uint64_t kib = 0;
	FILE *f = fopen("/proc/meminfo", "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "MemAvailable:", 13))
			kib = strtoull(line + 13, NULL, 10);
	if (f)
		fclose(f);
	return kib << 10;
}

/* The chunks of a ring of that many bytes; 0: by what is free, of which the rings of SHIM_THREADS
 * threads would take a quarter. */
static uint32_t chunks_of(uint64_t bytes)
{
	enum { PART = 4 * SHIM_THREADS, USUAL = 16 << 20 };
	if (!bytes) {
		uint64_t free = memory_available() / PART;
		bytes = free < USUAL ? USUAL : free;
	}
	return (uint32_t)(engine_ring_bytes(bytes, bytes) / CHUNK);
}

int engine_shim_open(const struct engine_wanted *w, struct engine **out, struct err *e)
{
	struct engine_shim *m = calloc(1, sizeof(*m));
	if (!m)
		return err_set(e, -ENOMEM, "no memory");
	m->interesting = w->interesting;
	m->target = w->pid;
	m->nplans = w->nplans;
	m->may_sum = w->may_sum;
	m->waits = w->waits;
	m->devices = w->no_devices ? SHIM_DEVICES_NO
		     : w->devices  ? SHIM_DEVICES_ALWAYS
				   : SHIM_DEVICES_EARLY;
	m->chunks = chunks_of(w->buffer);
	m->plans = calloc(w->nplans, sizeof(*m->plans));
	m->engine = (struct engine){
	    .name = "shim",
	    .wake = epoll_create1(EPOLL_CLOEXEC),
	    .observes = true,
	    .set_plans = shim_set_plans,
	    .set_proc = shim_set_proc,
	    .add_rows = shim_add_rows,
	    .attach = shim_attach,
	    .expect = expect,
	    .is_outside = is_outside,
	    .detach = shim_detach,
	    .consume = consume,
	    .activities = shim_activities,
	    .count_dispatch = count_dispatch,
	    .counters = counters,
	    .set_turn = set_turn,
	    .turn = turn,
	    .calibrate = calibrate,
	    .watch = watch,
	    .follow = shim_clients_follow,
	    .stood = stood,
	    .set_away = set_away,
	    .close = engine_close,
	};
	if (!jumps_open(&m->jumps))
		m->engine.tracer = jumps_helper(m->jumps);
	struct inside *i;
	int r = m->plans && m->engine.wake >= 0 ? 0 : err_set(e, -ENOMEM, "no memory");
	if (!r && !w->pid)
		r = prepare(m, w->user, e);
	else if (!r && w->interesting(w->pid))
		r = shim_bring_in(m, w->pid, &i, e);
	else if (!r)
		r = injector_check(w->pid, INJECTOR_RECORDS, e);
	if (r) {
		engine_close(&m->engine);
		return r;
	}
	*out = &m->engine;
	return 0;
}
