#include "symbolizer/decode/internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/decoder.h"
#include "symbolizer/python/python.h"

enum { MORE_MAX = 4 << 20 };

int hit_fragments_add(struct hit_fragments *p, const struct hit *h)
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

struct items hit_fragments_end(struct hit_fragments *p)
{
	p->head.kind = 0;
	return (struct items){.data = p->data, .len = p->lost ? 0 : (uint32_t)p->len};
}

void hit_fragments_free(struct hit_fragments *p)
{
	free(p->data);
	*p = (struct hit_fragments){0};
}

/* Holds back the records of a process until the layout of its tensors is known. */

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

/* Append a copy of `h`, unless the queue would then exceed `most` bytes; it never allocates more
 * than that. Returns the copy, valid until the next call with this queue; NULL if there is no room
 * for it. */
static struct hit *hit_queue_add(struct hit_queue *q, const struct hit *h, size_t most)
{
	if (make_room(q, q->len + h->size, most))
		return NULL;
	struct hit *copy = memcpy(q->data + q->len, h, h->size);
	q->len += h->size;
	return copy;
}

/* The record at offset *at (0 for the first), NULL at the end; advances *at. */
static const struct hit *hit_queue_next(const struct hit_queue *q, size_t *at)
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

/* Decode a record that leaves the reorder buffer, or hold it back. */
static void decoder_decode(struct decoder *d, const struct hit *h)
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

enum { BATCH_MAX = 6 << 20, ENDS_MAX = 2048 };

/* Records of code objects that were freed or first referred to, in order. */
struct ends {
	const struct hit *hit[ENDS_MAX];
	unsigned n;
};

static void gather(const struct batch *b, struct ends *e, bool met)
{
	const struct hit *h;
	for (size_t at = 0; b->nends && (h = hit_queue_next(&b->hits, &at));)
		if ((h->kind == HIT_CODE_FREED || (met && h->kind == HIT_CODE_MET)) &&
		    e->n < ENDS_MAX)
			e->hit[e->n++] = h;
}

/* The first record, from index `i` on, of a code object at the same address as that of `h`. */
static const struct hit *next_end(const struct ends *e, unsigned i, const struct hit *h)
{
	for (; i < e->n; i++)
		if (e->hit[i]->sp == h->sp && e->hit[i]->proc == h->proc)
			return e->hit[i];
	return NULL;
}

/* Learn a Python code object from the copy of it in its record (HIT_CODE_FREED, HIT_CODE_MET). Call
 * it before decoding the hits taken while the object was alive. */
static void foresee(struct decoder *d, const struct hit *h)
{
	enum { REGIONS = 3 + CODE_PIECES };
	struct target *t = d->procs[h->proc].target;
	struct py_region r[REGIONS];
	if (!t || !t->py)
		return;
	const unsigned n = items_regions(h, r, REGIONS);
	if (n)
		py_code_remember(t->py, h->sp, r, n);
}

static void decode(struct reorder_buffer *l, struct decoder *d)
{
	struct ends e = {.n = 0};
	unsigned passed = 0;
	gather(&l->waiting, &e, true);
	gather(&l->coming, &e, true);
	for (unsigned i = 0; i < e.n; i++)
		if (next_end(&e, 0, e.hit[i]) == e.hit[i])
			foresee(d, e.hit[i]);
	const struct hit *h;
	for (size_t at = 0; (h = hit_queue_next(&l->waiting.hits, &at));) {
		decoder_decode(d, h);
		if (passed >= e.n || e.hit[passed] != h)
			continue;
		/* Another code object may have been allocated at the same address and freed,
		 * too. */
		const struct hit *next = next_end(&e, ++passed, h);
		if (next)
			foresee(d, next);
	}
	l->waiting.hits.len = 0;
	l->waiting.nends = 0;
}

/* Read the Python code objects that a record refers to, so that they are known when it is
 * decoded. */
static void read_code(struct decoder *d, const struct hit *h)
{
	struct target *t = d->procs[h->proc].target;
	if (!t || !t->py || (h->kind != HIT_ENTRY && h->kind != HIT_SUM))
		return;
	struct items it = items_of(h);
	const struct item *s = items_stack(&it);
	if (s && s->len)
		decoder_frames(t, s, NULL, h->ts);
}

static bool names_an_ended(const struct hit *h, const struct ends *e)
{
	const struct items it = items_of(h);
	uint32_t n = 0;
	const uint64_t(*frame)[STACK_FRAME_SIZE / 8] = e->n ? items_frames(&it, &n) : NULL;
	for (uint32_t i = 0; i < n; i++)
		for (unsigned k = 0; k < e->n; k++)
			if (e->hit[k]->sp == frame[i][0] && e->hit[k]->proc == h->proc)
				return true;
	return false;
}

/* Read the code objects of new records now: the process may end before they are decoded. Skip
 * records with an address at which a code object was freed: another may be there by now. */
static void warm(struct reorder_buffer *l, struct decoder *d)
{
	struct ends e = {.n = 0};
	gather(&l->waiting, &e, false);
	gather(&l->coming, &e, false);
	const struct hit *h;
	while (e.n < ENDS_MAX && (h = hit_queue_next(&l->coming.hits, &l->warmed)))
		if (!names_an_ended(h, &e))
			read_code(d, h);
	l->warmed = l->coming.hits.len;
}

static void turn(struct reorder_buffer *l, struct decoder *d)
{
	decode(l, d);
	struct batch b = l->waiting;
	l->waiting = l->coming;
	l->coming = b;
	l->warmed = 0;
	l->turns++;
}

bool reorder_buffer_turn(struct reorder_buffer *l, struct decoder *d, uint64_t now_ns)
{
	warm(l, d);
	if (now_ns - l->turned < REORDER_BUFFER_NS)
		return false;
	l->turned = now_ns;
	turn(l, d);
	return true;
}

void reorder_buffer_flush(struct reorder_buffer *l, struct decoder *d)
{
	if (!l->waiting.hits.len && !l->coming.hits.len)
		return;
	turn(l, d);
	turn(l, d);
}

void reorder_buffer_add(struct reorder_buffer *l, struct decoder *d, const struct hit *h)
{
	struct hit_queue *q = &l->coming.hits;
	if (!hit_queue_add(q, h, BATCH_MAX)) {
		reorder_buffer_flush(l, d);
		if (!hit_queue_add(q, h, BATCH_MAX)) {
			decoder_decode(d, h);
			return;
		}
	}
	l->coming.nends += hit_is_of_code(h->kind);
}

void reorder_buffer_free(struct reorder_buffer *l)
{
	hit_queue_free(&l->waiting.hits);
	hit_queue_free(&l->coming.hits);
}
