#include "tracer/intervene/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/table.h"
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

static void print_head(const struct intervene_totals *t, const char *feature, bool is_aten)
{
	static const char *const done[] = {"timed",
					   "computed on the CPU",
					   "computed in another dtype",
					   "compared",
					   "measured",
					   "captured",
					   "printed",
					   "checked"};
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
		fprintf(stderr,
			"  hint: no function that was called is in the list; names are those of "
			"%s\n",
			is_aten ? "operators, such as aten::add.Tensor or add"
				: "Python, such as torch.add or torch.Tensor.add; --level aten has "
				  "operators");
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

static void print_overflown(const struct intervene_totals *t)
{
	struct table *table = table_new();
	char text[32];
	if (!table)
		return;
	table_columns(table, ">Calls|Function|Where");
	for (size_t i = 0; i < t->n; i++) {
		const struct intervene_total *x = &t->list[i];
		if (strcmp(x->feature, OVERFLOWN))
			continue;
		table_cell(table, text_count(text, sizeof(text), x->calls));
		table_cell(table, x->name);
		table_cell(table, x->reason ? x->reason : "");
	}
	table_print(table, stderr, terminal_of(stderr).width, false);
	table_free(table);
}

/* What was done with the calls of a function, in all rows of a feature. */
struct function_line {
	const char *name;
	uint64_t done, left;
	size_t reasons;
};

static int by_done(const void *a, const void *b)
{
	const struct function_line *x = a, *y = b;
	if (x->done != y->done)
		return x->done > y->done ? -1 : 1;
	if (x->left != y->left)
		return x->left > y->left ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* The functions of a feature, most calls first, freed by the caller; NULL: none, or no memory. */
static struct function_line *lines_of(const struct intervene_totals *t, const char *feature,
				      size_t *n)
{
	struct function_line *list = calloc(t->n + 1, sizeof(*list));
	*n = 0;
	for (size_t i = 0; list && i < t->n; i++) {
		const struct intervene_total *x = &t->list[i];
		size_t at = 0;
		if (strcmp(x->feature, feature))
			continue;
		while (at < *n && strcmp(list[at].name, x->name))
			at++;
		list[at].name = x->name;
		*n += at == *n;
		if (x->reason) {
			list[at].left += x->calls;
			list[at].reasons++;
		} else {
			list[at].done += x->calls;
		}
	}
	if (list)
		qsort(list, *n, sizeof(*list), by_done);
	return list;
}

/* "is a view", or "3 is a view, 2 has a tensor without memory"; of `c`, what was not judged, too.
 */
static void why_text(char *out, size_t size, const struct intervene_totals *t, const char *feature,
		     const struct intervene_compare *c, const struct function_line *line)
{
	char calls[32];
	size_t len = 0;
	*out = '\0';
	for (size_t i = 0; i < t->n && len < size; i++) {
		const struct intervene_total *x = &t->list[i];
		if (!x->reason || strcmp(x->feature, feature) || strcmp(x->name, line->name))
			continue;
		const char *number =
		    line->reasons > 1 ? text_count(calls, sizeof(calls), x->calls) : "";
		len += (size_t)snprintf(out + len, size - len, "%s%s%s%s", len ? ", " : "", number,
					*number ? " " : "", x->reason);
	}
	const char *unjudged = c ? intervene_compare_why(c, line->name) : "";
	if (*unjudged && len < size)
		snprintf(out + len, size - len, "%snot judged: %s", len ? ", " : "", unjudged);
	text_drop_part(out);
}

/* A count of 0 is left out. */
static void count_cell(struct table *table, uint64_t n)
{
	char text[32];
	table_cell(table, n ? text_count(text, sizeof(text), n) : "");
}

/* Right is known only where all was judged. */
static void verdict_cells(struct table *table, const struct intervene_compare *c, const char *name)
{
	char text[32];
	const struct intervene_tally n = intervene_compare_of(c, name);
	uint64_t all = n.calls + n.judged_grads;
	count_cell(table, all);
	table_cell(table, !all		 ? ""
			  : n.not_judged ? "?"
					 : text_count(text, sizeof(text), all - n.wrong));
	table_cell(table, all ? text_count(text, sizeof(text), n.wrong) : "");
}

/* `c`: of compare, else NULL. */
static void print_functions(const struct intervene_totals *t, const char *feature,
			    const struct intervene_compare *c)
{
	size_t n;
	char why[512];
	struct function_line *list = lines_of(t, feature, &n);
	struct table *table = list && n ? table_new() : NULL;
	if (table) {
		table_columns(table, c ? ">Compared|>Right|>Wrong" : ">Calls");
		table_columns(table, ">Left alone|Function|Why");
		for (size_t i = 0; i < n; i++) {
			if (c)
				verdict_cells(table, c, list[i].name);
			else
				count_cell(table, list[i].done);
			count_cell(table, list[i].left);
			table_cell(table, list[i].name);
			why_text(why, sizeof(why), t, feature, c, &list[i]);
			table_cell(table, why);
		}
		table_print(table, stderr, terminal_of(stderr).width, false);
	}
	table_free(table);
	free(list);
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

uint64_t intervene_totals_calls(const struct intervene_totals *t, const char *feature)
{
	uint64_t calls = 0;
	for (size_t i = 0; i < t->n; i++)
		calls += strcmp(t->list[i].feature, feature) ? 0 : t->list[i].calls;
	return calls;
}

/* Of a call that --first-nan has not measured, though there are numbers: not on the device meta. */
static bool is_unmeasured(const struct intervene_total *x)
{
	return x->reason && !strcmp(x->feature, intervene_names[INTERVENE_FIRST_NAN]) &&
	       strcmp(x->reason, "has a tensor without numbers") != 0;
}

bool intervene_totals_unmeasured(const struct intervene_totals *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct intervene_total *x = &t->list[i];
		if (is_unmeasured(x) || !strcmp(x->feature, UNSEEN) ||
		    (!strcmp(x->feature, THREADS) && strcmp(x->name, ENTERED) != 0))
			return true;
	}
	return false;
}

/* Why calls were not measured, of all functions together. */
static void print_unmeasured(const struct intervene_totals *t)
{
	char n[32];
	for (size_t i = 0; i < t->n; i++) {
		const struct intervene_total *x = &t->list[i];
		uint64_t calls = 0;
		bool told = false;
		for (size_t k = 0; k < t->n && is_unmeasured(x); k++) {
			const struct intervene_total *y = &t->list[k];
			if (!is_unmeasured(y) || !same(x->reason, y->reason))
				continue;
			told |= k < i;
			calls += y->calls;
		}
		if (!calls || told)
			continue;
		fprintf(stderr, "  not measured: %s: ", text_counted(n, sizeof(n), calls, "call"));
		text_print_safe(stderr, x->reason);
		putc('\n', stderr);
	}
}

void intervene_totals_print(const struct intervene_totals *t, const struct intervene_rules *rules,
			    const struct intervene_compare *c)
{
	if (t->n)
		qsort(t->list, t->n, sizeof(*t->list), by_calls);
	for (int f = 0; f < INTERVENE_FEATURES; f++) {
		if (!rules->rule[f].used)
			continue;
		if (f == INTERVENE_COMPARE)
			intervene_compare_print_verdict(c);
		print_head(t, intervene_names[f], rules->is_aten);
		if (f == INTERVENE_FIRST_NAN)
			print_unmeasured(t);
		else
			print_functions(t, intervene_names[f], f == INTERVENE_COMPARE ? c : NULL);
	}
	print_missing(t);
	print_unseen(t);
	print_threads(t);
	if (!rules->rule[INTERVENE_OVERFLOW].used)
		return;
	bool any = has_any(t, OVERFLOWN);
	fputs(any ? "ditrace: overflow: NaN or infinities came out of\n"
		  : "ditrace: overflow: no NaN and no infinity in what they gave\n",
	      stderr);
	if (any)
		print_overflown(t);
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
