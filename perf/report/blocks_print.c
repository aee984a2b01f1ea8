/* Blocks of record_function as a table, CSV and JSON. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "perf/report/internal.h"

static const struct {
	const char *name, *header;
	enum report_sort sort;
	int order; /* in which it gives way, see table_column_optional */
} numbers[] = {{"total", "Total %", REPORT_BY_TOTAL, 0}, {"total", "Total", REPORT_BY_TOTAL, 0},
	       {"calls", "Calls", REPORT_BY_CALLS, 2},	 {"mean", "Mean", REPORT_BY_MEAN, 3},
	       {"p99", "P99", REPORT_BY_P99, 8},	 {"max", "Max", REPORT_BY_MAX, 7}};
enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

int code_blocks_parse(const char *group, struct err *e)
{
	const char *at = group ? strstr(group, "block") : NULL;
	if (!at || (at != group && at[-1] != ',') || (at[5] && at[5] != ','))
		return 0;
	if (!strcmp(group, "block"))
		return 1;
	err_set(e, -EINVAL, "--group %s: blocks do not go with other keys", group);
	return err_hint(e, "--group block alone: its rows are by name and line");
}

int code_blocks_parse_sort(const char *text, enum report_sort *sort, struct err *e)
{
	for (size_t i = 0; i < NUMBERS; i++)
		if (!strcmp(text, numbers[i].name)) {
			*sort = numbers[i].sort;
			return 0;
		}
	err_set(e, -EINVAL, "--sort: blocks cannot be sorted by \"%.40s\"", text);
	return err_hint(e, "one of total, calls, mean, p99, max");
}

static uint64_t mean_of(const struct block_row *r)
{
	return r->calls ? r->sum_ns / r->calls : 0;
}

static uint64_t quantile(const struct block_row *r, double q)
{
	uint64_t ns = histogram_quantile(&r->times, q);
	return ns > r->max_ns ? r->max_ns : ns < r->min_ns && r->calls ? r->min_ns : ns;
}

static uint64_t sort_key(const struct block_row *r, enum report_sort sort)
{
	return sort == REPORT_BY_CALLS	? r->calls
	       : sort == REPORT_BY_MEAN ? mean_of(r)
	       : sort == REPORT_BY_P99	? quantile(r, 0.99)
	       : sort == REPORT_BY_MAX	? r->max_ns
					: r->total_ns;
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct block_row *x = *(const struct block_row *const *)a,
			       *y = *(const struct block_row *const *)b;
	const enum report_sort sort = *(const enum report_sort *)arg;
	const uint64_t of_x = sort_key(x, sort), of_y = sort_key(y, sort);
	if (of_x != of_y)
		return of_x < of_y ? 1 : -1;
	int by_name = strcmp(x->name, y->name);
	return by_name ? by_name : (x->line > y->line) - (x->line < y->line);
}

/* The caller frees the array. NULL if out of memory. */
static const struct block_row **sorted(const struct code_blocks *b, enum report_sort sort)
{
	const struct block_row **rows = malloc((b->row_ids.used + 1) * sizeof(*rows));
	for (uint32_t i = 0; rows && i < b->row_ids.used; i++)
		rows[i] = &b->rows[i];
	if (rows)
		qsort_r(rows, b->row_ids.used, sizeof(*rows), compare, &sort);
	return rows;
}

/* A block that has not ended has no time, and is shown. */
static bool is_shown(const struct block_row *r, uint64_t observed_ns, size_t shown,
		     const struct report_opts *opts)
{
	return (report_percent(r->total_ns, observed_ns) >= opts->percent_limit || r->unended) &&
	       (!opts->limit || shown < opts->limit);
}

static void add_head(struct table *t, enum report_sort sort)
{
	for (size_t i = 0; i < NUMBERS; i++) {
		char header[32];
		bool is_sort =
		    numbers[i].sort == sort && (!i || numbers[i].sort != numbers[i - 1].sort);
		snprintf(header, sizeof(header), "%s%s", numbers[i].header, is_sort ? " v" : "");
		table_column_optional(t, header, TABLE_RIGHT, is_sort ? 0 : numbers[i].order);
	}
	table_column(t, "Block", TABLE_LEFT);
	table_column(t, "Where", TABLE_LEFT);
}

static void add_row(struct table *t, const struct block_row *r, uint64_t observed_ns,
		    const struct file_names *files)
{
	const struct py_frame where = {
	    .file = r->file, .function = r->function, .text = r->text, .line = r->line};
	const uint64_t times[] = {mean_of(r), quantile(r, 0.99), r->max_ns};
	char text[WHERE_TEXT_MAX];
	snprintf(text, sizeof(text), "%.1f%%", report_percent(r->total_ns, observed_ns));
	table_cell(t, r->calls ? text : "");
	table_cell(t, r->calls ? text_ns(text, sizeof(text), r->total_ns) : "");
	table_cell(t, text_count(text, sizeof(text), r->calls));
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		table_cell(t, r->calls ? text_ns(text, sizeof(text), times[i]) : "");
	if (r->unended)
		snprintf(text, sizeof(text), "%s (%" PRIu64 " not ended)", r->name, r->unended);
	table_cell(t, r->unended ? text : r->name);
	table_cell(t, r->file ? where_text(text, sizeof(text), &where, "", 0, files)
			      : "(no Python frame)");
}

static void print_unknown(FILE *f, const struct code_blocks *b)
{
	char n[48];
	uint64_t unended = 0;
	for (uint32_t i = 0; i < b->row_ids.used; i++)
		unended += b->rows[i].unended;
	if (unended)
		fprintf(f, "%s had not ended where the recording, or the part of it, does\n",
			text_counted(n, sizeof(n), unended, "block"));
	if (b->pairs.nameless)
		fprintf(f, "of %s the name or the end is not known\n",
			text_counted(n, sizeof(n), b->pairs.nameless, "block"));
}

static int print_table(FILE *f, const struct block_row *const *rows, size_t n, uint64_t observed_ns,
		       const struct report_opts *opts)
{
	struct table *t = table_new();
	struct file_names files = {0};
	size_t shown = 0;
	char line[80], more[48];
	if (!t)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		file_names_add(&files, rows[i]->file);
	add_head(t, opts->sort);
	for (size_t i = 0; i < n; i++)
		if (is_shown(rows[i], observed_ns, shown, opts)) {
			add_row(t, rows[i], observed_ns, &files);
			shown++;
		}
	snprintf(line, sizeof(line), "%s", text_counted(more, sizeof(more), n - shown, "more row"));
	if (shown < n)
		table_line(t, line);
	int r = table_print(t, f, opts->terminal.width, opts->terminal.color);
	file_names_free(&files);
	table_free(t);
	return r;
}

int code_blocks_print(FILE *f, const struct code_blocks *b, uint64_t observed_ns,
		      const struct report_opts *opts)
{
	const struct block_row **rows = sorted(b, opts->sort);
	int r = !rows		  ? -ENOMEM
		: b->row_ids.used ? print_table(f, rows, b->row_ids.used, observed_ns, opts)
				  : 0;
	if (!r && !b->row_ids.used && !b->pairs.nameless)
		fputs("no block of record_function was recorded\n", f);
	if (!r)
		print_unknown(f, b);
	free(rows);
	return r ? r : ferror(f) ? -EIO : 0;
}

/* A field for programs: a text, or the digits of a number; NULL: not known. */
struct block_field {
	const char *name, *text;
	bool is_number;
	char digits[32];
};

enum { BLOCK_FIELDS = 14 };

static void put_number(struct block_field *f, const char *name, uint64_t n)
{
	*f = (struct block_field){.name = name, .is_number = true};
	snprintf(f->digits, sizeof(f->digits), "%" PRIu64, n);
}

static size_t fields_of(struct block_field *f, const struct block_row *r, uint64_t observed_ns)
{
	size_t n = 0;
	f[n++] = (struct block_field){.name = "block", .text = r->name};
	put_number(&f[n++], "calls", r->calls);
	put_number(&f[n++], "unended", r->unended);
	put_number(&f[n++], "total_ns", r->total_ns);
	put_number(&f[n++], "mean_ns", mean_of(r));
	put_number(&f[n++], "min_ns", r->calls ? r->min_ns : 0);
	put_number(&f[n++], "p50_ns", quantile(r, 0.5));
	put_number(&f[n++], "p99_ns", quantile(r, 0.99));
	put_number(&f[n++], "max_ns", r->max_ns);
	put_number(&f[n], "total_percent", 0);
	snprintf(f[n].digits, sizeof(f[n].digits), "%.4f",
		 report_percent(r->total_ns, observed_ns));
	n++;
	f[n++] = (struct block_field){.name = "file", .text = r->file};
	put_number(&f[n], "line", (uint64_t)r->line);
	f[n++].is_number = r->file;
	f[n++] = (struct block_field){.name = "function", .text = r->function};
	f[n++] = (struct block_field){.name = "text", .text = r->text};
	return n;
}

int code_blocks_json(struct json_out *j, const char *key, const struct code_blocks *b,
		     uint64_t observed_ns, const struct report_opts *opts)
{
	const struct block_row **rows = sorted(b, opts->sort);
	struct block_field fields[BLOCK_FIELDS];
	size_t shown = 0;
	if (!rows)
		return -ENOMEM;
	json_open(j, key, '[');
	for (uint32_t i = 0; i < b->row_ids.used; i++) {
		if (!is_shown(rows[i], observed_ns, shown++, opts))
			continue;
		size_t n = fields_of(fields, rows[i], observed_ns);
		json_line(j);
		json_open(j, NULL, '{');
		for (size_t k = 0; k < n; k++)
			if (fields[k].is_number)
				json_format(j, fields[k].name, "%s", fields[k].digits);
			else
				json_text(j, fields[k].name, fields[k].text);
		json_close(j, '}');
	}
	json_line(j);
	json_close(j, ']');
	free(rows);
	return 0;
}

int code_blocks_print_csv(FILE *f, const struct code_blocks *b, uint64_t observed_ns,
			  const struct report_opts *opts)
{
	static const struct block_row none;
	const struct block_row **rows = sorted(b, opts->sort);
	struct block_field fields[BLOCK_FIELDS];
	size_t n = fields_of(fields, &none, 1), shown = 0;
	if (!rows)
		return -ENOMEM;
	for (size_t k = 0; k < n; k++)
		fprintf(f, "%s%s", k ? "," : "", fields[k].name);
	putc('\n', f);
	for (uint32_t i = 0; i < b->row_ids.used; i++) {
		if (!is_shown(rows[i], observed_ns, shown++, opts))
			continue;
		fields_of(fields, rows[i], observed_ns);
		for (size_t k = 0; k < n; k++) {
			const char *text = fields[k].is_number ? fields[k].digits : fields[k].text;
			fputs(k ? "," : "", f);
			csv_text(f, text ? text : "");
		}
		putc('\n', f);
	}
	free(rows);
	return ferror(f) ? -EIO : 0;
}
