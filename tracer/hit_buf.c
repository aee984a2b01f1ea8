#include "tracer/hit_buf.h"

#include <string.h>

static void start_part(struct hit_buf *b, const struct hit *head)
{
	__u8 *place = b->place && !b->dry ? b->place(b->arg) : NULL;
	b->bytes = place ? place : b->own;
	b->hit = (struct hit *)b->bytes;
	*b->hit = *head;
	b->off = sizeof(*head);
}

void hit_buf_begin(struct hit_buf *b, const struct hit *head, bool *gap)
{
	b->gap = gap;
	start_part(b, head);
}

static void send_part(struct hit_buf *b, __u8 more)
{
	if (b->dry)
		return;
	b->hit->size = b->off;
	b->hit->flags = (__u8)((b->hit->flags & ~HIT_MORE) | more | (*b->gap ? HIT_GAP : 0));
	if (b->hold && !more)
		b->hit->flags |= HIT_HELD;
	*b->gap = b->sink(b->arg, b->hit) != 0;
	b->held |= b->hold && !more && !*b->gap;
}

static void go_on(struct hit_buf *b)
{
	struct hit head = *b->hit;
	send_part(b, HIT_MORE);
	head.flags |= HIT_CONT;
	start_part(b, &head);
}

struct item *hit_buf_item(struct hit_buf *b, __u8 kind, __u8 read, __u32 aux)
{
	if (b->off > HIT_BUF_MAX)
		go_on(b);
	struct item *it = (struct item *)&b->bytes[b->off];
	*it = (struct item){.kind = kind, .read = read, .aux = aux};
	b->off += sizeof(*it);
	return it;
}

void *hit_buf_room(struct hit_buf *b, __u32 len)
{
	__u8 *at = &b->bytes[b->off];
	if (len)
		memset(&at[(len - 1) & ~7U], 0, 8);
	return at;
}

void hit_buf_grow(struct hit_buf *b, __u32 len)
{
	b->off += (len + 7) & ~7U;
}

void *hit_buf_put(struct hit_buf *b, const void *bytes, __u32 len)
{
	void *at = hit_buf_room(b, len);
	memcpy(at, bytes, len);
	hit_buf_grow(b, len);
	return at;
}

void hit_buf_word(struct hit_buf *b, __u64 w)
{
	memcpy(&b->bytes[b->off], &w, sizeof(w));
	b->off += sizeof(w);
}

void hit_buf_send(struct hit_buf *b)
{
	send_part(b, 0);
}
