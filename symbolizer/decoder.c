#include "symbolizer/decoder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "symbolizer/decode_value.h"
#include "symbolizer/pycode.h"
#include "symbolizer/pyfreed.h"

enum { MAX_PROCS = 256, THREAD_BUCKETS = 256, MORE_MAX = 4 << 20, HELD_MAX = 32 << 20 };

/* An op between its entry and its exit. */
struct open_op {
	struct op_event ev;
	const struct op_probe *probe;
	const struct registered_op *reg; /* boxed ops: their types; NULL: not known */
	uint64_t seq;			 /* hit.seq */
	struct arena arena;		 /* values; kept from op to op */
	struct node_refs in;		 /* nodes of the arguments */
	uint64_t edges;			 /* ROLE_GRADS: address of the node's edges */
};

/* Bytes of a hit that came in several records. */
struct parts {
	struct hit head;
	uint8_t *data;
	size_t len, room;
	bool lost; /* one of them is missing */
};

struct thread {
	struct thread *next;
	uint32_t tid;
	uint16_t proc;
	uint16_t nopen;
	struct parts parts;
	struct open_op *open[OPEN_MAX];
	struct open_op grads; /* ROLE_GRADS, which is beside the ops; seq 0: not open */
};

/* Hits held back until the layout of the process's tensors is known. */
struct held {
	uint8_t *data;
	size_t len, room;
};

struct decoder {
	decoder_event_fn *fn, *start_fn;
	decoder_grads_fn *grads_fn;
	void *arg;
	struct target *targets[MAX_PROCS];
	struct held held[MAX_PROCS];
	struct thread *threads[THREAD_BUCKETS];
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
	if (proc >= MAX_PROCS)
		return -E2BIG;
	d->targets[proc] = t;
	return 0;
}

static struct thread *thread_of(struct decoder *d, const struct hit *h)
{
	struct thread **bucket = &d->threads[h->tid % THREAD_BUCKETS];
	for (struct thread *t = *bucket; t; t = t->next)
		if (t->tid == h->tid && t->proc == h->proc)
			return t;
	struct thread *t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->tid = h->tid;
	t->proc = h->proc;
	t->next = *bucket;
	*bucket = t;
	return t;
}

static const char no_schema[] = "the operator was gone before its schema was read";

static struct decode decode_for(struct target *t, struct open_op *o, struct node_refs *nodes)
{
	return (struct decode){
	    .target = t,
	    .arena = &o->arena,
	    .nodes = nodes,
	};
}

static void remember_nodes(struct target *t, const struct open_op *o, const struct node_refs *made)
{
	for (uint32_t i = 0; i < made->n; i++) {
		bool was_there = false;
		for (uint32_t k = 0; k < o->in.n && !was_there; k++)
			was_there = o->in.node[k].addr == made->node[i].addr;
		/* A result that has an argument's node was handed through, not made here. */
		if (was_there || !made->node[i].has_seq)
			continue;
		struct node_owner owner = {
		    .addr = made->node[i].addr,
		    .seq = made->node[i].seq,
		    .event = o->ev.id,
		    .tid = (uint32_t)o->ev.tid,
		    .stack = o->ev.stack,
		};
		node_map_add(&t->nodes, &owner);
	}
}

/* Its node's address is not known: one that no node has stands for it. */
static void remember_named(struct target *t, const struct open_op *o, const struct items *exit)
{
	const struct item *i = items_find(exit, NAMED_MADE_READ, NULL);
	uint64_t w[2];
	if (!i || i->kind != ITEM_DATA || i->len < sizeof(w))
		return;
	memcpy(w, i + 1, sizeof(w));
	struct node_owner owner = {
	    .addr = 1ULL << 63 | w[1],
	    .seq = w[1],
	    .event = o->ev.id,
	    .tid = (uint32_t)o->ev.tid,
	    .stack = o->ev.stack,
	};
	if (w[0])
		node_map_add(&t->nodes, &owner);
}

static void decode_results(struct target *t, struct open_op *o, const struct items *exit)
{
	const struct op_probe *p = o->probe;
	struct node_refs made = {0};
	struct decode d = decode_for(t, o, &made);
	uint16_t n = o->ev.op->nresults;
	struct value *v = n ? arena_alloc(&o->arena, n * sizeof(*v)) : NULL;
	if (v && o->reg && o->reg->name_only) {
		*v = value_not_decoded(no_schema);
	} else if (p->role == ROLE_BOXED) {
		if (v)
			decode_boxed(&d, exit, p->abi.results[0].read,
				     o->reg ? o->reg->returns : NULL, n, v);
	} else if (p->values_known) {
		for (uint16_t i = 0; v && i < n; i++)
			v[i] = decode_value(&d, &p->abi.results[i], exit);
	}
	o->ev.results = v;
	o->ev.nresults = v && (p->values_known || p->role == ROLE_BOXED) ? n : 0;
	if (p->role == ROLE_FUNCTION)
		decode_nodes(&d, exit, FUNCTION_READ);
	if (p->role == ROLE_NAMED)
		remember_named(t, o, exit);
	/* In a backward that is to be differentiated itself, ops make nodes, too. */
	if (o->ev.op->kind != OP_BACKWARD)
		remember_nodes(t, o, &made);
}

static void close_op(struct decoder *d, struct thread *t, uint64_t end_ns, bool thrown)
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
static void close_above(struct decoder *d, struct thread *t, unsigned depth, const struct hit *h)
{
	bool lost = h->flags & HIT_GAP;
	while (t->nopen > depth)
		close_op(d, t, lost ? 0 : h->ts, !lost);
}

static struct open_op *push_op(struct decoder *d, struct thread *t, const struct hit *h)
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
	o->ev.held = h->flags & HIT_HELD;
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

static const struct py_stack *stack_of(struct target *t, const struct thread *th,
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

static void tie_backward(struct target *t, struct open_op *o, const struct items *it)
{
	const struct item *i = items_find(it, NODE_READ, NULL);
	if (!i || i->kind != ITEM_DATA || i->len < 16)
		return;
	uint64_t w[2];
	memcpy(w, i + 1, sizeof(w));
	o->ev.node = w[0];
	o->ev.node_seq = w[1];
	const struct node_owner *owner =
	    w[0] ? node_map_find(&t->nodes, w[0], w[1]) : node_map_find_seq(&t->nodes, w[1]);
	if (!owner)
		return;
	o->ev.forward_id = owner->event;
	o->ev.where_stack = owner->stack;
}

static void decode_args(struct target *t, struct open_op *o, const struct items *it)
{
	const struct op_probe *p = o->probe;
	struct decode d = decode_for(t, o, &o->in);
	uint16_t n = o->ev.op->nargs;
	struct value *v = arena_alloc(&o->arena, n * sizeof(*v) + 1);
	if (!v)
		return;
	if (o->reg && o->reg->name_only)
		*v = value_not_decoded(no_schema);
	else if (p->role == ROLE_BOXED)
		decode_boxed(&d, it, p->abi.args[0].read, o->reg ? o->reg->args : NULL, n, v);
	else
		for (uint16_t i = 0; i < n; i++)
			v[i] = p->values_known ? decode_value(&d, &p->abi.args[i], it)
					       : value_not_decoded(p->why);
	o->ev.args = v;
	o->ev.nargs = n;
}

static void on_entry(struct decoder *d, struct target *t, struct thread *th, const struct hit *h,
		     const struct items *it)
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
		tie_backward(t, o, it);
	decode_args(t, o, it);
	if (d->start_fn)
		d->start_fn(&o->ev, d->arg);
}

static void on_exit_hit(struct decoder *d, struct target *t, struct thread *th, const struct hit *h,
			const struct items *it)
{
	unsigned i = th->nopen;
	while (i > 0 && th->open[i - 1]->seq != h->seq)
		i--;
	if (i == 0) {
		d->dropped++;
		return;
	}
	close_above(d, th, i, h);
	th->open[i - 1]->ev.held = h->flags & HIT_HELD;
	decode_results(t, th->open[i - 1], it);
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
	struct decode in = decode_for(t, o, NULL);
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
	struct decode in = decode_for(t, o, NULL);
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

static void on_grads(struct decoder *d, struct target *t, struct thread *th, const struct hit *h,
		     const struct items *it)
{
	if (h->kind == HIT_ENTRY) {
		close_above(d, th, h->depth, h);
		on_grads_entry(t, &th->grads, h, it);
	} else {
		on_grads_exit(d, t, &th->grads, h, it);
	}
}

static int add_part(struct parts *p, const struct hit *h)
{
	size_t n = h->size - sizeof(*h);
	if (!(h->flags & HIT_CONT)) {
		p->head = *h;
		p->len = 0;
		p->lost = false;
	} else if (h->flags & HIT_GAP || p->head.seq != h->seq || p->head.kind != h->kind) {
		p->lost = true;
	}
	if (p->lost || !n)
		return 0;
	p->lost = true;
	if (p->len + n > MORE_MAX)
		return -E2BIG;
	if (p->len + n > p->room) {
		size_t room = 2 * (p->len + n);
		uint8_t *data = realloc(p->data, room);
		if (!data)
			return -ENOMEM;
		p->data = data;
		p->room = room;
	}
	memcpy(p->data + p->len, h + 1, n);
	p->len += n;
	p->lost = false;
	return 0;
}

static void on_op(struct decoder *d, struct target *t, const struct hit *h)
{
	t->reading = h->generation;
	struct thread *th = thread_of(d, h);
	if (!th || h->op >= t->ops->n) {
		d->dropped++;
		return;
	}
	struct items it = {(const uint8_t *)(h + 1), h->size - (uint32_t)sizeof(*h)};
	if (h->flags & (HIT_MORE | HIT_CONT)) {
		if (add_part(&th->parts, h))
			d->dropped++;
		if (h->flags & HIT_MORE)
			return;
		if (th->parts.lost || !th->parts.len)
			it.len = 0;
		else
			it = (struct items){th->parts.data, (uint32_t)th->parts.len};
		th->parts.head.kind = 0;
	}
	if (t->ops->ops[h->op].role == ROLE_GRADS)
		on_grads(d, t, th, h, &it);
	else if (h->kind == HIT_ENTRY)
		on_entry(d, t, th, h, &it);
	else
		on_exit_hit(d, t, th, h, &it);
}

static void take(struct decoder *d, struct target *t, const struct hit *h)
{
	if (h->kind == HIT_CODE_FREED && t->py)
		py_code_freed(t->py, h->sp);
	else if (h->kind == HIT_ENTRY || h->kind == HIT_EXIT)
		on_op(d, t, h);
}

void decoder_drain(struct decoder *d, uint16_t proc)
{
	if (proc >= MAX_PROCS || !d->targets[proc])
		return;
	struct held *q = &d->held[proc];
	if (d->targets[proc]->layout_complete)
		target_settle(d->targets[proc]);
	for (size_t at = 0; at < q->len;) {
		const struct hit *h = (const struct hit *)(q->data + at);
		take(d, d->targets[proc], h);
		at += (h->size + 7u) & ~(size_t)7;
	}
	q->len = 0;
	if (d->targets[proc]->layout_known) {
		free(q->data);
		*q = (struct held){0};
	}
}

static size_t padded(const struct hit *h)
{
	return (h->size + 7u) & ~(size_t)7;
}

/* In a copy of our own, the frames give way to the stack they stand for. */
static void know_stack(struct target *t, struct item *i, uint64_t when)
{
	const struct py_stack *s = frames_of(t, i, when);
	memcpy(i + 1, &s, sizeof(s));
	i->aux |= STACK_KNOWN;
}

static bool hold(struct held *q, const struct hit *h)
{
	size_t need = padded(h);
	if (q->len + need > q->room) {
		size_t room = 2 * (q->len + need);
		uint8_t *data = room <= 2 * HELD_MAX ? realloc(q->data, room) : NULL;
		if (!data)
			return false;
		q->data = data;
		q->room = room;
	}
	memcpy(q->data + q->len, h, h->size);
	q->len += need;
	return true;
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
	for (const struct item *i = NULL; (i = items_next(it, i));) {
		uint64_t vtable = tensor_vtable(i);
		if (i->kind == ITEM_OBJECT && i->len >= 8)
			memcpy(&vtable, i + 1, sizeof(vtable));
		if (vtable)
			rtti_of_vtable(t->rtti, vtable);
	}
}

void decoder_learn(struct decoder *d, const struct hit *h)
{
	struct target *t = h->proc < MAX_PROCS ? d->targets[h->proc] : NULL;
	if (!t || h->size < sizeof(*h) || h->kind == HIT_CODE_FREED)
		return;
	struct items it = {(const uint8_t *)(h + 1), h->size - (uint32_t)sizeof(*h)};
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
	struct target *t = h->proc < MAX_PROCS ? d->targets[h->proc] : NULL;
	if (!t || h->size < sizeof(*h) || h->size % 8) {
		d->dropped++;
		return;
	}
	struct held *q = &d->held[h->proc];
	if (t->layout_known && q->len)
		decoder_drain(d, h->proc);
	if (t->layout_known || h->kind == HIT_CODE_FREED) {
		take(d, t, h);
		return;
	}
	if (!hold(q, h)) {
		decoder_drain(d, h->proc);
		take(d, t, h);
		return;
	}
	struct hit *copy = (struct hit *)(q->data + q->len - padded(h));
	struct items it = {(const uint8_t *)(copy + 1), copy->size - (uint32_t)sizeof(*copy)};
	const struct item *s = items_stack(&it);
	if (s && s->len && t->py)
		know_stack(t, (struct item *)s, h->ts);
}

void decoder_warm(struct decoder *d, const struct hit *h)
{
	struct target *t = h->proc < MAX_PROCS ? d->targets[h->proc] : NULL;
	if (!t || !t->py || h->kind != HIT_ENTRY)
		return;
	struct items it = {(const uint8_t *)(h + 1), h->size - (uint32_t)sizeof(*h)};
	const struct item *s = items_stack(&it);
	if (s && s->len)
		frames_of(t, s, h->ts);
}

void decoder_foresee(struct decoder *d, const struct hit *h)
{
	enum { REGIONS = 4 };
	struct target *t = h->proc < MAX_PROCS ? d->targets[h->proc] : NULL;
	struct py_region r[REGIONS];
	unsigned n = 0;
	if (!t || !t->py || h->kind != HIT_CODE_FREED || h->size < sizeof(*h))
		return;
	struct items it = {(const uint8_t *)(h + 1), h->size - (uint32_t)sizeof(*h)};
	for (const struct item *i = NULL; n < REGIONS && (i = items_next(&it, i));) {
		if (i->kind != ITEM_DATA || i->len <= 8)
			continue;
		memcpy(&r[n].addr, i + 1, 8);
		r[n].data = (const uint8_t *)(i + 1) + 8;
		r[n++].len = i->len - 8u;
	}
	py_code_remember(t->py, h->sp, r, n);
}

void decoder_flush(struct decoder *d, int proc)
{
	for (unsigned b = 0; b < THREAD_BUCKETS; b++)
		for (struct thread *t = d->threads[b]; t; t = t->next)
			while ((proc < 0 || t->proc == proc) && t->nopen)
				close_op(d, t, 0, false);
}

uint64_t decoder_dropped(const struct decoder *d)
{
	return d->dropped;
}

static void free_thread(struct thread *t)
{
	for (unsigned i = 0; i < OPEN_MAX && t->open[i]; i++) {
		arena_free(&t->open[i]->arena);
		free(t->open[i]);
	}
	arena_free(&t->grads.arena);
	free(t->parts.data);
	free(t);
}

static void drop_threads(struct decoder *d, uint16_t proc)
{
	for (unsigned b = 0; b < THREAD_BUCKETS; b++)
		for (struct thread **at = &d->threads[b], *t; (t = *at);) {
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
	if (proc >= MAX_PROCS)
		return;
	decoder_flush(d, proc);
	drop_threads(d, proc);
	free(d->held[proc].data);
	d->held[proc] = (struct held){0};
	d->targets[proc] = NULL;
}

void decoder_free(struct decoder *d)
{
	if (!d)
		return;
	for (unsigned i = 0; i < MAX_PROCS; i++)
		free(d->held[i].data);
	for (unsigned b = 0; b < THREAD_BUCKETS; b++)
		while (d->threads[b]) {
			struct thread *t = d->threads[b];
			d->threads[b] = t->next;
			free_thread(t);
		}
	free(d);
}
