/* Holds back the records of a process until the layout of its tensors is known. */
#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/internal.h"
#include "symbolizer/python/pycode.h"

enum { HELD_MAX = 32 << 20 };

static int make_room(struct hit_queue *q, size_t need, size_t most)
{
	if (need <= q->room)
		return 0;
	size_t room = need < most / 2 ? 2 * need : most;
	uint8_t *data = need <= most ? realloc(q->data, room) : NULL;
	if (!data)
		return -1;
	q->data = data;
	q->room = room;
	return 0;
}

struct hit *hit_queue_add(struct hit_queue *q, const struct hit *h, size_t most)
{
	if (make_room(q, q->len + h->size, most))
		return NULL;
	struct hit *copy = memcpy(q->data + q->len, h, h->size);
	q->len += h->size;
	return copy;
}

const struct hit *hit_queue_next(const struct hit_queue *q, size_t *at)
{
	if (*at >= q->len)
		return NULL;
	const struct hit *h = (const struct hit *)(q->data + *at);
	*at += h->size;
	return h;
}

void hit_queue_free(struct hit_queue *q)
{
	free(q->data);
	*q = (struct hit_queue){0};
}

void decoder_drain(struct decoder *d, struct decoder_proc *p)
{
	const struct hit *h;
	if (p->target->layout_complete)
		target_settle(p->target);
	for (size_t at = 0; (h = hit_queue_next(&p->held, &at));)
		decoder_pair(d, p->target, h);
	p->held.len = 0;
	if (p->target->layout_known)
		hit_queue_free(&p->held);
}

/* Replace the frames in our copy of a record by the interned stack: their code objects may be freed
 * before the record is decoded. */
static void know_stack(struct target *t, struct item *i, uint64_t when)
{
	const struct py_stack *s = decoder_frames(t, i, NULL, when);
	memcpy(i + 1, &s, sizeof(s));
	i->aux |= STACK_KNOWN;
}

void decoder_decode(struct decoder *d, const struct hit *h)
{
	struct decoder_proc *p = &d->procs[h->proc];
	if (!p->target) {
		d->dropped++;
		return;
	}
	if (p->target->layout_known && p->held.len)
		decoder_drain(d, p);
	if (p->target->layout_known || hit_is_of_code(h->kind) || h->kind == HIT_SUM) {
		decoder_pair(d, p->target, h);
		return;
	}
	struct hit *copy = hit_queue_add(&p->held, h, HELD_MAX);
	if (!copy) {
		decoder_drain(d, p);
		decoder_pair(d, p->target, h);
		return;
	}
	struct items it = items_of(copy);
	const struct item *s = items_stack(&it);
	if (s && s->len && p->target->py)
		know_stack(p->target, (struct item *)s, h->ts);
}

void decoder_drain_held(struct decoder *d, uint64_t now_ns)
{
	enum { HELD_NS = 500 * 1000 * 1000 };
	for (unsigned i = 0; i < PROCS_MAX; i++) {
		struct decoder_proc *p = &d->procs[i];
		if (!p->target || p->target->layout_known || now_ns - p->drained < HELD_NS)
			continue;
		p->drained = now_ns;
		decoder_drain(d, p);
	}
}

void decoder_settle(struct decoder *d, struct decoder_proc *p)
{
	if (!p->target)
		return;
	target_settle(p->target);
	decoder_drain(d, p);
}
