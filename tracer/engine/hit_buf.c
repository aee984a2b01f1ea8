#include "tracer/engine/plan_reader.h"

static struct hit *start_part(struct hit_buf *b)
{
	__u8 *place = b->place && !b->dry && !b->inner ? b->place(b->arg) : NULL;
	__u8 *start = place ? place : b->own;
	b->placed = place;
	b->lean = b->sums && !b->dry && (!place || b->tight);
	b->row = NULL;
	b->hit = (struct hit *)start;
	b->at = start + sizeof(*b->hit);
	b->full = start + HIT_BUF_MAX;
	return b->hit;
}

struct hit *hit_buf_begin(struct hit_buf *b, bool *gap)
{
	b->gap = gap;
	return start_part(b);
}

static void send_part(struct hit_buf *b, __u8 more)
{
	if (b->dry)
		return;
	b->hit->size = (__u32)(b->at - (__u8 *)b->hit);
	b->hit->flags = (__u8)((b->hit->flags & ~HIT_MORE) | more | (*b->gap ? HIT_GAP : 0));
	if (b->lean && (b->placed || b->hit->kind == HIT_EXIT))
		b->hit->flags |= HIT_LEAN;
	if (b->stop && !more)
		b->hit->flags |= HIT_STOPPED;
	*b->gap = b->sink(b->arg, b->hit) != 0;
	b->held |= b->stop && !more && !*b->gap;
}

void hit_buf_go_on(struct hit_buf *b)
{
	struct hit head = *b->hit;
	send_part(b, HIT_MORE);
	head.flags |= HIT_CONT;
	*start_part(b) = head;
}

void *hit_buf_put(struct hit_buf *b, const void *bytes, __u32 len)
{
	void *at = hit_buf_room(b, len);
	memcpy(at, bytes, len);
	hit_buf_grow(b, len);
	return at;
}

void hit_buf_send(struct hit_buf *b)
{
	send_part(b, 0);
}
