/* Where the tracing process puts the records of hits: into the ring that it shares with ditrace or,
 * where that is full, calls into sums. */
#include <stdlib.h>

#include "tracer/engine/ptrace/internal.h"

/* From such sixteenths of the ring on records are lean, and calls that begin are summed up: the
 * rest is for the ends of those that were recorded. In the last one freed code is only told of. */
enum { TIGHT = 12, FULL = 14, LAST = 15 };

static void *place(void *arg)
{
	struct tracer *t = arg;
	struct share *s = t->share;
	const unsigned fill = share_fill(s);
	t->out.tight = fill >= TIGHT;
	if (t->out.sums && fill >= FULL)
		return NULL;
	return ring_room(&s->records, s->ring, s->ring_bytes, HIT_BUF_MAX + HIT_BUF_SLACK);
}

static bool take_sums(struct tracer *t, struct tracee *x, uint16_t proc)
{
	struct sums_writer *w = calloc(1, sizeof(*w));
	struct share_sums *s = w ? share_take_sums(t->share, proc) : NULL;
	if (!s) {
		free(w);
		return false;
	}
	sums_begin(&s->sums, w, &t->share->code);
	x->sums = s;
	x->ops->sums = &s->sums;
	x->ops->sums_writer = w;
	return true;
}

/* A call begins. Its row; NULL: there is no room. */
static struct sum_row *sum_up(struct tracer *t, struct tracee *x, struct hit *h)
{
	const bool may_name = !x->ops->py.nmet || share_fill(t->share) < LAST;
	if (!x->sums && !take_sums(t, x, h->proc))
		return NULL;
	return x->sums->proc == h->proc ? sums_enter(x->ops->sums, x->ops->sums_writer, h, may_name)
					: NULL;
}

static int put_without_place(struct tracer *t, struct hit *h)
{
	const bool is_last = share_fill(t->share) >= LAST;
	if (h->kind == HIT_ENTRY && !(h->flags & HIT_CONT)) {
		t->out.row = sum_up(t, t->hit, h);
		return t->out.row ? 0 : -1;
	}
	if (h->kind == HIT_CODE_FREED && is_last)
		h->size = sizeof(*h);
	if (h->kind == HIT_ENTRY)
		h->flags |= HIT_LEAN;
	return share_put(t->share, h);
}

static int sink(void *arg, const struct hit *h)
{
	struct tracer *t = arg;
	struct share *s = t->share;
	int r = 0;
	if (t->out.sums && h->kind == HIT_CODE_MET && share_fill(s) >= LAST) {
		pyframes_unsent(h->sp);
		return -1;
	}
	if (t->out.placed)
		ring_done(&s->records, s->ring, s->ring_bytes, h);
	else
		r = t->out.sums ? put_without_place(t, (struct hit *)t->out.own) : share_put(s, h);
	if (r)
		atomic_fetch_add_explicit(&s->lost, 1, memory_order_relaxed);
	return r;
}

void tracer_records_begin(struct tracer *t)
{
	t->out.sums = t->share->may_sum;
	t->out.place = place;
	t->out.sink = sink;
	t->out.arg = t;
}
