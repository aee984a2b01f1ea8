#include "tracer/intervene/intervene_tables.h"

#include "base/text.h"
#include "tracer/intervene/json_text.h"

static void print_line(FILE *f, const char *text)
{
	text_print_safe(f, text);
	fputc('\n', f);
}

static void print_one(FILE *f, json_t *columns, json_t *rows)
{
	struct table *t = table_new();
	size_t n = json_array_size(columns);
	if (!t)
		return;
	for (size_t i = 0; i < n; i++)
		table_column(t, json_text_at(columns, i), TABLE_CENTER);
	for (size_t i = 0; i < json_array_size(rows); i++)
		for (size_t k = 0; k < n; k++)
			table_cell(t, json_text_at(json_array_get(rows, i), k));
	table_print_boxed(t, f);
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
		table_print_boxed(last, f);
	fputc('\n', f);
	fflush(f);
}
