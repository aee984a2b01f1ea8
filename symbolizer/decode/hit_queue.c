#include "symbolizer/decode/hit_queue.h"

#include <stdlib.h>
#include <string.h>

static size_t padded(const struct hit *h)
{
	return (h->size + 7u) & ~(size_t)7;
}

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
	size_t need = padded(h);
	if (make_room(q, q->len + need, most))
		return NULL;
	struct hit *copy = memcpy(q->data + q->len, h, h->size);
	q->len += need;
	return copy;
}

const struct hit *hit_queue_next(const struct hit_queue *q, size_t *at)
{
	if (*at >= q->len)
		return NULL;
	const struct hit *h = (const struct hit *)(q->data + *at);
	*at += padded(h);
	return h;
}

void hit_queue_free(struct hit_queue *q)
{
	free(q->data);
	*q = (struct hit_queue){0};
}
