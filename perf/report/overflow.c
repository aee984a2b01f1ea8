#define _GNU_SOURCE
#include "perf/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/table.h"
#include "base/text.h"
#include "perf/events/print_event.h"

enum { REASONS_MAX = 16, KEY_MAX = 2048 };

/* The calls of an op from one line in one phase; strings are in the arena. */
struct overflow_row {
	const char *op, *where;
	uint64_t calls; /* with NaN or infinite results */
	uint64_t nan, pos_inf, neg_inf;
	uint64_t first; /* id of the first of them */
};

struct overflow {
	struct intern ids;
	struct arena arena;
	struct overflow_row *rows;
	size_t n, size;
	uint64_t measured;
	struct {
		const char *why;
		uint64_t tensors;
	} reasons[REASONS_MAX];
};

struct overflow *overflow_new(void)
{
	return calloc(1, sizeof(struct overflow));
}

void overflow_free(struct overflow *o)
{
	if (!o)
		return;
	intern_free(&o->ids);
	arena_free(&o->arena);
	free(o->rows);
	free(o);
}

uint64_t overflow_measured(const struct overflow *o)
{
	return o->measured;
}

static int new_row(struct overflow *o, const char *op, const char *where, uint64_t first)
{
	if (o->n == o->size) {
		size_t size = o->size ? 2 * o->size : 64;
		struct overflow_row *rows = reallocarray(o->rows, size, sizeof(*rows));
		if (!rows)
			return -ENOMEM;
		o->rows = rows;
		o->size = size;
	}
	struct overflow_row row = {.op = arena_strndup(&o->arena, op, strlen(op)),
				   .where = arena_strndup(&o->arena, where, strlen(where)),
				   .first = first};
	if (!row.op || !row.where)
		return -ENOMEM;
	o->rows[o->n++] = row;
	return 0;
}

/* The row of the event's op and line; NULL if out of memory. */
static struct overflow_row *row_of_overflow(struct overflow *o, const struct op_event *ev)
{
	char where[WHERE_TEXT_MAX], key[KEY_MAX];
	bool is_new;
	const struct py_frame *frame = py_stack_where(ev->where_stack);
	event_where_text(where, sizeof(where), ev);
	int len = snprintf(key, sizeof(key), "%d %" PRId32 " %s %s", ev->phase,
			   frame ? frame->line : -1, ev->op->name, frame ? frame->file : where);
	len = len < KEY_MAX ? len : KEY_MAX - 1;
	int64_t id = intern(&o->ids, key, (uint32_t)len, &is_new);
	if (id < 0 || (is_new && new_row(o, ev->op->name, where, ev->id)))
		return NULL;
	return (size_t)id < o->n ? &o->rows[id] : NULL;
}

static void count_reason(struct overflow *o, const char *why)
{
	for (size_t i = 0; i < REASONS_MAX; i++) {
		if (!o->reasons[i].why)
			o->reasons[i].why = arena_strndup(&o->arena, why, strlen(why));
		if (!o->reasons[i].why || strcmp(o->reasons[i].why, why) != 0)
			continue;
		o->reasons[i].tensors++;
		return;
	}
}

int overflow_add(struct overflow *o, const struct op_event *ev)
{
	if (!ev->stats)
		return 0;
	o->measured++;
	for (uint32_t i = 0; i < ev->stats->n; i++)
		if (ev->stats->rows[i].why)
			count_reason(o, ev->stats->rows[i].why);
	if (!event_bad_results(ev) || op_gives_no_numbers(ev->op) || event_gave_view(ev))
		return 0;
	struct overflow_row *r = row_of_overflow(o, ev);
	if (!r)
		return -ENOMEM;
	r->calls++;
	for (uint32_t i = 0; i < ev->stats->n; i++) {
		const struct tensor_stats *t = &ev->stats->rows[i];
		if (t->why || !t->place.is_result)
			continue;
		r->nan += t->stats.nan;
		r->pos_inf += t->stats.pos_inf;
		r->neg_inf += t->stats.neg_inf;
	}
	return 0;
}

static int compare_overflows(const void *a, const void *b)
{
	const struct overflow_row *x = a, *y = b;
	uint64_t xi = x->pos_inf + x->neg_inf, yi = y->pos_inf + y->neg_inf;
	if (x->nan != y->nan)
		return x->nan > y->nan ? -1 : 1;
	if (xi != yi)
		return xi > yi ? -1 : 1;
	return (x->first > y->first) - (x->first < y->first);
}

static void add_count(struct table *t, uint64_t n)
{
	char text[32];
	table_cell(t, text_count(text, sizeof(text), n));
}

static void fill(struct table *t, const struct overflow_row *rows, size_t n, size_t limit)
{
	static const char *const numbers[] = {"Calls", "NaN", "+inf", "-inf", "First id"};
	static const int orders[] = {3, 0, 0, 0, 4};
	char line[64], count[32];
	size_t shown = limit && limit < n ? limit : n;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		table_column_optional(t, numbers[i], TABLE_RIGHT, orders[i]);
	table_columns(t, "Op|Where");
	for (size_t i = 0; i < shown; i++) {
		add_count(t, rows[i].calls);
		add_count(t, rows[i].nan);
		add_count(t, rows[i].pos_inf);
		add_count(t, rows[i].neg_inf);
		add_count(t, rows[i].first);
		table_cell(t, op_text(rows[i].op));
		table_cell(t, rows[i].where);
	}
	if (shown == n)
		return;
	snprintf(line, sizeof(line), "and %s more row%s",
		 text_count(count, sizeof(count), n - shown), n - shown == 1 ? "" : "s");
	table_line(t, line);
}

static int print_rows(const struct overflow *o, FILE *f, size_t limit, struct terminal terminal)
{
	int r = -ENOMEM;
	struct table *t = table_new();
	struct overflow_row *rows = reallocarray(NULL, o->n, sizeof(*rows));
	if (t && rows) {
		memcpy(rows, o->rows, o->n * sizeof(*rows));
		qsort(rows, o->n, sizeof(*rows), compare_overflows);
		fill(t, rows, o->n, limit);
		r = table_print(t, f, terminal.width, terminal.color);
	}
	free(rows);
	table_free(t);
	return r;
}

int overflow_print(const struct overflow *o, FILE *f, size_t limit, struct terminal terminal)
{
	char count[32];
	int r = 0;
	fprintf(f, "ditrace: measured %s call%s: ", text_count(count, sizeof(count), o->measured),
		o->measured == 1 ? "" : "s");
	if (o->n) {
		fputs("NaN or infinities came out of\n\n", f);
		r = print_rows(o, f, limit, terminal);
		putc('\n', f);
	} else {
		fputs("no NaN and no infinity in what they gave\n", f);
	}
	for (size_t i = 0; i < REASONS_MAX && o->reasons[i].why; i++) {
		fprintf(f, "  not measured: %s tensor%s: ",
			text_count(count, sizeof(count), o->reasons[i].tensors),
			o->reasons[i].tensors == 1 ? "" : "s");
		text_print_safe(f, o->reasons[i].why);
		putc('\n', f);
		if (!strcmp(o->reasons[i].why,
			    "memory on a device")) /* replay/capture/describe.c */
			fputs("  hint: --overflow measures from inside of the process\n", f);
	}
	return r ? r : ferror(f) ? -EIO : 0;
}
