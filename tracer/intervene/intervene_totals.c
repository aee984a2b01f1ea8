#include "tracer/intervene/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"

static bool same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void totals_add(struct intervene_totals *t, const char *feature, const char *name,
		       const char *reason, uint64_t calls)
{
	struct intervene_total *x = t->list;
	for (size_t i = 0; i < t->n; i++, x++)
		if (same(x->feature, feature) && same(x->name, name) && same(x->reason, reason)) {
			x->calls += calls;
			return;
		}
	if (array_grow(&t->list, &t->room, t->n + 1, sizeof(*t->list)))
		return;
	x = &t->list[t->n];
	*x = (struct intervene_total){strdup(feature), strdup(name), reason ? strdup(reason) : NULL,
				      calls};
	t->n++;
}

void intervene_totals_add(struct intervene_totals *t, json_t *totals)
{
	for (size_t i = 0; i < json_array_size(totals); i++) {
		json_t *x = json_array_get(totals, i);
		const char *feature = json_string_value(json_array_get(x, 0));
		const char *name = json_string_value(json_array_get(x, 1));
		if (feature && name)
			totals_add(t, feature, name, json_string_value(json_array_get(x, 2)),
				   (uint64_t)json_integer_value(json_array_get(x, 3)));
	}
}

static int by_calls(const void *a, const void *b)
{
	const struct intervene_total *x = a, *y = b;
	if (!x->reason != !y->reason)
		return x->reason ? 1 : -1;
	if (x->calls != y->calls)
		return x->calls > y->calls ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void print_head(const struct intervene_totals *t, const char *feature)
{
	static const char *const done[] = {"timed",
					   "computed on the CPU",
					   "computed in another dtype",
					   "compared",
					   "measured",
					   "captured",
					   "printed"};
	uint64_t calls = 0, left = 0;
	char a[32], b[32], c[32];
	size_t functions = 0;
	int f = 0;
	while (f + 1 < INTERVENE_FEATURES && strcmp(intervene_names[f], feature))
		f++;
	for (size_t i = 0; i < t->n; i++) {
		const struct intervene_total *x = &t->list[i];
		if (strcmp(x->feature, feature))
			continue;
		calls += x->reason ? 0 : x->calls;
		left += x->reason ? x->calls : 0;
		functions += !x->reason;
	}
	fprintf(stderr, "ditrace: %s: %s of %s %s, %s left alone\n", feature,
		text_counted(a, sizeof(a), calls, "call"),
		text_counted(b, sizeof(b), functions, "function"), done[f],
		text_count(c, sizeof(c), left));
	if (!calls && !left)
		fprintf(stderr, "  hint: no function that was called is in the list; names are "
				"those of Python, such as torch.add or torch.Tensor.add\n");
}

/* Pseudo-feature of the counts of what no mode sees. */
#define UNSEEN "unseen"

/* Pseudo-feature of the counts of threads. */
#define THREADS "threads"
#define ENTERED "entered"

static void add_counts(struct intervene_totals *t, const char *feature, json_t *counts)
{
	for (size_t i = 0; i < json_array_size(counts); i++) {
		json_t *x = json_array_get(counts, i);
		const char *what = json_string_value(json_array_get(x, 0));
		if (what)
			totals_add(t, feature, what, NULL,
				   (uint64_t)json_integer_value(json_array_get(x, 1)));
	}
}

void intervene_totals_unseen(struct intervene_totals *t, json_t *unseen, json_t *threads)
{
	add_counts(t, UNSEEN, unseen);
	add_counts(t, THREADS, threads);
}

json_t *intervene_totals_threads(const struct intervene_totals *t)
{
	char text[256] = "";
	size_t n = 0;
	for (size_t i = 0; i < t->n && n < sizeof(text); i++)
		if (!strcmp(t->list[i].feature, THREADS))
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%" PRIu64 " %s",
					      n ? ", " : "", t->list[i].calls, t->list[i].name);
	return n ? json_string(text) : NULL;
}

static void print_threads(const struct intervene_totals *t)
{
	char text[64];
	for (size_t i = 0; i < t->n; i++) {
		const struct intervene_total *x = &t->list[i];
		if (strcmp(x->feature, THREADS) != 0 || !strcmp(x->name, ENTERED))
			continue;
		fprintf(stderr, "ditrace: %s ran ops ",
			text_counted(text, sizeof(text), x->calls, "thread"));
		text_print_safe(stderr, x->name);
		fputs(", where nothing was changed\n", stderr);
	}
}

static void print_unseen(const struct intervene_totals *t)
{
	const char *before = "ditrace: left alone as a whole, with all that they call: ";
	char text[64];
	for (size_t i = 0; i < t->n; i++) {
		if (strcmp(t->list[i].feature, UNSEEN))
			continue;
		fputs(before, stderr);
		text_print_safe(
		    stderr, text_counted(text, sizeof(text), t->list[i].calls, t->list[i].name));
		before = ", ";
	}
	if (*before == ',')
		fputs("\n  hint: --eager turns torch.compile off, PYTORCH_JIT=0 scripting\n",
		      stderr);
}

/* Feature name of calls that produced NaN or infinities; reason: where. */
#define OVERFLOWN "bad"

/* Feature name of functions that were not found; reason: why. */
#define MISSING "missing"

static bool has_any(const struct intervene_totals *t, const char *feature)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->list[i].feature, feature))
			return true;
	return false;
}

static void print_rows(const struct intervene_totals *t, const char *feature, const char *said)
{
	struct table *table = table_new();
	char text[32];
	if (!table)
		return;
	table_column(table, "Calls", TABLE_RIGHT);
	table_column(table, "Function", TABLE_LEFT);
	table_column(table, said, TABLE_LEFT);
	bool any = false;
	for (size_t i = 0; i < t->n; i++) {
		const struct intervene_total *x = &t->list[i];
		if (strcmp(x->feature, feature))
			continue;
		any = true;
		table_cell(table, text_count(text, sizeof(text), x->calls));
		table_cell(table, x->name);
		table_cell(table, x->reason ? x->reason : "");
	}
	if (any)
		table_print(table, stderr, terminal_of(stderr).width, false);
	table_free(table);
}

static bool was_called(const struct intervene_totals *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->list[i].name, name) && strcmp(t->list[i].feature, MISSING) != 0)
			return true;
	return false;
}

static void print_missing(const struct intervene_totals *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct intervene_total *x = &t->list[i];
		if (strcmp(x->feature, MISSING) != 0 || was_called(t, x->name))
			continue;
		fputs("ditrace: ", stderr);
		text_print_safe(stderr, x->name);
		fputs(" was not changed: ", stderr);
		text_print_safe(stderr, x->reason ? x->reason : "not found");
		fputs("\n  hint: the name is that of the module or class that has it, as in "
		      "package.module.function or package.Class.method\n",
		      stderr);
	}
}

void intervene_totals_print(const struct intervene_totals *t, const struct intervene_rules *rules)
{
	if (t->n)
		qsort(t->list, t->n, sizeof(*t->list), by_calls);
	for (int f = 0; f < INTERVENE_FEATURES; f++) {
		if (!rules->rule[f].used)
			continue;
		print_head(t, intervene_names[f]);
		print_rows(t, intervene_names[f], "Left alone, since it");
	}
	print_missing(t);
	print_unseen(t);
	print_threads(t);
	if (!rules->rule[INTERVENE_OVERFLOW].used)
		return;
	fputs(has_any(t, OVERFLOWN)
		  ? "ditrace: overflow: NaN or infinities came out of\n"
		  : "ditrace: overflow: no NaN and no infinity in what they gave\n",
	      stderr);
	print_rows(t, OVERFLOWN, "Where");
}

void intervene_totals_free(struct intervene_totals *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->list[i].feature);
		free(t->list[i].name);
		free(t->list[i].reason);
	}
	free(t->list);
	*t = (struct intervene_totals){0};
}
