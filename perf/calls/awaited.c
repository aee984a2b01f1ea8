/* What is known of calls before they are added, by their ids. */
#include <errno.h>
#include <stdlib.h>

#include "perf/calls/awaited.h"

enum { AWAITED_MAX = 1 << 16 };

int awaited_at(struct awaited *a, const struct op_event *of, struct awaited_call **out)
{
	int64_t at = map_get(&a->ids, of->id);
	if (at < 0) {
		if (a->n == AWAITED_MAX)
			return -ENOSPC;
		if (array_grow(&a->calls, &a->room, a->n + 1, sizeof(*a->calls)) ||
		    map_put(&a->ids, of->id, (uint32_t)a->n))
			return -ENOMEM;
		at = (int64_t)a->n++;
		a->calls[at].came = true;
	}
	if (a->calls[at].came)
		a->calls[at] = (struct awaited_call){.of = *of};
	*out = &a->calls[at];
	return 0;
}

const struct awaited_call *awaited_take(struct awaited *a, uint64_t id)
{
	int64_t at = a->n ? map_get(&a->ids, id) : -ENOENT;
	if (at < 0 || a->calls[at].came)
		return NULL;
	a->calls[at].came = true;
	return &a->calls[at];
}

void awaited_clear(struct awaited *a)
{
	a->n = 0;
	map_clear(&a->ids);
}

void awaited_free(struct awaited *a)
{
	map_free(&a->ids);
	free(a->calls);
}
