/* Blocks of record_function as a table, CSV and JSON. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "perf/report/internal.h"

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
	       : sort == REPORT_BY_MIN	? (r->calls ? r->min_ns : 0)
	       : sort == REPORT_BY_P50	? quantile(r, 0.5)
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

struct block_cell {
	const struct block_row *r;
	uint64_t observed_ns;
	const struct report_opts *opts;
	const struct file_names *files;
};

static const char *ns_text(char *out, size_t size, const struct block_cell *c, uint64_t ns)
{
	return c->r->calls ? text_ns(out, size, ns) : "";
}

static const char *percent_cell(char *out, size_t size, const struct block_cell *c)
{
	snprintf(out, size, "%.1f%%", report_percent(c->r->total_ns, c->observed_ns));
	return c->r->calls ? out : "";
}

static const char *total_cell(char *out, size_t size, const struct block_cell *c)
{
	const uint64_t steps = c->opts->per_step ? c->opts->per_step : 1;
	return ns_text(out, size, c, c->r->total_ns / steps);
}

static const char *calls_cell(char *out, size_t size, const struct block_cell *c)
{
	return report_count_text(out, size, c->r->calls, c->opts->per_step);
}

static const char *mean_cell(char *out, size_t size, const struct block_cell *c)
{
	return ns_text(out, size, c, mean_of(c->r));
}

static const char *min_cell(char *out, size_t size, const struct block_cell *c)
{
	return ns_text(out, size, c, c->r->min_ns);
}

static const char *p50_cell(char *out, size_t size, const struct block_cell *c)
{
	return ns_text(out, size, c, quantile(c->r, 0.5));
}

static const char *p99_cell(char *out, size_t size, const struct block_cell *c)
{
	return ns_text(out, size, c, quantile(c->r, 0.99));
}

static const char *max_cell(char *out, size_t size, const struct block_cell *c)
{
	return ns_text(out, size, c, c->r->max_ns);
}

static const char *name_cell(char *out, size_t size, const struct block_cell *c)
{
	if (!c->r->unended)
		return c->r->name;
	snprintf(out, size, "%s (%" PRIu64 " not ended)", c->r->name, c->r->unended);
	return out;
}

static const char *where_cell(char *out, size_t size, const struct block_cell *c)
{
	const struct block_row *r = c->r;
	const struct py_frame where = {
	    .file = r->file, .function = r->function, .text = r->text, .line = r->line};
	return where_text(out, size, r->file ? &where : NULL, NULL, 0, c->files);
}

static const char *file_cell(char *out, size_t size, const struct block_cell *c)
{
	return c->r->file ? c->r->file : where_cell(out, size, c);
}

static const char *function_cell(char *out, size_t size, const struct block_cell *c)
{
	return c->r->function ? c->r->function : where_cell(out, size, c);
}

enum { NO_SORT = -1 };

static const struct {
	const char *name, *header;
	int sort;  /* enum report_sort or NO_SORT */
	int order; /* in which it gives way, see table_column_optional; -1: not shown by default */
	const char *(*text)(char *out, size_t size, const struct block_cell *c);
} columns[] = {{"total_percent", "Total %", REPORT_BY_TOTAL, 0, percent_cell},
	       {"total", "Total", REPORT_BY_TOTAL, 0, total_cell},
	       {"calls", "Calls", REPORT_BY_CALLS, 2, calls_cell},
	       {"mean", "Mean", REPORT_BY_MEAN, 3, mean_cell},
	       {"min", "Min", REPORT_BY_MIN, -1, min_cell},
	       {"p50", "P50", REPORT_BY_P50, -1, p50_cell},
	       {"p99", "P99", REPORT_BY_P99, 8, p99_cell},
	       {"max", "Max", REPORT_BY_MAX, 7, max_cell},
	       {"block", "Block", NO_SORT, 0, name_cell},
	       {"where", "Where", NO_SORT, 0, where_cell},
	       {"file", "File", NO_SORT, -1, file_cell},
	       {"function", "Function", NO_SORT, -1, function_cell}};
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

/* The column of that name of `len` bytes; -EINVAL: there is none. */
static int column_of(const char *name, size_t len)
{
	for (int i = 0; i < COLUMNS; i++)
		if (strlen(columns[i].name) == len && !strncmp(name, columns[i].name, len))
			return i;
	return -EINVAL;
}

/* The names of all columns, or of those that rows can be sorted by. */
static const char *column_names(char *out, size_t size, bool of_sort)
{
	size_t used = 0;
	for (size_t i = 0; i < COLUMNS && used < size; i++)
		if (!of_sort || columns[i].sort != NO_SORT)
			used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "",
						 columns[i].name);
	return out;
}

int code_blocks_parse_sort(const char *text, enum report_sort *sort, struct err *e)
{
	char names[160];
	int i = column_of(text, strlen(text));
	if (i >= 0 && columns[i].sort != NO_SORT) {
		*sort = (enum report_sort)columns[i].sort;
		return 0;
	}
	err_set(e, -EINVAL, "--sort: blocks cannot be sorted by \"%.40s\"", text);
	return err_hint(e, "one of %s", column_names(names, sizeof(names), true));
}

int code_blocks_parse_columns(const char *text, struct report_columns *out, struct err *e)
{
	char names[160];
	out->n = 0;
	for (const char *s = text;; s++) {
		size_t len = strcspn(s, ",");
		int i = column_of(s, len);
		if (i < 0 || out->n == REPORT_COLUMNS_MAX) {
			err_set(e, -EINVAL, "--columns: %s \"%.*s\"",
				i < 0 ? "blocks have no" : "too many, from",
				(int)(len < 40 ? len : 40), s);
			return err_hint(e, "choose among %s",
					column_names(names, sizeof(names), false));
		}
		out->which[out->n++] = (unsigned char)i;
		s += len;
		if (!*s)
			return 0;
	}
}

static struct report_columns default_columns(void)
{
	struct report_columns c = {0};
	for (unsigned char i = 0; i < COLUMNS; i++)
		if (columns[i].order >= 0)
			c.which[c.n++] = i;
	return c;
}

static void add_head(struct table *t, const struct report_columns *c,
		     const struct report_opts *opts)
{
	bool told = false;
	for (size_t i = 0; i < c->n; i++) {
		const unsigned char k = c->which[i];
		char header[32];
		bool is_sort = !told && columns[k].sort == (int)opts->sort;
		told |= is_sort;
		snprintf(header, sizeof(header), "%s%s", columns[k].header, is_sort ? " v" : "");
		table_column_optional(t, header,
				      columns[k].sort == NO_SORT ? TABLE_LEFT : TABLE_RIGHT,
				      is_sort || opts->columns ? 0 : columns[k].order);
	}
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
	const struct report_columns usual = default_columns(),
				    *c = opts->columns ? opts->columns : &usual;
	struct table *t = table_new();
	struct file_names files = {0};
	size_t shown = 0;
	char line[80], more[48];
	if (!t)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		file_names_add(&files, rows[i]->file);
	add_head(t, c, opts);
	for (size_t i = 0; i < n; i++) {
		const struct block_cell row = {rows[i], observed_ns, opts, &files};
		char text[WHERE_TEXT_MAX];
		if (!is_shown(rows[i], observed_ns, shown, opts))
			continue;
		shown++;
		for (size_t k = 0; k < c->n; k++)
			table_cell(t, columns[c->which[k]].text(text, sizeof(text), &row));
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
