#include "symbolizer/decode/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	return (struct items){p->data, p->lost ? 0 : (uint32_t)p->len};
}

void hit_fragments_free(struct hit_fragments *p)
{
	free(p->data);
	*p = (struct hit_fragments){0};
}
