/* Which ops have series of their own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/metrics/internal.h"

struct op_time {
	const char *op; /* a row's */
	uint64_t ns;
};

static int compare_times(const void *a, const void *b)
{
	const struct op_time *p = a, *q = b;
	return p->ns != q->ns ? (p->ns < q->ns ? 1 : -1) : strcmp(p->op, q->op);
}

static int add_times(const struct metrics_series *s, struct intern *ids, struct op_time **times,
		     size_t *room)
{
	size_t n = 0;
	bool is_new;
	const struct aggregate_row *const *rows = s->ops ? aggregate_rows(s->ops, &n) : NULL;
	for (size_t i = 0; i < n; i++) {
		int64_t id = intern(ids, rows[i]->op, (uint32_t)strlen(rows[i]->op), &is_new);
		if (id < 0 || array_grow(times, room, (size_t)id + 1, sizeof(**times)))
			return -ENOMEM;
		if (is_new)
			(*times)[id] = (struct op_time){.op = rows[i]->op};
		(*times)[id].ns += rows[i]->self_ns;
	}
	return 0;
}

int metrics_name_ops(struct metrics *m)
{
	struct intern ids = {0};
	struct op_time *times = NULL;
	size_t room = 0;
	int64_t r = 0;
	for (size_t i = 0; i < m->nseries && !r; i++)
		r = add_times(m->series[i], &ids, &times, &room);
	if (!r && ids.used)
		qsort(times, ids.used, sizeof(*times), compare_times);
	for (size_t i = 0; !r && i < ids.used && i < METRICS_OPS_TOP; i++) {
		uint32_t len = (uint32_t)strlen(times[i].op);
		bool is_new;
		if (m->named.used < METRICS_OPS_MAX &&
		    intern(&m->named, times[i].op, len, &is_new) < 0)
			r = -ENOMEM;
	}
	free(times);
	intern_free(&ids);
	return (int)r;
}

bool metrics_op_is_named(const struct metrics *m, const char *op)
{
	return intern_find(&m->named, op, (uint32_t)strlen(op)) >= 0;
}
