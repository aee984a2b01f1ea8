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
	int n = 0;
	look_after(m);
	shim_rings_find(m);
	g->pause_ms = pause_of(m);
	while (n < ENGINE_AT_ONCE && shim_rings_take(m, fn, arg))
		n++;
	if (m->may_sum)
		n += shim_sums(m, !n, fn, arg);
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

/* Of a process that has no PyTorch yet, and may just be starting. */
static int check_waiting(pid_t pid, struct err *e)
{
	int r = injector_check(pid, INJECTOR_RECORDS, e);
	return r == -EAGAIN ? 0 : r;
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
		r = check_waiting(w->pid, e);
	if (r) {
		engine_close(&m->engine);
		return r;
	}
	*out = &m->engine;
	return 0;
}
