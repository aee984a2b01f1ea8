#include <stdlib.h>
#include <string.h>

#include "tracer/device/internal.h"

static void spans_remove(struct spans *s, unsigned i)
{
	memmove(&s->at[i], &s->at[i + 1], (--s->n - i) * sizeof(s->at[0]));
}

static struct span span_join(struct span a, struct span b)
{
	return (struct span){
	    .from = a.from < b.from ? a.from : b.from,
	    .to = a.to > b.to ? a.to : b.to,
	};
}

void spans_add(struct spans *s, uint64_t from, uint64_t to)
{
	struct span new = {from, to};
	if (s->n == SPANS_MOST) {
		s->at[1] = span_join(s->at[0], s->at[1]);
		spans_remove(s, 0);
	}
	unsigned i = s->n;
	while (i > 0 && s->at[i - 1].to >= from) {
		i--;
		if (s->at[i].from > to)
			continue;
		new = span_join(new, s->at[i]);
		spans_remove(s, i);
	}
	memmove(&s->at[i + 1], &s->at[i], (s->n++ - i) * sizeof(s->at[0]));
	s->at[i] = new;
}

const struct span *spans_find(const struct spans *s, uint64_t t)
{
	for (unsigned i = s->n; i > 0; i--)
		if (s->at[i - 1].from <= t)
			return t < s->at[i - 1].to ? &s->at[i - 1] : NULL;
	return NULL;
}

/* Ops come in the order of their ends, and nest: the innermost one that encloses a time is the
 * first that ends after it and begins before it. Where the first that ends after it begins after
 * it, too, the one that is looked for is around that one. */

enum { FIRST_ROOM = 256, MOST_ROOM = 1 << 16 };

static struct past_op *past_at(const struct op_history *h, uint64_t number)
{
	return &h->ring[number & (h->room - 1)];
}

static struct launch_op launch_op_of(const struct op_event *ev)
{
	return (struct launch_op){ev->op,	   ev->stack, ev->where_stack,
				  ev->backward_of, ev->id,    ev->phase};
}

void op_history_begin(struct op_history *h, uint64_t from_ns)
{
	*h = (struct op_history){.known_from = from_ns};
}

static void history_forget_oldest(struct op_history *h)
{
	uint64_t end = past_at(h, h->kept++)->end_ns;
	h->known_from = end > h->known_from ? end : h->known_from;
}

/* Without memory, fewer are kept. */
static bool history_make_room(struct op_history *h)
{
	uint32_t room = h->room ? 2 * h->room : FIRST_ROOM;
	if (h->next - h->kept < h->room)
		return true;
	struct past_op *ring = h->room < MOST_ROOM ? calloc(room, sizeof(*ring)) : NULL;
	if (!ring) {
		if (h->room)
			history_forget_oldest(h);
		return h->room;
	}
	for (uint64_t i = h->kept; i < h->next; i++)
		ring[i & (room - 1)] = *past_at(h, i);
	free(h->ring);
	h->ring = ring;
	h->room = room;
	return true;
}

static void history_push(struct op_history *h, uint64_t start_ns, uint64_t end_ns,
			 struct launch_op op)
{
	if (!history_make_room(h)) {
		h->known_from = h->unsure_to = end_ns;
		return;
	}
	uint64_t from = h->next;
	while (from > h->kept && past_at(h, from - 1)->start_ns >= start_ns) {
		struct past_op *inner = past_at(h, from - 1);
		inner->up = (uint32_t)(h->next - (from - 1));
		from = from - 1 - h->kept > inner->below ? from - 1 - inner->below : h->kept;
	}
	*past_at(h, h->next) = (struct past_op){
	    .start_ns = start_ns,
	    .end_ns = end_ns,
	    .op = op,
	    .below = (uint32_t)(h->next - from),
	};
	h->next++;
}

/* Its end comes out as not known. */
static void history_add_endless(struct op_history *h, const struct op_event *ev)
{
	if (!h->endless_from || ev->start_ns < h->endless_from)
		h->endless_from = ev->start_ns;
	if (ev->start_ns > h->endless_last)
		h->endless_last = ev->start_ns;
}

/* Those have ended by the time of `ev`, the next op: it began later, or is around the last of
 * them. What ended before and is within them is known, and found first. */
static void history_end_endless(struct op_history *h, const struct op_event *ev)
{
	uint64_t by = ev->start_ns > h->endless_last ? ev->start_ns : ev->end_ns;
	by = by > h->last_end ? by : h->last_end;
	history_push(h, h->endless_from, by, (struct launch_op){0});
	h->endless_from = h->endless_last = 0;
}

void op_history_add(struct op_history *h, const struct op_event *ev)
{
	if (!ev->end_ns) {
		history_add_endless(h, ev);
		return;
	}
	if (!h->met && ev->end_ns < h->known_from)
		h->known_from = ev->end_ns;
	h->met = true;
	if (ev->end_ns < h->last_end) {
		h->kept = h->next;
		h->known_from = h->unsure_to = h->last_end;
		return;
	}
	if (h->endless_from)
		history_end_endless(h, ev);
	/* When an exception ended it was noticed later: its op is not known. */
	struct launch_op op = {0};
	if (!ev->thrown)
		op = launch_op_of(ev);
	if (ev->end_ns > ev->start_ns)
		history_push(h, ev->start_ns, ev->end_ns, op);
	h->last_end = ev->end_ns;
}

const struct past_op *op_history_at(const struct op_history *h, uint64_t number)
{
	return past_at(h, number);
}

enum activity_launch op_history_judge(const struct op_history *h, uint64_t t)
{
	if (t < h->unsure_to || (h->endless_from && t >= h->endless_from) ||
	    spans_find(&h->summed, t))
		return LAUNCH_UNKNOWN;
	return LAUNCH_IN_NO_OP;
}

/* The number of the first op that ended after `t`. */
static uint64_t history_after(const struct op_history *h, uint64_t t)
{
	uint64_t low = h->kept, high = h->next;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (past_at(h, middle)->end_ns <= t)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool op_history_find(const struct op_history *h, uint64_t t, enum activity_launch *launch,
		     struct launch_op *op)
{
	*op = (struct launch_op){0};
	*launch = LAUNCH_UNKNOWN;
	if (t < h->known_from)
		return true;
	for (uint64_t i = history_after(h, t); i < h->next;) {
		const struct past_op *p = past_at(h, i);
		if (p->start_ns <= t) {
			*launch = p->op.op ? LAUNCH_IN_OP : LAUNCH_UNKNOWN;
			*op = p->op;
			return true;
		}
		if (!p->up)
			return false;
		i += p->up;
	}
	return false;
}

void op_history_free(struct op_history *h)
{
	free(h->ring);
	*h = (struct op_history){0};
}
