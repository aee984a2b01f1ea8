#include "replay/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"

static const char *const keys[] = {"op",      "id",	      "role",
				   "index",   "verdict",      "allclose",
				   "cosine",  "max_abs_diff", "max_relative_diff",
				   "ulp",     "atol",	      "rtol",
				   "reason",  "file",	      "line",
				   "dtype",   "device",	      "cpu_max_abs_diff",
				   "cpu_ulp", "worst",	      "rms",
				   "mean",    "along",	      "cpu_worst",
				   "cpu_rms", "cpu_mean",     "cpu_along",
				   "reach",   "score",	      "note",
				   "dir",     "rank",	      "group",
				   "number"};

enum { KEYS = sizeof(keys) / sizeof(keys[0]), PLAIN_KEYS = 15 };

void replay_count(const struct replay_report *r, struct replay_counts *c)
{
	size_t last = SIZE_MAX;
	*c = (struct replay_counts){.calls = r->done};
	for (size_t i = 0; i < r->places->n; i++) {
		c->skipped += r->outcomes[i].kind == OUTCOME_SKIPPED;
		c->not_run += r->outcomes[i].kind == OUTCOME_NOT_RUN;
	}
	for (size_t i = 0; i < r->rows.n; i++) {
		const struct replay_row *x = &r->rows.list[i];
		c->right += x->verdict == VERDICT_RIGHT;
		c->not_judged += x->verdict == VERDICT_NOT_JUDGED;
		c->wrong += x->verdict == VERDICT_WRONG;
	}
	unsigned char *seen = calloc(r->places->n + 1, 1);
	for (size_t i = 0; seen && i < r->rows.n; i++) {
		last = r->rows.list[i].place;
		if (r->rows.list[i].verdict == VERDICT_WRONG && !seen[last]) {
			seen[last] = 1;
			c->wrong_calls++;
		}
	}
	free(seen);
}

/* "forward result", "gradient of 0". */
static const char *tensor_name(char *out, size_t size, const struct replay_row *r)
{
	if (!strcmp(r->role, "grad"))
		snprintf(out, size, "grad[%s]", r->index);
	else if (r->index[0])
		snprintf(out, size, "%s[%s]", r->role, r->index);
	else
		snprintf(out, size, "%s", r->role);
	return out;
}

static void cell(struct table *t, const char *format, double v, bool there)
{
	char text[64] = "";
	if (there)
		snprintf(text, sizeof(text), format, v);
	table_cell(t, text);
}

static void table_row(struct table *t, const struct replay_row *r, const struct capture_place *p)
{
	static const enum table_style styles[] = {[VERDICT_RIGHT] = TABLE_PLAIN,
						  [VERDICT_WRONG] = TABLE_HOT,
						  [VERDICT_NOT_JUDGED] = TABLE_DIM};
	char text[1024], where[96] = "";
	bool has = r->has_figures;
	table_cell_styled(t, verdict_name(r->verdict), styles[r->verdict]);
	size_t n = strlen(capture_place_name(text, sizeof(text), p));
	if (n < sizeof(text))
		snprintf(text + n, sizeof(text) - n, " %s", tensor_name(where, sizeof(where), r));
	table_cell(t, text);
	snprintf(text, sizeof(text), "%" PRId64, p->id);
	table_cell(t, p->id < 0 ? "" : text);
	table_cell(t, r->dtype);
	table_cell(t, !has ? "" : r->allclose ? "True" : "False");
	cell(t, "%.7f", r->cosine, has);
	cell(t, "%.3g", r->max_abs, has);
	cell(t, "%.3g", r->max_rel, has);
	cell(t, "%.3g", r->ulp, has);
	cell(t, "%.3g", r->atol, has);
	cell(t, "%.3g", r->rtol, has);
	cell(t, r->cpu_emulated ? "~%.3g" : "%.3g", r->cpu_max_abs, r->has_cpu);
	cell(t, "%.3g", r->cpu_ulp, r->has_cpu);
	snprintf(text, sizeof(text), "%s%s%s", r->why, r->why[0] && r->note[0] ? "; " : "",
		 r->note);
	table_cell(t, text);
}

int replay_print_table(FILE *f, struct replay_report *r, int width, bool color)
{
	qsort(r->rows.list, r->rows.n, sizeof(*r->rows.list), row_order);
	return replay_print_rows(f, r, width, color);
}

int replay_print_rows(FILE *f, const struct replay_report *r, int width, bool color)
{
	static const struct {
		const char *name;
		enum table_align align;
		int order;
	} columns[] = {{"Verdict", TABLE_LEFT, 0},  {"Tensor", TABLE_LEFT, 0},
		       {"Id", TABLE_RIGHT, 3},	    {"Dtype", TABLE_LEFT, 2},
		       {"allclose", TABLE_LEFT, 7}, {"Cosine", TABLE_RIGHT, 9},
		       {"max_abs", TABLE_RIGHT, 4}, {"max_rel", TABLE_RIGHT, 8},
		       {"ULP", TABLE_RIGHT, 0},	    {"atol", TABLE_RIGHT, 12},
		       {"rtol", TABLE_RIGHT, 13},   {"CPU max_abs", TABLE_RIGHT, 11},
		       {"CPU ULP", TABLE_RIGHT, 5}, {"Why", TABLE_LEFT, 0}};
	struct table *t = table_new();
	if (!t)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		table_column_optional(t, columns[i].name, columns[i].align, columns[i].order);
	for (size_t i = 0; i < r->rows.n; i++)
		table_row(t, &r->rows.list[i], &r->places->list[r->rows.list[i].place]);
	int rc = r->rows.n ? table_print(t, f, width, color) : 0;
	table_free(t);
	return rc;
}

/* The calls of an op with failures; its first row is its worst. */
static void print_wrong(FILE *f, const struct replay_report *r, size_t first)
{
	const struct replay_row *x = &r->rows.list[first];
	const struct capture_place *p = &r->places->list[x->place];
	char name[1024];
	size_t wrong = 0;
	for (size_t i = first; i < r->rows.n && r->rows.list[i].verdict == VERDICT_WRONG; i++)
		wrong += !strcmp(r->places->list[r->rows.list[i].place].op, p->op);
	text_print_safe(f, capture_place_name(name, sizeof(name), p));
	fprintf(f, "  WRONG");
	if (p->file) {
		fputs("  ", f);
		text_print_safe(f, p->file);
		fprintf(f, ":%" PRId64, p->line);
	}
	if (p->id >= 0)
		fprintf(f, "  call %" PRId64, p->id);
	fprintf(f, "  %s%s%s\n  %s: ", x->dtype, x->device[0] ? ", " : "", x->device,
		tensor_name(name, sizeof(name), x));
	text_print_safe(f, x->why);
	fputs("\n  capture: ", f);
	text_print_safe(f, p->dir);
	fprintf(f, wrong > 1 ? "\n  and %zu more of this op\n" : "\n", wrong - 1);
}

static bool op_before(const struct replay_report *r, size_t i)
{
	const char *op = r->places->list[r->rows.list[i].place].op;
	for (size_t k = 0; k < i; k++)
		if (!strcmp(r->places->list[r->rows.list[k].place].op, op))
			return true;
	return false;
}

static void print_outcomes(FILE *f, const struct replay_report *r, enum outcome_kind kind)
{
	for (size_t i = 0; i < r->places->n; i++) {
		if (r->outcomes[i].kind != kind)
			continue;
		fputs("not run: ", f);
		text_print_safe(f, r->places->list[i].dir);
		fputs("\n  ", f);
		text_print_safe(f, r->outcomes[i].why);
		putc('\n', f);
	}
}

static void print_count(FILE *f, size_t n, const char *what, const char *before)
{
	char text[32];
	if (n)
		fprintf(f, "%s%s %s", before, text_count(text, sizeof(text), n), what);
}

static size_t count_skipped(const struct replay_report *r, size_t from, const char *why)
{
	size_t n = 0;
	for (size_t i = from; i < r->places->n; i++)
		n += r->outcomes[i].kind == OUTCOME_SKIPPED && r->outcomes[i].why &&
		     !strcmp(r->outcomes[i].why, why);
	return n;
}

/* A line for each reason, in the order in which calls are the first with it. */
static void print_skipped(FILE *f, const struct replay_report *r)
{
	char text[32];
	for (size_t i = 0; i < r->places->n; i++) {
		const struct outcome *o = &r->outcomes[i];
		if (o->kind != OUTCOME_SKIPPED || !o->why ||
		    count_skipped(r, 0, o->why) != count_skipped(r, i, o->why))
			continue;
		fprintf(f, "  not compared: %s: ",
			text_count(text, sizeof(text), count_skipped(r, i, o->why)));
		text_print_safe(f, o->why);
		putc('\n', f);
	}
}

void replay_print_summary(FILE *f, struct replay_report *r)
{
	struct replay_counts c;
	char text[32];
	qsort(r->rows.list, r->rows.n, sizeof(*r->rows.list), row_order);
	for (size_t i = 0; i < r->rows.n && r->rows.list[i].verdict == VERDICT_WRONG; i++)
		if (!op_before(r, i))
			print_wrong(f, r, i);
	print_outcomes(f, r, OUTCOME_NOT_RUN);
	replay_count(r, &c);
	fprintf(f, "%s op calls", text_count(text, sizeof(text), c.calls));
	print_count(f, c.wrong_calls, "of them wrong", ", ");
	print_count(f, c.skipped, "not compared", ", ");
	print_count(f, c.not_run, "not run", ", ");
	if (r->judged) {
		fprintf(f, "; %s tensors right", text_count(text, sizeof(text), c.right));
		print_count(f, c.wrong, "wrong", ", ");
		print_count(f, c.not_judged, "not judged", ", ");
	}
	putc('\n', f);
	print_skipped(f, r);
	fprintf(f, "torch %s, CPython %s (", r->torch, r->python);
	text_print_safe(f, r->interpreter);
	fputs(")\n", f);
	if (r->judged)
		fprintf(f, "judged: %s\n", r->judged);
}

/* JSON and CSV: the value of each key as text. */

struct shown_value {
	const char *text; /* borrowed from the row or its capture, or `number`; "" for null */
	char number[32];
	bool is_text; /* quoted in JSON */
	bool is_null;
};

static void set_text(struct shown_value *v, const char *s)
{
	v->is_text = true;
	v->is_null = !s;
	v->text = s ? s : "";
}

static void set_number(struct shown_value *v, double x, bool there)
{
	v->is_null = !there;
	v->is_text = !isfinite(x);
	v->text = there ? v->number : "";
	snprintf(v->number, sizeof(v->number), isnan(x) ? "nan" : "%.9g", x);
}

static void set_int(struct shown_value *v, int64_t x, bool there)
{
	v->is_null = !there;
	v->is_text = false;
	v->text = there ? v->number : "";
	snprintf(v->number, sizeof(v->number), "%" PRId64, x);
}

static void set_bool(struct shown_value *v, bool x, bool there)
{
	v->is_null = !there;
	v->is_text = false;
	v->text = !there ? "" : x ? "true" : "false";
}

/* Which call of which rank it is. */
static void set_place(struct shown_value *v, const struct capture_place *p)
{
	const struct capture_of_collective *c = p->collective;
	set_text(&v[30], p->dir);
	set_int(&v[31], p->rank, p->rank >= 0);
	set_text(&v[32], c ? c->group : NULL);
	set_int(&v[33], c ? c->number : 0, c && c->number);
}

static void row_values(const struct replay_row *r, const struct capture_place *p,
		       struct shown_value *v)
{
	bool has = r->has_figures, cpu = r->has_cpu;
	const double numbers[] = {r->cosine, r->max_abs, r->max_rel, r->ulp, r->atol, r->rtol};
	const double cpu_numbers[] = {r->cpu_max_abs, r->cpu_ulp};
	const double units[] = {r->worst, r->rms, r->mean, r->along};
	const double cpu_units[] = {r->cpu_worst, r->cpu_rms, r->cpu_mean, r->cpu_along};
	set_text(&v[0], p->op);
	set_int(&v[1], p->id, p->id >= 0);
	set_text(&v[2], r->role);
	set_text(&v[3], r->index);
	set_text(&v[4], verdict_name(r->verdict));
	set_bool(&v[5], r->allclose, has || r->verdict != VERDICT_NOT_JUDGED);
	for (int i = 0; i < 6; i++)
		set_number(&v[6 + i], numbers[i], has);
	set_text(&v[12], r->why);
	set_text(&v[13], p->file);
	set_int(&v[14], p->line, p->line > 0);
	set_text(&v[15], r->dtype[0] ? r->dtype : NULL);
	set_text(&v[16], r->device[0] ? r->device : NULL);
	for (int i = 0; i < 2; i++)
		set_number(&v[17 + i], cpu_numbers[i], cpu);
	for (int i = 0; i < 4; i++) {
		set_number(&v[19 + i], units[i], has);
		set_number(&v[23 + i], cpu_units[i], cpu);
	}
	set_number(&v[27], r->reach, has);
	set_number(&v[28], r->score, true);
	set_text(&v[29], r->note[0] ? r->note : NULL);
	set_place(v, p);
}

static void outcome_values(const struct outcome *o, const struct capture_place *p,
			   struct shown_value *v)
{
	for (int i = 0; i < KEYS; i++)
		set_text(&v[i], NULL);
	set_text(&v[0], p->op);
	set_int(&v[1], p->id, p->id >= 0);
	set_text(&v[4], o->kind == OUTCOME_SKIPPED ? "not compared" : "not run");
	set_text(&v[12], o->why);
	set_text(&v[13], p->file);
	set_int(&v[14], p->line, p->line > 0);
	set_place(v, p);
}

typedef int (*print_values)(FILE *f, const struct shown_value *v, int n);

/* Bytes of a path that are not UTF-8 become \xNN, as JSON is UTF-8 only. */
static json_t *json_text(const char *s)
{
	json_t *x = json_string(s);
	if (x)
		return x;
	size_t size = 4 * strlen(s) + 1;
	char *safe = malloc(size);
	if (!safe)
		return NULL;
	text_safe(safe, size, s);
	x = json_string(safe);
	free(safe);
	return x;
}

static json_t *json_value(const struct shown_value *v)
{
	if (v->is_null)
		return json_null();
	return v->is_text ? json_text(v->text) : json_loads(v->text, JSON_DECODE_ANY, NULL);
}

static int print_json(FILE *f, const struct shown_value *v, int n)
{
	json_t *o = json_object();
	bool failed = false;
	for (int i = 0; i < n; i++)
		failed |= json_object_set_new(o, keys[i], json_value(&v[i])) != 0;
	if (failed) {
		json_decref(o);
		return -ENOMEM;
	}
	char *text = json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
	json_decref(o);
	if (!text)
		return -ENOMEM;
	fprintf(f, "%s\n", text);
	free(text);
	return 0;
}

static int print_csv(FILE *f, const struct shown_value *v, int n)
{
	for (int i = 0; i < n; i++) {
		csv_line_field(f, v[i].text);
		putc(i + 1 < n ? ',' : '\n', f);
	}
	return 0;
}

static int columns(const struct replay_report *r)
{
	return r->detail ? KEYS : PLAIN_KEYS;
}

static int print_all(FILE *f, const struct replay_report *r, print_values print)
{
	struct shown_value *v = calloc(KEYS, sizeof(*v));
	int rc = v ? 0 : -ENOMEM;
	for (size_t i = 0; i < r->rows.n && !rc; i++) {
		row_values(&r->rows.list[i], &r->places->list[r->rows.list[i].place], v);
		rc = print(f, v, columns(r));
	}
	for (size_t i = 0; i < r->places->n && !rc; i++) {
		if (r->outcomes[i].kind == OUTCOME_DONE)
			continue;
		outcome_values(&r->outcomes[i], &r->places->list[i], v);
		rc = print(f, v, columns(r));
	}
	free(v);
	return rc ? rc : ferror(f) ? -EIO : 0;
}

int replay_print_json(FILE *f, const struct replay_report *r)
{
	return print_all(f, r, print_json);
}

int replay_print_csv(FILE *f, const struct replay_report *r)
{
	int n = columns(r);
	for (int i = 0; i < n; i++)
		fprintf(f, "%s%c", keys[i], i + 1 < n ? ',' : '\n');
	return print_all(f, r, print_csv);
}

void replay_report_free(struct replay_report *r)
{
	for (size_t i = 0; r->outcomes && i < r->places->n; i++)
		free(r->outcomes[i].why);
	free(r->outcomes);
	rows_free(&r->rows);
}
