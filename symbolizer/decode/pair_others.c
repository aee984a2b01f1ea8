/* Probes that are no op: gradients as a node returns them and as they flow on, and collectives that
 * are done. */
#include "symbolizer/decode/internal.h"

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
