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
