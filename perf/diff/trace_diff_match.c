#include "perf/diff/trace_diff_match.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"

enum { KEY_MAX = 8192 };

/* How rows are compared: first the strictest way. */
static const struct level {
	bool by_text; /* instead of the number of the line */
	bool shape;
} levels[] = {{false, true}, {true, true}, {false, false}, {true, false}};

struct match_entry {
	const struct aggregate_row *row;
	bool of_b, taken;
	const char *key;
};

/* NULL: the row cannot be compared so. */
static const char *key_of(struct arena *arena, const struct aggregate_row *r, const struct level *l)
{
	char key[KEY_MAX], line[16];
	if (l->by_text && !r->text)
		return NULL;
	snprintf(line, sizeof(line), "%" PRId32, r->line);
	int n = snprintf(key, sizeof(key), "%s\1%d\1%.1000s\1%.1000s\1%.1000s\1%s", r->op, r->phase,
			 r->file ? text_base_name(r->file) : "", r->function ? r->function : "",
			 l->by_text ? r->text : line, l->shape ? r->shape : "");
	return arena_strndup(arena, key, (size_t)n < sizeof(key) ? (size_t)n : sizeof(key) - 1);
}

/* By key, and of equal ones those with the most time first. */
static int compare(const void *x, const void *y)
{
	const struct match_entry *a = x, *b = y;
	if (!a->key || !b->key)
		return !a->key - !b->key;
	int c = strcmp(a->key, b->key);
	if (c)
		return c;
	if (a->of_b != b->of_b)
		return a->of_b - b->of_b;
	return (a->row->total_ns < b->row->total_ns) - (a->row->total_ns > b->row->total_ns);
}

static void add_pair(struct trace_diff *d, struct match_entry *a, struct match_entry *b)
{
	const char *x = a ? a->row->shape : NULL, *y = b ? b->row->shape : NULL;
	d->rows[d->n++] = (struct trace_diff_row){.a = a ? a->row : NULL,
						  .b = b ? b->row : NULL,
						  .p = 1,
						  .shape = x && y && strcmp(x, y)};
	if (a)
		a->taken = true;
	if (b)
		b->taken = true;
}

/* Entries from `i` on with its key: the first of A with the first of B, and so on. Returns where
 * the next key begins. */
static size_t pair_equal(struct trace_diff *d, struct match_entry *all, size_t i, size_t n)
{
	size_t end = i, b;
	while (end < n && all[end].key && !strcmp(all[end].key, all[i].key))
		end++;
	for (b = i; b < end && !all[b].of_b;)
		b++;
	for (size_t a = i, first_b = b; a < first_b && b < end; a++, b++)
		add_pair(d, &all[a], &all[b]);
	return end;
}

static int match_level(struct trace_diff *d, struct match_entry *all, size_t n,
		       const struct level *l)
{
	struct arena arena = {0};
	int r = 0;
	for (size_t i = 0; i < n && !r; i++) {
		bool can = !all[i].taken && (!l->by_text || all[i].row->text);
		all[i].key = can ? key_of(&arena, all[i].row, l) : NULL;
		if (can && !all[i].key)
			r = -ENOMEM;
	}
	if (!r) {
		qsort(all, n, sizeof(*all), compare);
		for (size_t i = 0; i < n && all[i].key;)
			i = pair_equal(d, all, i, n);
	}
	arena_free(&arena);
	return r;
}

int trace_diff_match(const struct aggregate *a, const struct aggregate *b, struct trace_diff *out)
{
	size_t na, nb, n = 0;
	const struct aggregate_row *const *ra = aggregate_rows(a, &na);
	const struct aggregate_row *const *rb = aggregate_rows(b, &nb);
	struct match_entry *all = calloc(na + nb + 1, sizeof(*all));
	int r = 0;
	out->rows = calloc(na + nb + 1, sizeof(*out->rows));
	if (!all || !out->rows)
		r = -ENOMEM;
	for (size_t i = 0; i < na && !r; i++)
		all[n++] = (struct match_entry){.row = ra[i]};
	for (size_t i = 0; i < nb && !r; i++)
		all[n++] = (struct match_entry){.row = rb[i], .of_b = true};
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]) && !r; i++)
		r = match_level(out, all, n, &levels[i]);
	for (size_t i = 0; i < n && !r; i++)
		if (!all[i].taken)
			add_pair(out, all[i].of_b ? NULL : &all[i], all[i].of_b ? &all[i] : NULL);
	free(all);
	return r;
}
