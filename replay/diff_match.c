#define _GNU_SOURCE
#include "replay/internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A call and its key. */
struct keyed {
	size_t place;
	int64_t rank;	/* its rank; without, or of two single ones: 0 */
	size_t process; /* number of its process within the rank */
	size_t ordinal; /* number of the call, of this op at this line */
	const struct capture_place *p;
	bool lines; /* the source line is part of the key */
};

static int by_line(const struct keyed *x, const struct keyed *y)
{
	const char *a = x->p->file ? x->p->file : "", *b = y->p->file ? y->p->file : "";
	int r = strcmp(a, b);
	return r ? r : (x->p->line > y->p->line) - (x->p->line < y->p->line);
}

static int by_what(const struct keyed *x, const struct keyed *y)
{
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	int r = strcmp(x->p->op, y->p->op);
	if (!r && capture_is_numbered(x->p) && capture_is_numbered(y->p))
		return capture_compare_collectives(x->p, y->p);
	return r || !x->lines ? r : by_line(x, y);
}

static int by_what_and_place(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;
	int r = by_what(x, y);
	return r ? r : (x->place > y->place) - (x->place < y->place);
}

static int by_pair(const void *a, const void *b)
{
	const struct diff_pair *x = a, *y = b;
	return (x->a > y->a) - (x->a < y->a);
}

static bool knows_lines(const struct capture_places *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->list[i].file)
			return true;
	return false;
}

static struct keyed *keyed_list(const struct capture_places *p, bool lines, bool ranks)
{
	struct keyed *k = calloc(p->n + 1, sizeof(*k));
	size_t process = 0;
	for (size_t i = 0; k && i < p->n; i++) {
		const struct capture_place *x = &p->list[i];
		if (i && x->rank != x[-1].rank)
			process = 0;
		else if (i && x->pid != x[-1].pid)
			process++;
		k[i] = (struct keyed){.place = i,
				      .rank = ranks ? x->rank : 0,
				      .process = process,
				      .p = x,
				      .lines = lines};
	}
	if (!k)
		return NULL;
	qsort(k, p->n, sizeof(*k), by_what_and_place);
	for (size_t i = 1; i < p->n; i++)
		k[i].ordinal = by_what(&k[i - 1], &k[i]) ? 0 : k[i - 1].ordinal + 1;
	return k;
}

static int compare_calls(const struct keyed *x, const struct keyed *y)
{
	int r = by_what(x, y);
	return r ? r : (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

static void merge(const struct keyed *a, size_t na, const struct keyed *b, size_t nb,
		  struct diff_match *out)
{
	size_t i = 0, k = 0;
	while (i < na && k < nb) {
		int r = compare_calls(&a[i], &b[k]);
		if (!r)
			out->pairs[out->n++] = (struct diff_pair){a[i].place, b[k].place};
		i += r <= 0;
		k += r >= 0;
	}
	out->only_a = na - out->n;
	out->only_b = nb - out->n;
	qsort(out->pairs, out->n, sizeof(*out->pairs), by_pair);
}

static bool is_of_one_rank(const struct capture_places *p)
{
	for (size_t i = 1; i < p->n; i++)
		if (p->list[i].rank != p->list[0].rank)
			return false;
	return true;
}

bool diff_is_of_ranks(const struct capture_places *a, const struct capture_places *b)
{
	return a->n && b->n && is_of_one_rank(a) && is_of_one_rank(b) && a->list[0].rank >= 0 &&
	       b->list[0].rank >= 0 && a->list[0].rank != b->list[0].rank;
}

/* When calls of several ranks began: by the second, then in the order of one recording. */
static int by_begin(const void *a, const void *b, void *arg)
{
	const struct capture_places *p = arg;
	const struct capture_place *x = &p->list[*(const size_t *)a];
	const struct capture_place *y = &p->list[*(const size_t *)b];
	const char *s = strrchr(x->dir, '/'), *t = strrchr(y->dir, '/');
	int r = s && t ? strcmp(s, t) : 0;
	r = r ? r : (x->id > y->id) - (x->id < y->id);
	return r ? r : (x > y) - (x < y);
}

int diff_order_by_time(struct capture_places *p, struct diff_match *m)
{
	size_t *order = calloc(p->n + 1, sizeof(*order)), *now = calloc(p->n + 1, sizeof(*now));
	struct capture_place *list = calloc(p->n + 1, sizeof(*list));
	int r = order && now && list ? 0 : -ENOMEM;
	for (size_t i = 0; !r && i < p->n; i++)
		order[i] = i;
	if (!r)
		qsort_r(order, p->n, sizeof(*order), by_begin, p);
	for (size_t i = 0; !r && i < p->n; i++) {
		list[i] = p->list[order[i]];
		now[order[i]] = i;
	}
	if (!r && p->n)
		memcpy(p->list, list, p->n * sizeof(*list));
	for (size_t i = 0; !r && i < m->n; i++)
		m->pairs[i].a = now[m->pairs[i].a];
	if (!r)
		qsort(m->pairs, m->n, sizeof(*m->pairs), by_pair);
	free(order);
	free(now);
	free(list);
	return r;
}

int diff_match(const struct capture_places *a, const struct capture_places *b,
	       struct diff_match *out)
{
	bool lines = knows_lines(a) && knows_lines(b);
	bool ranks = !is_of_one_rank(a) || !is_of_one_rank(b);
	struct keyed *ka = keyed_list(a, lines, ranks), *kb = keyed_list(b, lines, ranks);
	*out = (struct diff_match){.pairs = calloc(a->n + 1, sizeof(*out->pairs))};
	int r = ka && kb && out->pairs ? 0 : -ENOMEM;
	if (!r)
		merge(ka, a->n, kb, b->n, out);
	free(ka);
	free(kb);
	return r;
}

void diff_match_free(struct diff_match *m)
{
	free(m->pairs);
	*m = (struct diff_match){0};
}
