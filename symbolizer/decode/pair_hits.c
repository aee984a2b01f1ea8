/* Pairs entry hits with exit hits into op events; finds parents and exceptions. */
#include "symbolizer/decode/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/internal.h"
#include "symbolizer/python/python.h"

struct decoder_thread {
	struct decoder_thread *next;
	uint32_t tid;
	uint16_t proc;
	uint16_t nopen;
	struct hit_fragments parts;
	struct open_op *open[OPEN_MAX];
	struct after_node after;
	struct compilation compilation;
	struct open_op grads; /* ROLE_GRADS, kept apart from the nesting of ops; seq 0: not open */
};

static struct decoder_thread *thread_of(struct decoder *d, const struct hit *h)
{
	struct decoder_thread **bucket = &d->threads[h->tid % THREAD_BUCKETS];
	for (struct decoder_thread *t = *bucket; t; t = t->next)
		if (t->tid == h->tid && t->proc == h->proc)
			return t;
	struct decoder_thread *t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->tid = h->tid;
	t->proc = h->proc;
	t->next = *bucket;
	*bucket = t;
	return t;
}

static void close_op(struct decoder *d, struct decoder_thread *t, uint64_t end_ns, bool thrown)
{
	struct open_op *o = t->open[--t->nopen];
	if (t->compilation.running && t->nopen == t->compilation.level)
		t->compilation.running = 0;
	o->ev.end_ns = end_ns;
	o->ev.thrown = thrown;
	if (end_ns && t->nopen)
		t->open[t->nopen - 1]->ev.child_ns += end_ns - o->ev.start_ns;
	d->fn(&o->ev, d->arg);
	arena_reset(&o->arena);
}

/* Ops above `depth` ended without an exit hit: an exception unwound them, or records were lost and
 * their end is unknown. */
static void close_above(struct decoder *d, struct decoder_thread *t, unsigned depth,
			const struct hit *h)
{
	bool lost = h->flags & HIT_GAP;
	while (t->nopen > depth)
		close_op(d, t, lost ? 0 : h->ts, !lost);
}

/* The number of open ops around the hit, of which no engine counts a compilation. */
static unsigned depth_of(const struct decoder_thread *t, const struct hit *h)
{
	return h->depth + (t->compilation.running && h->depth >= t->compilation.level);
}

/* After a gap it may have ended. */
static void close_to(struct decoder *d, struct decoder_thread *t, const struct hit *h)
{
	if (h->flags & HIT_GAP && t->compilation.running)
		close_above(d, t, t->compilation.level, h);
	close_above(d, t, depth_of(t, h), h);
}

static struct open_op *push_op(struct decoder *d, struct decoder_thread *t, const struct hit *h)
{
	if (t->nopen >= OPEN_MAX)
		return NULL;
	struct open_op *o = t->open[t->nopen];
	if (!o)
		o = t->open[t->nopen] = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	const struct open_op *up = t->nopen ? t->open[t->nopen - 1] : NULL;
	o->ev = (struct op_event){
	    .id = d->next_id++,
	    .parent = up ? up->ev.id : 0,
	    .start_ns = h->ts,
	    .pid = d->procs[h->proc].target->pid,
	    .tid = (int32_t)h->tid,
	    .depth = t->nopen,
	    .phase = t->compilation.running    ? PHASE_COMPILE
		     : h->flags & HIT_BACKWARD ? PHASE_BACKWARD
					       : PHASE_FORWARD,
	};
	o->ev.held = h->flags & HIT_STOPPED;
	o->seq = h->seq;
	o->own = 0;
	o->in.n = 0;
	t->nopen++;
	return o;
}

/* Whether there was room for it. */
static bool on_entry(struct decoder *d, struct target *t, struct decoder_thread *th,
		     const struct hit *h, const struct items *it)
{
	close_to(d, th, h);
	const struct open_op *up = th->nopen ? th->open[th->nopen - 1] : NULL;
	struct open_op *o = push_op(d, th, h);
	if (!o) {
		d->dropped++;
		return false;
	}
	o->probe = &t->ops->ops[h->op];
	o->ev.op = target_identify(t, o->probe, it, &o->reg);
	open_op_set_stack(t, o, up, it, h->ts);
	if (o->probe->role == ROLE_KERNEL)
		o->ev.op = target_kernel(t, o->probe, o->ev.stack);
	o->ev.where_stack = o->ev.phase == PHASE_COMPILE
				? th->open[th->compilation.level]->ev.where_stack
				: o->ev.stack;
	if (o->ev.phase == PHASE_FORWARD && open_op_is_of_engine(o))
		o->ev.phase = PHASE_BACKWARD;
	if (o->ev.phase == PHASE_BACKWARD &&
	    !(open_op_is_node(o) &&
	      (open_op_tie(t, o, it) || open_op_accumulates(t, o, it, h->ts))))
		open_op_locate(o, up, h->flags & HIT_BACKWARD ? &th->after : NULL);
	if (o->probe->role == ROLE_REDUCER && !o->ev.where_stack)
		o->ev.where_stack = o->ev.stack;
	open_op_args(t, o, it, h->flags & HIT_LEAN);
	if (d->start_fn)
		d->start_fn(&o->ev, d->arg);
	return true;
}

/* Whether of the function only the entry is an event. */
static bool is_moment(const struct target *t, uint32_t op)
{
	return t->ops->ops[op].role == ROLE_REDUCER && t->ops->plans[op].flags & PLAN_ASIDE;
}

static void on_moment(struct decoder *d, struct target *t, struct decoder_thread *th,
		      const struct hit *h, const struct items *it)
{
	if (h->kind == HIT_ENTRY && on_entry(d, t, th, h, it))
		close_op(d, th, h->ts, false);
}

static const struct op_desc *described(const struct target *t, enum compilation_kind kind)
{
	uint8_t role = kind == COMPILATION_FORWARD ? ROLE_COUNTER_START : ROLE_COUNTER_STOP;
	uint32_t i = 0;
	while (i < t->ops->n && t->ops->ops[i].role != role)
		i++;
	return i < t->ops->n ? &t->ops->ops[i].desc : NULL;
}

/* A compilation becomes an op around those that run in it. */
static void on_start(struct decoder *d, struct target *t, struct decoder_thread *th,
		     const struct hit *h, const struct items *it)
{
	close_to(d, th, h);
	const unsigned level = th->nopen;
	const struct open_op *up = level ? th->open[level - 1] : NULL;
	enum compilation_kind kind = compilation_starts(&th->compilation, it);
	const struct op_desc *desc = kind ? described(t, kind) : NULL;
	struct open_op *o = desc ? push_op(d, th, h) : NULL;
	if (!o) {
		th->compilation.running = kind ? 0 : th->compilation.running;
		return;
	}
	th->compilation.level = (uint16_t)level;
	o->probe = &t->ops->ops[h->op];
	o->reg = NULL;
	o->ev.op = desc;
	open_op_set_stack(t, o, up, it, h->ts);
	/* That of a backward runs in its node, and has no line of the user's. */
	o->ev.where_stack =
	    up && phase_is_backward(up->ev.phase) ? up->ev.where_stack : o->ev.stack;
	if (d->start_fn)
		d->start_fn(&o->ev, d->arg);
}

static void on_stop(struct decoder *d, struct decoder_thread *th, const struct hit *h,
		    const struct items *it)
{
	if (!compilation_stops(&th->compilation, it))
		return;
	close_above(d, th, th->compilation.level + 1U, h);
	close_op(d, th, h->ts, false);
}

/* Of the hits of start and stop the entries count. */
static bool on_counter(struct decoder *d, struct target *t, struct decoder_thread *th,
		       const struct hit *h, const struct items *it)
{
	switch (t->ops->ops[h->op].role) {
	case ROLE_COUNTER:
		compilation_counter(&th->compilation, h, it);
		return true;
	case ROLE_COUNTER_START:
		if (h->kind == HIT_ENTRY)
			on_start(d, t, th, h, it);
		return true;
	case ROLE_COUNTER_STOP:
		if (h->kind == HIT_ENTRY)
			on_stop(d, th, h, it);
		return true;
	default:
		return false;
	}
}

/* The first item of that kind, if it has so many bytes; NULL: none. */
static const void *counts_of(const struct items *it, uint8_t kind, size_t size)
{
	const struct item *i = NULL;
	while ((i = items_next(it, i)))
		if (i->kind == kind && i->len >= size)
			return i + 1;
	return NULL;
}

/* Time in ops called by this one that were summed up. */
static uint64_t inner_ns(const struct items *it)
{
	uint64_t ns = 0;
	if (it->index && !it->index->inner)
		return 0;
	const void *at = counts_of(it, ITEM_INNER, sizeof(ns));
	if (at)
		memcpy(&ns, at, sizeof(ns));
	return ns;
}

static void on_exit_hit(struct decoder *d, struct target *t, struct decoder_thread *th,
			const struct hit *h, const struct items *it)
{
	unsigned i = th->nopen;
	while (i > 0 && th->open[i - 1]->seq != h->seq)
		i--;
	if (i == 0) {
		d->dropped++;
		return;
	}
	close_above(d, th, i, h);
	th->open[i - 1]->ev.held = h->flags & HIT_STOPPED;
	th->open[i - 1]->ev.child_ns += inner_ns(it);
	open_op_results(t, th->open[i - 1], it, h->flags & HIT_LEAN);
	if (open_op_is_node(th->open[i - 1]))
		after_node_ended(&th->after, &th->open[i - 1]->ev);
	close_op(d, th, h->ts, false);
}

/* What was summed up may have been its end. */
static void forget_compilation(struct decoder *d, const struct hit *h)
{
	struct decoder_thread *th = thread_of(d, h);
	while (th && th->compilation.running)
		close_op(d, th, 0, false);
}

static void on_sum(struct decoder *d, struct target *t, const struct hit *h)
{
	struct items it = items_of(h);
	struct open_op o = {.probe = h->op < t->ops->n ? &t->ops->ops[h->op] : NULL};
	struct sum_counts c;
	const void *at = counts_of(&it, ITEM_SUM, sizeof(c));
	if (at)
		memcpy(&c, at, sizeof(c));
	if (!o.probe || !at || !c.calls || !d->sum_fn) {
		d->dropped++;
		return;
	}
	if (o.probe->role == ROLE_DONE || o.probe->role == ROLE_WRITTEN ||
	    o.probe->role == ROLE_SLICES ||
	    is_moment(t, h->op)) /* of which it was the end, or a part, is not known */
		return;
	if (role_is_counter(o.probe->role)) {
		forget_compilation(d, h);
		return;
	}
	decoder_give_sum(d, t, h, &o, &c);
}

static void on_grads(struct decoder *d, struct target *t, struct decoder_thread *th,
		     const struct hit *h, const struct items *it)
{
	if (h->kind == HIT_ENTRY) {
		close_to(d, th, h);
		pair_grads_entered(t, &th->grads, h, it);
	} else {
		pair_grads_left(d, t, &th->grads, h, it);
	}
}

static void on_slices(struct decoder *d, struct target *t, struct decoder_thread *th,
		      const struct hit *h, const struct items *it)
{
	if (h->kind == HIT_ENTRY)
		close_to(d, th, h);
	else if (th->nopen)
		open_op_makes_slices(t, th->open[th->nopen - 1], it);
}

static void on_op(struct decoder *d, struct target *t, const struct hit *h)
{
	t->reading = h->generation;
	struct decoder_thread *th = thread_of(d, h);
	if (!th || h->op >= t->ops->n) {
		d->dropped++;
		return;
	}
	struct items it = items_of(h);
	struct items_index index;
	if (h->flags & (HIT_MORE | HIT_CONT)) {
		if (hit_fragments_add(&th->parts, h))
			d->dropped++;
		if (h->flags & HIT_MORE)
			return;
		it = hit_fragments_end(&th->parts);
	}
	items_make_index(&it, &index);
	if (h->kind == HIT_ENTRY)
		after_node_entry(&th->after, h->seq);
	if (t->ops->ops[h->op].role == ROLE_GRADS)
		on_grads(d, t, th, h, &it);
	else if (t->ops->ops[h->op].role == ROLE_DONE)
		pair_work_done(d, t, h, &it);
	else if (t->ops->ops[h->op].role == ROLE_WRITTEN)
		pair_work_written(d, t, h, &it);
	else if (t->ops->ops[h->op].role == ROLE_SLICES)
		on_slices(d, t, th, h, &it);
	else if (is_moment(t, h->op))
		on_moment(d, t, th, h, &it);
	else if (on_counter(d, t, th, h, &it))
		return;
	else if (h->kind == HIT_ENTRY)
		on_entry(d, t, th, h, &it);
	else
		on_exit_hit(d, t, th, h, &it);
}

void decoder_pair(struct decoder *d, struct target *t, const struct hit *h)
{
	if (h->kind == HIT_CODE_FREED && t->py)
		py_code_freed(t->py, h->sp);
	else if (h->kind == HIT_SUM)
		on_sum(d, t, h);
	else if (h->kind == HIT_ENTRY || h->kind == HIT_EXIT)
		on_op(d, t, h);
}

uint64_t decoder_open_since(const struct decoder *d, int32_t pid, int32_t tid)
{
	uint64_t since = UINT64_MAX;
	for (const struct decoder_thread *t = d->threads[(uint32_t)tid % THREAD_BUCKETS]; t;
	     t = t->next) {
		const struct target *of = d->procs[t->proc].target;
		if (t->tid == (uint32_t)tid && t->nopen && of && of->pid == pid &&
		    t->open[0]->ev.start_ns < since)
			since = t->open[0]->ev.start_ns;
	}
	return since;
}

void decoder_end_ops(struct decoder *d, int proc)
{
	for (unsigned b = 0; b < THREAD_BUCKETS; b++)
		for (struct decoder_thread *t = d->threads[b]; t; t = t->next)
			while ((proc < 0 || t->proc == proc) && t->nopen)
				close_op(d, t, 0, false);
}

static void free_thread(struct decoder_thread *t)
{
	for (unsigned i = 0; i < OPEN_MAX && t->open[i]; i++) {
		arena_free(&t->open[i]->arena);
		free(t->open[i]);
	}
	arena_free(&t->grads.arena);
	hit_fragments_free(&t->parts);
	free(t);
}

void decoder_drop_threads(struct decoder *d, int proc)
{
	for (unsigned b = 0; b < THREAD_BUCKETS; b++)
		for (struct decoder_thread **at = &d->threads[b], *t; (t = *at);) {
			if (proc >= 0 && t->proc != proc) {
				at = &t->next;
				continue;
			}
			*at = t->next;
			free_thread(t);
		}
}
