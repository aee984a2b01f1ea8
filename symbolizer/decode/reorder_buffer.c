#include <stdbool.h>
#include <string.h>

#include "symbolizer/decode/decode_value.h"
#include "symbolizer/decode/internal.h"
#include "symbolizer/python/pycode.h"

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
	unsigned n = 0;
	if (!t || !t->py)
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
