#define _GNU_SOURCE
#include "tracer/intervene/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/table.h"
#include "base/text.h"

enum { KEPT = 5000 }; /* calls kept for their backward, as ditorch's OP_TOOLS_MAX_CACHE_SIZE */

static struct intervene_timed *timed_of(struct intervene_times *t, const char *name,
					const char *where)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->list[i].name, name) && !strcmp(t->list[i].where, where))
			return &t->list[i];
	if (array_grow(&t->list, &t->size, t->n + 1, sizeof(*t->list)))
		return NULL;
	struct intervene_timed *x = &t->list[t->n++];
	*x = (struct intervene_timed){.name = strdup(name), .where = strdup(where)};
	return x->name && x->where ? x : NULL;
}

static void spend(struct intervene_spent *s, uint64_t ns)
{
	s->least = s->n && s->least < ns ? s->least : ns;
	s->most = s->most > ns ? s->most : ns;
	s->total += ns;
	s->n++;
}

/* Write the calls kept so far to the CSV. */
static void flush(struct intervene_times *t)
{
	struct err e = {0};
	bool head = !t->csv;
	if (!t->csv && !t->failed && t->calls.n)
		t->csv = times_open_csv(t->path, sizeof(t->path), &e);
	if (!t->csv && e.code) {
		t->failed = true;
		err_print(&e);
	}
	if (t->csv)
		times_csv_rows(t->csv, &t->calls, &t->places, head);
	times_free(&t->calls);
	capture_places_free(&t->places);
}

static int add_forward(struct intervene_times *t, json_t *m)
{
	struct capture_places *p = &t->places;
	if (t->calls.n >= KEPT)
		flush(t);
	int r = array_grow(&p->list, &p->size, p->n + 1, sizeof(*p->list));
	if (r)
		return r;
	p->list[p->n++] =
	    (struct capture_place){.op = strdup(json_text_of(m, "name")),
				   .id = json_integer_value(json_object_get(m, "id"))};
	return p->list[p->n - 1].op ? times_add(&t->calls, p->n - 1, m) : -ENOMEM;
}

/* Add it to the row of its forward, if that is still kept and has none yet. */
static int add_backward(struct intervene_times *t, json_t *m, uint64_t ns)
{
	static const char *const keys[] = {"grad_inputs", "grad_outputs"};
	int64_t id = json_integer_value(json_object_get(m, "id"));
	size_t i = t->calls.n;
	while (i && t->places.list[i - 1].id != id)
		i--;
	struct times *x = i ? &t->calls.list[i - 1] : NULL;
	if (!x || x->nbackward)
		return 0;
	uint64_t *list = realloc(x->backward, sizeof(*list));
	if (!list)
		return -ENOMEM;
	x->backward = list;
	list[0] = ns;
	x->nbackward = 1;
	for (int k = 0; k < 2; k++) {
		free(x->texts[2 + k]);
		x->texts[2 + k] = strdup(json_text_of(m, keys[k]));
	}
	return 0;
}

int intervene_times_add(struct intervene_times *t, json_t *m)
{
	json_t *forward = json_object_get(m, "forward"), *backward = json_object_get(m, "backward");
	json_t *ns = json_array_get(forward ? forward : backward, 0);
	struct intervene_timed *x = timed_of(t, json_text_of(m, "name"), json_text_of(m, "where"));
	if (!x || !json_is_integer(ns) || json_integer_value(ns) < 0)
		return x ? -EPROTO : -ENOMEM;
	uint64_t n = (uint64_t)json_integer_value(ns);
	spend(forward ? &x->forward : &x->backward, n);
	return forward ? add_forward(t, m) : add_backward(t, m, n);
}

static void spent_cells(struct table *table, const struct intervene_spent *s)
{
	char text[32];
	table_cell(table, s->n ? text_ns(text, sizeof(text), s->total / s->n) : "");
	table_cell(table, s->n ? text_ns(text, sizeof(text), s->least) : "");
	table_cell(table, s->n ? text_ns(text, sizeof(text), s->most) : "");
}

static int by_total(const void *a, const void *b)
{
	const struct intervene_timed *x = a, *y = b;
	uint64_t m = x->forward.total + x->backward.total, n = y->forward.total + y->backward.total;
	return m == n ? strcmp(x->name, y->name) : m < n ? 1 : -1;
}

static void print_table(struct intervene_times *t)
{
	struct table *table = table_new();
	char text[32];
	if (!table)
		return;
	table_columns(table,
		      ">Calls|>Forward: mean|>min|>max|>Backward: mean|>min|>max|Function|Where");
	qsort(t->list, t->n, sizeof(*t->list), by_total);
	for (size_t i = 0; i < t->n; i++) {
		table_cell(table, text_count(text, sizeof(text), t->list[i].forward.n));
		spent_cells(table, &t->list[i].forward);
		spent_cells(table, &t->list[i].backward);
		table_cell(table, t->list[i].name);
		table_cell(table, t->list[i].where);
	}
	table_print(table, stderr, terminal_of(stderr).width, false);
	table_free(table);
}

void intervene_times_print(struct intervene_times *t)
{
	if (!t->n)
		return;
	flush(t);
	print_table(t);
	bool good = t->csv && !fclose(t->csv);
	if (good)
		fprintf(stderr, "ditrace: time: each call is in %s\n", t->path);
	else if (t->csv)
		fprintf(stderr, "ditrace: cannot write %s: %s\n  hint: is the disk full?\n",
			t->path, strerror(errno));
	t->csv = NULL;
}

void intervene_times_free(struct intervene_times *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->list[i].name);
		free(t->list[i].where);
	}
	free(t->list);
	times_free(&t->calls);
	capture_places_free(&t->places);
	if (t->csv)
		fclose(t->csv);
	*t = (struct intervene_times){0};
}
