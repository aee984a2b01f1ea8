#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "tracer/intervene/internal.h"

static void print_line(FILE *f, const char *text)
{
	text_print_safe(f, text);
	fputc('\n', f);
}

static void print_one(FILE *f, json_t *columns, json_t *rows)
{
	size_t n = json_array_size(columns);
	struct table *t = n <= TABLE_COLUMNS_MAX ? table_new() : NULL;
	if (!t)
		return;
	for (size_t i = 0; i < n; i++)
		table_column(t, json_text_at(columns, i), TABLE_CENTER);
	for (size_t i = 0; i < json_array_size(rows); i++)
		for (size_t k = 0; k < n; k++)
			table_cell(t, json_text_at(json_array_get(rows, i), k));
	table_print_boxed(t, f, 0);
	table_free(t);
}

void intervene_tables_print(FILE *f, const json_t *m, const struct table *last)
{
	json_t *stack = json_object_get(m, "stack"), *tables = json_object_get(m, "tables");
	for (size_t i = 0; i < json_array_size(stack); i++)
		print_line(f, json_text_at(stack, i));
	print_line(f, json_text_of(m, "title"));
	print_line(f, json_text_of(m, "where"));
	for (size_t i = 0; i < json_array_size(tables); i++) {
		json_t *one = json_array_get(tables, i);
		print_one(f, json_array_get(one, 0), json_array_get(one, 1));
	}
	if (last)
		table_print_boxed(last, f, 0);
	fputc('\n', f);
	fflush(f);
}

static const char *const columns[] = {
    "name", "allclose", "max_abs_diff", "max_relative_diff", "atol", "rtol", "error_info",
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]), FIGURES = 4, NAME_SIZE = 384 };

void intervene_result_columns(struct table *t)
{
	for (size_t i = 0; i < COLUMNS; i++)
		table_column(t, columns[i], TABLE_CENTER);
}

const char *intervene_result_name(char out[static INTERVENE_RESULT_SIZE],
				  const struct replay_row *r)
{
	bool indexed = r->index[0];
	snprintf(out, INTERVENE_RESULT_SIZE, "%s%s%s%s", r->role, indexed ? "[" : "", r->index,
		 indexed ? "]" : "");
	return out;
}

static const char *name_of(char out[static NAME_SIZE], const char *op, const struct replay_row *r)
{
	char result[INTERVENE_RESULT_SIZE];
	snprintf(out, NAME_SIZE, "%s %s", op, intervene_result_name(result, r));
	return out;
}

static const char *error_of(const struct replay_row *r)
{
	return r->verdict == VERDICT_RIGHT ? r->note : r->why;
}

static const char *allclose_of(const struct replay_row *r)
{
	if (!r->has_figures && r->verdict == VERDICT_NOT_JUDGED)
		return "";
	return r->allclose ? "True" : "False";
}

static const char *figure(char out[static 32], const char *format, const struct replay_row *r,
			  int i)
{
	const double figures[FIGURES] = {r->max_abs, r->max_rel, r->atol, r->rtol};
	out[0] = '\0';
	if (r->has_figures)
		snprintf(out, 32, format, figures[i]);
	return out;
}

void intervene_result_cells(struct table *t, const char *op, const struct replay_row *r)
{
	char name[NAME_SIZE], text[32];
	table_cell(t, name_of(name, op, r));
	table_cell(t, allclose_of(r));
	for (int i = 0; i < FIGURES; i++)
		table_cell(t, figure(text, "%.9f", r, i));
	table_cell(t, error_of(r));
}

static void put(FILE *f, const char *text)
{
	putc(',', f);
	csv_line_field(f, text);
}

static void put_row(FILE *f, const struct capture_place *p, const struct replay_row *r,
		    int64_t number)
{
	char name[NAME_SIZE], text[32];
	fprintf(f, "%" PRId64, number);
	put(f, name_of(name, p->op, r));
	put(f, allclose_of(r));
	for (int i = 0; i < FIGURES; i++)
		put(f, figure(text, "%.9g", r, i));
	put(f, error_of(r));
	put(f, verdict_name(r->verdict));
	fprintf(f, r->has_figures ? ",%.9g,%.9g" : ",,", r->cosine, r->ulp);
	put(f, r->dtype);
	put(f, r->device);
	put(f, p->file);
	fprintf(f, ",%" PRId64 "\n", p->line);
}

int intervene_result_csv(FILE *f, const struct capture_places *places, const struct rows *rows,
			 const int64_t *numbers)
{
	fputs("forward_id", f);
	for (size_t i = 0; i < COLUMNS; i++)
		fprintf(f, ",%s", columns[i]);
	fputs(",verdict,cosine,ulp,dtype,device,file,line\n", f);
	for (size_t i = 0; i < rows->n; i++) {
		const struct replay_row *r = &rows->list[i];
		put_row(f, &places->list[r->place], r, numbers[r->number]);
	}
	return ferror(f) ? -EIO : 0;
}
