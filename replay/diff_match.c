#define _GNU_SOURCE
#include "replay/internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A call and its key. */
struct keyed {
	size_t place;
	size_t rank;	/* number of its process within the run */
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
	int r = strcmp(x->p->op, y->p->op);
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

static struct keyed *keyed_list(const struct capture_places *p, bool lines)
{
	struct keyed *k = calloc(p->n + 1, sizeof(*k));
	size_t rank = 0;
	for (size_t i = 0; k && i < p->n; i++) {
		rank += i && p->list[i].pid != p->list[i - 1].pid;
		k[i] = (struct keyed){.place = i, .rank = rank, .p = &p->list[i], .lines = lines};
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

int diff_match(const struct capture_places *a, const struct capture_places *b,
	       struct diff_match *out)
{
	bool lines = knows_lines(a) && knows_lines(b);
	struct keyed *ka = keyed_list(a, lines), *kb = keyed_list(b, lines);
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
