#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/decode_value.h"
#include "symbolizer/decode/internal.h"

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

enum { BATCH_MAX = 6 << 20, ENDS_MAX = 2048 };

/* Records of code objects that end, or are met, in order. */
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

/* The first from number `i` on of the code object at the place of `h`. */
static const struct hit *next_end(const struct ends *e, unsigned i, const struct hit *h)
{
	for (; i < e->n; i++)
		if (e->hit[i]->sp == h->sp && e->hit[i]->proc == h->proc)
			return e->hit[i];
	return NULL;
}

static void decode(struct reorder_buffer *l, struct decoder *d)
{
	struct ends e = {.n = 0};
	unsigned passed = 0;
	gather(&l->waiting, &e, true);
	gather(&l->coming, &e, true);
	for (unsigned i = 0; i < e.n; i++)
		if (next_end(&e, 0, e.hit[i]) == e.hit[i])
			decoder_foresee(d, e.hit[i]);
	const struct hit *h;
	for (size_t at = 0; (h = hit_queue_next(&l->waiting.hits, &at));) {
		decoder_decode(d, h);
		if (passed >= e.n || e.hit[passed] != h)
			continue;
		/* Another code object may have taken the place and ended, too. */
		const struct hit *next = next_end(&e, ++passed, h);
		if (next)
			decoder_foresee(d, next);
	}
	l->waiting.hits.len = 0;
	l->waiting.nends = 0;
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

/* The process may end before the turn of what has come: its code is read now, but for addresses at
 * which a code object has ended, where it may be another's. */
static void warm(struct reorder_buffer *l, struct decoder *d)
{
	struct ends e = {.n = 0};
	gather(&l->waiting, &e, false);
	gather(&l->coming, &e, false);
	const struct hit *h;
	while (e.n < ENDS_MAX && (h = hit_queue_next(&l->coming.hits, &l->warmed)))
		if (!names_an_ended(h, &e))
			decoder_warm(d, h);
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
