#include "symbolizer/decode/decoder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/internal.h"
#include "symbolizer/python/pycode.h"

enum { THREAD_BUCKETS = 256, HELD_MAX = 32 << 20 };

struct decoder_thread {
	struct decoder_thread *next;
	uint32_t tid;
	uint16_t proc;
	uint16_t nopen;
	struct hit_fragments parts;
	struct open_op *open[OPEN_MAX];
	struct open_op grads; /* ROLE_GRADS, which is beside the ops; seq 0: not open */
};

struct decoder {
	decoder_event_fn *fn, *start_fn;
	decoder_grads_fn *grads_fn;
	void *arg;
	struct target *targets[PROCS_MAX];
	struct hit_queue held[PROCS_MAX]; /* until the layout of their tensors is known */
	struct decoder_thread *threads[THREAD_BUCKETS];
	uint64_t next_id, dropped;
};

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

int decoder_add_target(struct decoder *d, uint16_t proc, struct target *t)
{
	if (proc >= PROCS_MAX)
		return -E2BIG;
	d->targets[proc] = t;
	return 0;
}

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
	o->ev.end_ns = end_ns;
	o->ev.thrown = thrown;
	if (end_ns && t->nopen)
		t->open[t->nopen - 1]->ev.child_ns += end_ns - o->ev.start_ns;
	d->fn(&o->ev, d->arg);
	arena_reset(&o->arena);
}

/* Ops above `depth` are gone without an exit: an exception passed them, unless records were lost,
 * and then nothing is known of their end. */
static void close_above(struct decoder *d, struct decoder_thread *t, unsigned depth,
			const struct hit *h)
{
	bool lost = h->flags & HIT_GAP;
	while (t->nopen > depth)
		close_op(d, t, lost ? 0 : h->ts, !lost);
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
	    .pid = d->targets[h->proc]->pid,
	    .tid = (int32_t)h->tid,
	    .depth = t->nopen,
	    .phase = h->flags & HIT_BACKWARD ? PHASE_BACKWARD : PHASE_FORWARD,
	};
	if (up && o->ev.phase == PHASE_BACKWARD) {
		o->ev.forward_id = up->ev.forward_id;
		o->ev.where_stack = up->ev.where_stack;
	}
	o->ev.held = h->flags & HIT_STOPPED;
	o->seq = h->seq;
	o->in.n = 0;
	t->nopen++;
	return o;
}

static const struct py_stack *frames_of(struct target *t, const struct item *i, uint64_t when)
{
	return py_stack_intern_at(t->py, (const uint64_t(*)[3])(i + 1), i->len / STACK_FRAME_SIZE,
				  i->aux & STACK_CUT, when);
}

static const struct py_stack *stack_of(struct target *t, const struct decoder_thread *th,
				       const struct items *it, uint64_t when)
{
	const struct item *i = items_stack(it);
	if (!i || !t->py || (i->aux & STACK_NONE))
		return NULL;
	/* The same as the enclosing op's, the innermost open op but this one. */
	if (i->aux & STACK_SAME)
		return th->nopen > 1 ? th->open[th->nopen - 2]->ev.stack : NULL;
	const struct py_stack *known;
	if (i->aux & STACK_KNOWN)
		return memcpy(&known, i + 1, sizeof(known)), known;
	return frames_of(t, i, when);
}

static void on_entry(struct decoder *d, struct target *t, struct decoder_thread *th,
		     const struct hit *h, const struct items *it)
{
	close_above(d, th, h->depth, h);
	struct open_op *o = push_op(d, th, h);
	if (!o) {
		d->dropped++;
		return;
	}
	o->probe = &t->ops->ops[h->op];
	o->ev.op = target_identify(t, o->probe, it, &o->reg);
	o->ev.stack = stack_of(t, th, it, h->ts);
	if (o->ev.phase == PHASE_FORWARD)
		o->ev.where_stack = o->ev.stack;
	if (o->probe->role == ROLE_NODE || o->probe->role == ROLE_PY_NODE ||
	    o->probe->role == ROLE_NAMED_NODE)
		open_op_tie(t, o, it);
	open_op_args(t, o, it);
	if (d->start_fn)
		d->start_fn(&o->ev, d->arg);
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
	open_op_results(t, th->open[i - 1], it);
	close_op(d, th, h->ts, false);
}

static uint64_t edges_of(const struct items *it)
{
	const struct item *i = items_find(it, GRADS_EDGES_READ, NULL);
	uint64_t edges = 0;
	if (i && i->kind == ITEM_DATA && i->len >= sizeof(edges))
		memcpy(&edges, i + 1, sizeof(edges));
	return edges;
}

static void on_grads_entry(struct target *t, struct open_op *o, const struct hit *h,
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
	o->edges = edges_of(it);
}

static void on_grads_exit(struct decoder *d, struct target *t, struct open_op *o,
			  const struct hit *h, const struct items *it)
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

static void on_grads(struct decoder *d, struct target *t, struct decoder_thread *th,
		     const struct hit *h, const struct items *it)
{
	if (h->kind == HIT_ENTRY) {
		close_above(d, th, h->depth, h);
		on_grads_entry(t, &th->grads, h, it);
	} else {
		on_grads_exit(d, t, &th->grads, h, it);
	}
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
	if (h->flags & (HIT_MORE | HIT_CONT)) {
		if (hit_fragments_add(&th->parts, h))
			d->dropped++;
		if (h->flags & HIT_MORE)
			return;
		it = hit_fragments_end(&th->parts);
	}
	if (t->ops->ops[h->op].role == ROLE_GRADS)
		on_grads(d, t, th, h, &it);
	else if (h->kind == HIT_ENTRY)
		on_entry(d, t, th, h, &it);
	else
		on_exit_hit(d, t, th, h, &it);
}

static void decoder_take_hit(struct decoder *d, struct target *t, const struct hit *h)
{
	if (h->kind == HIT_CODE_FREED && t->py)
		py_code_freed(t->py, h->sp);
	else if (h->kind == HIT_ENTRY || h->kind == HIT_EXIT)
		on_op(d, t, h);
}

void decoder_drain(struct decoder *d, uint16_t proc)
{
	if (proc >= PROCS_MAX || !d->targets[proc])
		return;
	struct hit_queue *q = &d->held[proc];
	if (d->targets[proc]->layout_complete)
		target_settle(d->targets[proc]);
	const struct hit *h;
	for (size_t at = 0; (h = hit_queue_next(q, &at));)
		decoder_take_hit(d, d->targets[proc], h);
	q->len = 0;
	if (d->targets[proc]->layout_known)
		hit_queue_free(q);
}

/* In a copy of our own, the frames give way to the stack they stand for. */
static void know_stack(struct target *t, struct item *i, uint64_t when)
{
	const struct py_stack *s = frames_of(t, i, when);
	memcpy(i + 1, &s, sizeof(s));
	i->aux |= STACK_KNOWN;
}

/* The first word of the tensor that an item holds, of its class's vtable; 0: none. */
static uint64_t tensor_vtable(const struct item *i)
{
	uint64_t w = 0;
	/* Behind the address of the TensorImpl comes its beginning, in both kinds. */
	if ((i->kind == ITEM_TENSOR || i->kind == ITEM_SNAPSHOT) && i->len >= 16)
		memcpy(&w, (const uint8_t *)(i + 1) + 8, sizeof(w));
	return w;
}

/* What names ops and classes is looked up while the process is there: it may end before the
 * record's turn comes. */
static void look_up(struct target *t, const struct hit *h, const struct items *it)
{
	const struct registered_op *reg;
	if (h->op >= t->ops->n)
		return;
	const struct op_probe *p = &t->ops->ops[h->op];
	if (h->kind == HIT_ENTRY && !(h->flags & HIT_CONT) && p->role != ROLE_CALL &&
	    p->role != ROLE_NODE)
		target_identify(t, p, it, &reg);
	uint64_t before = 0; /* most are of the same class */
	for (const struct item *i = NULL; (i = items_next(it, i));) {
		uint64_t vtable = tensor_vtable(i);
		if (i->kind == ITEM_OBJECT && i->len >= 8)
			memcpy(&vtable, i + 1, sizeof(vtable));
		if (vtable && vtable != before)
			rtti_of_vtable(t->rtti, vtable);
		before = vtable;
	}
}

void decoder_learn(struct decoder *d, const struct hit *h)
{
	struct target *t = h->proc < PROCS_MAX ? d->targets[h->proc] : NULL;
	if (!t || h->size < sizeof(*h) || hit_is_of_code(h->kind))
		return;
	struct items it = items_of(h);
	if (h->kind == HIT_SCHEMA) {
		target_defined(t, &it);
		return;
	}
	look_up(t, h, &it);
	if (!t->layout_known)
		target_learn(t, &it);
}

void decoder_hit(struct decoder *d, const struct hit *h)
{
	struct target *t = h->proc < PROCS_MAX ? d->targets[h->proc] : NULL;
	if (!t || h->size < sizeof(*h) || h->size % 8) {
		d->dropped++;
		return;
	}
	if (h->kind == HIT_CODE_MET)
		return;
	struct hit_queue *q = &d->held[h->proc];
	if (t->layout_known && q->len)
		decoder_drain(d, h->proc);
	if (t->layout_known || h->kind == HIT_CODE_FREED) {
		decoder_take_hit(d, t, h);
		return;
	}
	struct hit *copy = hit_queue_add(q, h, HELD_MAX);
	if (!copy) {
		decoder_drain(d, h->proc);
		decoder_take_hit(d, t, h);
		return;
	}
	struct items it = items_of(copy);
	const struct item *s = items_stack(&it);
	if (s && s->len && t->py)
		know_stack(t, (struct item *)s, h->ts);
}

void decoder_warm(struct decoder *d, const struct hit *h)
{
	struct target *t = h->proc < PROCS_MAX ? d->targets[h->proc] : NULL;
	if (!t || !t->py || h->kind != HIT_ENTRY)
		return;
	struct items it = items_of(h);
	const struct item *s = items_stack(&it);
	if (s && s->len)
		frames_of(t, s, h->ts);
}

void decoder_foresee(struct decoder *d, const struct hit *h)
{
	enum { REGIONS = 3 + CODE_PIECES };
	struct target *t = h->proc < PROCS_MAX ? d->targets[h->proc] : NULL;
	struct py_region r[REGIONS];
	unsigned n = 0;
	if (!t || !t->py || h->size < sizeof(*h) || !hit_is_of_code(h->kind))
		return;
	struct items it = items_of(h);
	for (const struct item *i = NULL; n < REGIONS && (i = items_next(&it, i));) {
		if (i->kind != ITEM_DATA || i->len <= 8)
			continue;
		memcpy(&r[n].addr, i + 1, 8);
		r[n].data = (const uint8_t *)(i + 1) + 8;
		r[n++].len = i->len - 8u;
	}
	if (n)
		py_code_remember(t->py, h->sp, r, n);
}

void decoder_flush(struct decoder *d, int proc)
{
	for (unsigned b = 0; b < THREAD_BUCKETS; b++)
		for (struct decoder_thread *t = d->threads[b]; t; t = t->next)
			while ((proc < 0 || t->proc == proc) && t->nopen)
				close_op(d, t, 0, false);
}

uint64_t decoder_dropped(const struct decoder *d)
{
	return d->dropped;
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

static void drop_threads(struct decoder *d, uint16_t proc)
{
	for (unsigned b = 0; b < THREAD_BUCKETS; b++)
		for (struct decoder_thread **at = &d->threads[b], *t; (t = *at);) {
			if (t->proc != proc) {
				at = &t->next;
				continue;
			}
			*at = t->next;
			free_thread(t);
		}
}

void decoder_remove_target(struct decoder *d, uint16_t proc)
{
	if (proc >= PROCS_MAX)
		return;
	decoder_flush(d, proc);
	drop_threads(d, proc);
	hit_queue_free(&d->held[proc]);
	d->targets[proc] = NULL;
}

void decoder_free(struct decoder *d)
{
	if (!d)
		return;
	for (unsigned i = 0; i < PROCS_MAX; i++)
		hit_queue_free(&d->held[i]);
	for (unsigned b = 0; b < THREAD_BUCKETS; b++)
		while (d->threads[b]) {
			struct decoder_thread *t = d->threads[b];
			d->threads[b] = t->next;
			free_thread(t);
		}
	free(d);
}
