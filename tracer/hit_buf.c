#include "tracer/hit_buf.h"

#include <string.h>

void hit_buf_begin(struct hit_buf *b, const struct hit *head, bool *gap)
{
	b->hit = *head;
	b->gap = gap;
	b->off = sizeof(*head);
}

static void send_part(struct hit_buf *b, __u8 more)
{
	if (b->dry)
		return;
	b->hit.size = b->off;
	b->hit.flags = (__u8)((b->hit.flags & ~HIT_MORE) | more | (*b->gap ? HIT_GAP : 0));
	if (b->hold && !more)
		b->hit.flags |= HIT_HELD;
	*b->gap = b->sink(b->arg, &b->hit) != 0;
	b->held |= b->hold && !more && !*b->gap;
}

static void make_room(struct hit_buf *b)
{
	if (b->off <= HIT_BUF_MAX)
		return;
	send_part(b, HIT_MORE);
	b->hit.flags |= HIT_CONT;
	b->off = sizeof(b->hit);
}

struct item *hit_buf_item(struct hit_buf *b, __u8 kind, __u8 read, __u32 aux)
{
	make_room(b);
	struct item *it = (struct item *)&b->bytes[b->off];
	*it = (struct item){.kind = kind, .read = read, .aux = aux};
	b->off += sizeof(*it);
	return it;
}

void *hit_buf_put(struct hit_buf *b, const void *bytes, __u32 len)
{
	__u8 *at = &b->bytes[b->off];
	__u32 padded = (len + 7) & ~7U;
	memcpy(at, bytes, len);
	memset(at + len, 0, padded - len);
	b->off += padded;
	return at;
}

void hit_buf_word(struct hit_buf *b, __u64 w)
{
	hit_buf_put(b, &w, sizeof(w));
}

void hit_buf_send(struct hit_buf *b)
{
	send_part(b, 0);
}
