#include "symbolizer/decode/decoder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/internal.h"
#include "symbolizer/python/python.h"

struct decoder *decoder_new(decoder_event_fn *fn, void *arg)
{
	struct decoder *d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->fn = fn;
	d->arg = arg;
	d->next_id = 1;
	return d;
}

void decoder_on_start(struct decoder *d, decoder_event_fn *fn)
{
	d->start_fn = fn;
}

void decoder_on_grads(struct decoder *d, decoder_grads_fn *fn)
{
	d->grads_fn = fn;
}

void decoder_on_done(struct decoder *d, decoder_done_fn *fn)
{
	d->done_fn = fn;
}

void decoder_on_written(struct decoder *d, decoder_done_fn *fn)
{
	d->written_fn = fn;
}

void decoder_on_sum(struct decoder *d, decoder_sum_fn *fn)
{
	d->sum_fn = fn;
}

int decoder_add_target(struct decoder *d, uint16_t proc, struct target *t)
{
	if (proc >= PROCS_MAX)
		return -E2BIG;
	d->procs[proc].target = t;
	return 0;
}

/* The first word of the TensorImpl in an item, which identifies its class; 0 if there is none. */
static uint64_t tensor_vtable(const struct item *i)
{
	uint64_t w = 0;
	/* In both kinds, the first bytes of the TensorImpl follow its address. */
	if ((i->kind == ITEM_TENSOR || i->kind == ITEM_SNAPSHOT) && i->len >= 16)
		memcpy(&w, (const uint8_t *)(i + 1) + 8, sizeof(w));
	return w;
}

/* Look up the names of ops and classes now: the process may end before the record is decoded.
 * Whether there is a native stack among the items. */
static bool look_up(struct target *t, const struct hit *h, const struct items *it)
{
	const struct registered_op *reg;
	bool is_native = false;
	if (h->op >= t->ops->n)
		return true;
	const struct op_probe *p = &t->ops->ops[h->op];
	bool names = h->kind == HIT_SUM || (h->kind == HIT_ENTRY && !(h->flags & HIT_CONT));
	if (names && p->role != ROLE_CALL && p->role != ROLE_NODE)
		target_identify(t, p, it, &reg);
	uint64_t before = 0; /* most tensors are of the same class */
	for (const struct item *i = NULL; (i = items_next(it, i));) {
		uint64_t vtable = tensor_vtable(i);
		is_native |= i->kind == ITEM_NATIVE;
		if (i->kind == ITEM_OBJECT && i->len >= 8)
			memcpy(&vtable, i + 1, sizeof(vtable));
		if (vtable && vtable != before)
			rtti_of_vtable(t->rtti, vtable);
		before = vtable;
	}
	return is_native;
}

/* Rows for the next walks, and names while the process is there. What has rows has names. */
static void learn_native(struct target *t, const struct hit *h, const struct items *it)
{
	struct native_raw raw;
	uint32_t own;
	if ((h->kind != HIT_ENTRY && h->kind != HIT_SUM) || !items_native(it, &raw) ||
	    !raw.missed || !target_callers(t))
		return;
	native_callers_learn(t->callers, &raw);
	native_callers_stack(t->callers, &raw, &own);
}

/* Learn from a record on arrival: the sooner the layout of tensors is known, the fewer records are
 * held back. */
static void learn_hit(struct target *t, const struct hit *h)
{
	if (hit_is_of_code(h->kind))
		return;
	struct items it = items_of(h);
	if (h->kind == HIT_SCHEMA) {
		target_defined(t, &it);
		return;
	}
	if (look_up(t, h, &it))
		learn_native(t, h, &it);
	if (!t->layout_known)
		target_learn(t, &it);
}

/* Validate the record and learn from it what cannot wait for its decoding. */
static bool accept_hit(struct decoder *d, const struct hit *h)
{
	struct target *t = h->proc < PROCS_MAX ? d->procs[h->proc].target : NULL;
	if (!t || h->size < sizeof(*h) || h->size % 8) {
		d->dropped++;
		return false;
	}
	learn_hit(t, h);
	return true;
}

void decoder_feed(struct decoder *d, const struct hit *h)
{
	if (accept_hit(d, h))
		reorder_buffer_add(&d->reorder_buffer, d, h);
}

void decoder_feed_now(struct decoder *d, const struct hit *h)
{
	if (!accept_hit(d, h))
		return;
	reorder_buffer_flush(&d->reorder_buffer, d);
	decoder_drain(d, &d->procs[h->proc]);
	decoder_pair(d, d->procs[h->proc].target, h);
}

/* Probes that are no op: gradients as a node returns them and as they flow on, and collectives that
 * are done. */

void pair_grads_entered(struct target *t, struct open_op *o, const struct hit *h,
			const struct items *it)
{
	struct decode in = open_op_decode(t, o, NULL);
	arena_reset(&o->arena);
	o->probe = &t->ops->ops[h->op];
	o->seq = h->seq;
	struct value *returned = arena_alloc(&o->arena, sizeof(*returned));
	if (returned)
		*returned = decode_value(&in, &o->probe->abi.args[0], it);
	o->ev.args = returned;
	o->edges = 0;
	items_data(it, GRADS_EDGES_READ, &o->edges, sizeof(o->edges));
}

void pair_grads_left(struct decoder *d, struct target *t, struct open_op *o, const struct hit *h,
		     const struct items *it)
{
	struct decode in = open_op_decode(t, o, NULL);
	if (o->seq != h->seq || !o->ev.args || !d->grads_fn)
		return;
	const struct decoder_grads g = {
	    .pid = t->pid,
	    .tid = (int32_t)h->tid,
	    .returned = o->ev.args[0],
	    .flowing = decode_value(&in, &o->probe->abi.results[0], it),
	    .edges = o->edges,
	};
	o->seq = 0;
	d->grads_fn(&g, d->arg);
}

void pair_work_done(struct decoder *d, struct target *t, const struct hit *h,
		    const struct items *it)
{
	struct work_done w = {.pid = t->pid, .ns = h->ts};
	uint64_t exception;
	if (h->kind == HIT_ENTRY && d->done_fn &&
	    items_data(it, DONE_WORK_READ, &w.address, sizeof(w.address)) &&
	    items_data(it, DONE_EXCEPTION_READ, &exception, sizeof(exception)) && !exception)
		d->done_fn(&w, d->arg);
}

void pair_work_written(struct decoder *d, struct target *t, const struct hit *h,
		       const struct items *it)
{
	struct work_done w = {.pid = t->pid, .ns = h->ts};
	if (h->kind == HIT_ENTRY && d->written_fn &&
	    items_data(it, DONE_WORK_READ, &w.address, sizeof(w.address)))
		d->written_fn(&w, d->arg);
}

void decoder_tick(struct decoder *d, uint64_t now_ns)
{
	if (reorder_buffer_turn(&d->reorder_buffer, d, now_ns))
		decoder_drain_held(d, now_ns);
}

bool decoder_end_target(struct decoder *d, uint16_t proc)
{
	struct decoder_proc *p = &d->procs[proc];
	if (!p->last_turn)
		p->last_turn = d->reorder_buffer.turns + 2;
	return d->reorder_buffer.turns >= p->last_turn;
}

void decoder_remove_target(struct decoder *d, uint16_t proc)
{
	if (proc >= PROCS_MAX)
		return;
	decoder_settle(d, &d->procs[proc]);
	decoder_end_ops(d, proc);
	decoder_drop_threads(d, proc);
	d->procs[proc] = (struct decoder_proc){0};
}

void decoder_finish(struct decoder *d)
{
	reorder_buffer_flush(&d->reorder_buffer, d);
	for (unsigned i = 0; i < PROCS_MAX; i++)
		decoder_settle(d, &d->procs[i]);
	decoder_end_ops(d, -1);
}

uint64_t decoder_dropped(const struct decoder *d)
{
	return d->dropped;
}

void decoder_free(struct decoder *d)
{
	if (!d)
		return;
	for (unsigned i = 0; i < PROCS_MAX; i++)
		hit_queue_free(&d->procs[i].held);
	decoder_drop_threads(d, -1);
	reorder_buffer_free(&d->reorder_buffer);
	free(d);
}

/* The process can write anything there, and may have ended in the middle of it. */
static void settle_counts(struct sum_counts *c)
{
	c->thrown = c->thrown < c->calls ? c->thrown : c->calls;
	c->inner_ns = c->inner_ns < c->ns ? c->inner_ns : c->ns;
	c->last_ns = c->last_ns > c->first_ns ? c->last_ns : c->first_ns;
	c->max_ns = c->max_ns > c->min_ns ? c->max_ns : c->min_ns;
}

/* Of a node that was summed up nobody knows the forward op. */
void decoder_give_sum(struct decoder *d, struct target *t, const struct hit *h, struct open_op *o,
		      struct sum_counts *c)
{
	struct items it = items_of(h);
	settle_counts(c);
	o->ev.op = target_identify(t, o->probe, &it, &o->reg);
	o->ev.phase = h->flags & HIT_BACKWARD ? PHASE_BACKWARD : PHASE_FORWARD;
	o->ev.pid = t->pid;
	o->ev.tid = (int32_t)h->tid;
	o->ev.start_ns = c->first_ns;
	o->ev.end_ns = c->last_ns;
	open_op_set_stack(t, o, NULL, &it, h->ts);
	if (o->probe->role == ROLE_KERNEL)
		o->ev.op = target_kernel(t, o->probe, o->ev.stack);
	o->ev.where_stack = o->ev.stack;
	if (o->ev.phase == PHASE_FORWARD && open_op_is_of_engine(o))
		o->ev.phase = PHASE_BACKWARD;
	if (o->ev.phase == PHASE_BACKWARD)
		open_op_locate(o, NULL, NULL);
	const struct op_sum s = {
	    .of = o->ev,
	    .calls = c->calls,
	    .thrown = c->thrown,
	    .total_ns = c->ns,
	    .child_ns = c->inner_ns,
	    .min_ns = c->min_ns,
	    .max_ns = c->max_ns,
	    .nested = h->flags & HIT_NESTED,
	    .again = h->flags & HIT_AGAIN,
	};
	d->sum_fn(&s, d->arg);
}
