#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "symbolizer/target/process.h"
#include "tracer/engine/engine.h"

/* The engine bpf, which also stops threads at selected calls: eBPF sends them a signal, at which
 * they stop for the tracing process of the engine ptrace, which places no probes itself. */
struct engine_both {
	struct engine engine;
	struct engine *bpf, *ptrace;
	pid_t *standing; /* stopped threads that were reported and not resumed yet */
	size_t nstanding, room;
	pid_t *before; /* of those, the ones of before this round */
	size_t nbefore;
	struct hit *copy; /* of a record whose thread did not stop after all */
	size_t copy_room;
	engine_hit_fn *fn; /* during consume */
	void *arg;
	bool away;   /* as set_away has it */
	bool dead;   /* the tracing process */
	bool missed; /* a thread that was to stop runs on */
	bool told;   /* the user has been told that a thread cannot be stopped */
};

static struct engine_both *of(struct engine *g)
{
	return (struct engine_both *)g;
}

static int set_plans(struct engine *g, uint32_t first, const struct op_plan *plans, uint32_t n,
		     struct err *e)
{
	return of(g)->bpf->set_plans(of(g)->bpf, first, plans, n, e);
}

static int set_proc(struct engine *g, uint16_t proc, const struct proc_conf *conf)
{
	return of(g)->bpf->set_proc(of(g)->bpf, proc, conf);
}

/* Trace the threads before placing probes: calls are counted from the first one on, and a selected
 * one must be able to stop. */
static int attach(struct engine *g, pid_t pid, uint16_t proc, const struct probe_file *file,
		  struct err *e)
{
	int r = of(g)->ptrace->watch(of(g)->ptrace, pid, e);
	return r ? r : of(g)->bpf->attach(of(g)->bpf, pid, proc, file, e);
}

static void detach(struct engine *g, uint16_t proc)
{
	of(g)->bpf->detach(of(g)->bpf, proc);
	if (proc != ENGINE_ALL_PROCS)
		engine_bpf_forget_calls(of(g)->bpf, proc);
}

static void count_dispatch(struct engine *g, int on)
{
	of(g)->bpf->count_dispatch(of(g)->bpf, on);
}

static void counters(struct engine *g, struct engine_counters *out)
{
	of(g)->bpf->counters(of(g)->bpf, out);
}

static void calibrate(struct engine *g)
{
	of(g)->bpf->calibrate(of(g)->bpf);
}

static uint64_t count_call(struct engine *g, uint16_t proc, uint32_t op)
{
	return engine_bpf_count_call(of(g)->bpf, proc, op);
}

static void set_awaited(struct engine *g, bool awaited)
{
	engine_bpf_set_awaited(of(g)->bpf, awaited);
}

static int watch(struct engine *g, pid_t pid, struct err *e)
{
	return of(g)->ptrace->watch(of(g)->ptrace, pid, e);
}

static int follow(struct engine *g, follow_fn *fn, void *arg)
{
	return of(g)->ptrace->follow(of(g)->ptrace, fn, arg);
}

static void set_away(struct engine *g, bool away)
{
	of(g)->ptrace->set_away(of(g)->ptrace, away);
	of(g)->away = away;
}

static void on_standing(const struct hit *h, void *arg)
{
	struct engine_both *b = arg;
	if (h->kind != HIT_STANDS)
		return;
	if (array_grow(&b->standing, &b->room, b->nstanding + 1, sizeof(*b->standing)))
		engine_ptrace_release(b->ptrace, (pid_t)h->tid, 0);
	else
		b->standing[b->nstanding++] = (pid_t)h->tid;
}

static void take_notices(struct engine_both *b)
{
	b->dead |= b->ptrace->consume(b->ptrace, on_standing, b) < 0;
}

static bool tid_remove(pid_t *list, size_t *n, pid_t tid)
{
	for (size_t i = 0; i < *n; i++) {
		if (list[i] != tid)
			continue;
		list[i] = list[--*n];
		return true;
	}
	return false;
}

static bool take_out(struct engine_both *b, pid_t tid)
{
	return tid_remove(b->standing, &b->nstanding, tid);
}

/* The record is sent before the signal, the thread stops after both. The wait is bounded, since the
 * thread may be killed in between. */
static bool await_stop(struct engine_both *b, pid_t tid)
{
	enum { ROUNDS = 250, MS = 20 };
	struct pollfd wake = {.fd = b->ptrace->wake, .events = POLLIN};
	for (unsigned i = 0; i < ROUNDS && !b->dead; i++) {
		take_notices(b);
		if (take_out(b, tid)) {
			/* It may stop again in this round, at a record of the next. */
			tid_remove(b->before, &b->nbefore, tid);
			return true;
		}
		if (b->away) /* those that have stopped have been noticed */
			return false;
		if (i && !process_alive(tid))
			return false;
		poll(&wake, 1, MS);
	}
	return false;
}

/* A copy of the record without HIT_STOPPED, for a thread that runs on. NULL without memory. */
static const struct hit *not_held(struct engine_both *b, const struct hit *h)
{
	if (h->size > b->copy_room) {
		struct hit *grown = realloc(b->copy, h->size);
		if (!grown)
			return NULL;
		b->copy = grown;
		b->copy_room = h->size;
	}
	memcpy(b->copy, h, h->size);
	b->copy->flags &= (__u8)~HIT_STOPPED;
	return b->copy;
}

static void on_record(const struct hit *h, void *arg)
{
	struct engine_both *b = arg;
	bool held = h->flags & HIT_STOPPED;
	if (held && !await_stop(b, (pid_t)h->tid)) {
		held = false;
		b->missed |= !b->dead && !b->away && process_alive((pid_t)h->tid);
		h = not_held(b, h);
	}
	if (h)
		b->fn(h, b->arg);
	if (held)
		engine_ptrace_release(b->ptrace, (pid_t)h->tid, 0);
}

/* Threads that were stopped before this round, and whose record is not in it, got a SIGURG of their
 * own: deliver it. */
static void release_others(struct engine_both *b)
{
	for (size_t i = 0; i < b->nbefore; i++)
		if (take_out(b, b->before[i]))
			engine_ptrace_release(b->ptrace, b->before[i], SIGURG);
}

static int failed(struct engine_both *b, const struct engine *which)
{
	b->engine.gone = which->gone;
	b->engine.gone_hint = which->gone_hint;
	return -ECHILD;
}

/* Report once that calls are not captured because a thread cannot be stopped. */
static void tell_missed(struct engine_both *b)
{
	bool blocked = engine_bpf_unheld(b->bpf);
	if (b->told || !(blocked || b->missed))
		return;
	b->told = true;
	err_set(&b->engine.trouble, -EAGAIN,
		"a thread cannot be stopped, since it %s: chosen calls on it are not captured",
		blocked ? "blocks SIGURG" : "does not react to SIGURG");
	err_hint(&b->engine.trouble, "--engine ptrace stops it, as it does every thread");
}

static int consume(struct engine *g, engine_hit_fn *fn, void *arg)
{
	struct engine_both *b = of(g);
	take_notices(b);
	size_t n = b->nstanding;
	b->before = n ? malloc(n * sizeof(*b->before)) : NULL;
	b->nbefore = b->before ? n : 0;
	if (b->before)
		memcpy(b->before, b->standing, n * sizeof(*b->before));
	b->fn = fn;
	b->arg = arg;
	int r = b->bpf->consume(b->bpf, on_record, b);
	release_others(b);
	free(b->before);
	b->before = NULL;
	b->nbefore = 0;
	tell_missed(b);
	if (r < 0)
		return r == -ECHILD ? failed(b, b->bpf) : r;
	return b->dead && !r ? failed(b, b->ptrace) : r;
}

static void engine_close(struct engine *g)
{
	struct engine_both *b = of(g);
	if (b->bpf)
		b->bpf->close(b->bpf);
	if (b->ptrace)
		b->ptrace->close(b->ptrace);
	free(b->standing);
	free(b->copy);
	free(b);
}

int engine_both_open(const struct engine_wanted *w, const struct pick *pick, struct engine **out,
		     struct err *e)
{
	/* Of the one there are only notices; and threads wait for records of the other. */
	const struct engine_wanted notices = {.nplans = 1, .interesting = w->interesting};
	struct engine_wanted probes = *w;
	probes.may_sum = false;
	struct engine_both *b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(e, -ENOMEM, "no memory");
	b->engine = (struct engine){
	    .name = "bpf",
	    .set_plans = set_plans,
	    .set_proc = set_proc,
	    .attach = attach,
	    .detach = detach,
	    .consume = consume,
	    .count_dispatch = count_dispatch,
	    .counters = counters,
	    .calibrate = calibrate,
	    .count_call = count_call,
	    .set_awaited = set_awaited,
	    .set_away = set_away,
	    .watch = watch,
	    .follow = follow,
	    .close = engine_close,
	};
	/* Fork the tracing process first, so that it inherits nothing of eBPF. */
	int r = engine_ptrace_open(&notices, &b->ptrace, e);
	if (!r)
		engine_ptrace_hold_signalled(b->ptrace);
	r = r ? r : engine_bpf_open(&probes, &b->bpf, e);
	if (!r && (r = engine_bpf_pick(b->bpf, pick)))
		err_set(e, r, "cannot tell eBPF which calls are chosen: %s", strerror(-r));
	if (r) {
		engine_close(&b->engine);
		return r;
	}
	b->engine.tracer = b->ptrace->tracer;
	b->engine.wake = b->ptrace->wake;
	*out = &b->engine;
	return 0;
}
