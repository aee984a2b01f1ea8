/* The columns of the table of times: which there are of rows, which are chosen, and their cells. */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "perf/report/internal.h"

const char *const *report_column_names(void)
{
	static const char *names[REPORT_COLUMNS_MAX + 2];
	for (size_t i = 0; i < report_ncolumns; i++)
		names[i] = report_columns[i].name;
	names[report_ncolumns] = "block"; /* the only one that none but blocks have */
	return names;
}

static bool is_of(const struct report_column *c, unsigned keys)
{
	return c->keys ? (keys & c->keys) != 0 : !(keys & AGGREGATE_SAMPLES);
}

static bool is_usual(const struct report_column *c, unsigned keys)
{
	static const char *const not_beside[] = {"self_percent", "total_percent", "self",
						 "total",	 "p99",		  "max"};
	if (c->keys == AGGREGATE_RANKS && keys & (AGGREGATE_RANK | AGGREGATE_SIDES))
		return false;
	if (c->keys & AGGREGATE_FILE) /* rows by line show them in "where" */
		return !(keys & AGGREGATE_LINE) && keys & c->keys;
	if (c->keys & AGGREGATE_FUNCTION)
		return !(keys & AGGREGATE_LINE) && keys & AGGREGATE_FUNCTION;
	for (size_t i = 0; keys & AGGREGATE_SIDES && i < sizeof(not_beside) / sizeof(not_beside[0]);
	     i++)
		if (!strcmp(c->name, not_beside[i]))
			return false;
	return c->flags & COL_USUAL && is_of(c, keys);
}

bool report_columns_has(const char *name, unsigned keys)
{
	size_t i = 0;
	while (i < report_ncolumns && strcmp(report_columns[i].name, name) != 0)
		i++;
	return i < report_ncolumns && is_of(&report_columns[i], keys);
}

static int no_column(const char *word, size_t len, const char *why, unsigned keys, struct err *e)
{
	char names[sizeof(e->hint)] = "", list[256];
	char typed[SUGGESTIONS_WORD];
	struct suggestions near = {.word = typed};
	size_t used = 0;
	snprintf(typed, sizeof(typed), "%.*s", (int)(len < sizeof(typed) ? len : 0), word);
	for (size_t i = 0; i < report_ncolumns && used < sizeof(names); i++) {
		if (!is_of(&report_columns[i], keys))
			continue;
		suggestions_add(&near, report_columns[i].name);
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
					 used ? ", " : "", report_columns[i].name);
	}
	err_set(e, -EINVAL, "--columns: %s \"%.*s\"", why, (int)(len < 40 ? len : 40), word);
	return suggestions_list(&near, list, sizeof(list)) ? err_hint(e, "near it: %s", list)
							   : err_hint(e, "one of %s", names);
}

/* The index of the column of that name. "device" is that of rows grouped by it, else the time. */
static size_t column_of(const char *name, size_t len, unsigned keys)
{
	size_t i = 0;
	if (!(keys & AGGREGATE_DEVICE) && len == 6 && !strncmp(name, "device", len))
		name = "device_time", len = strlen(name);
	while (i < report_ncolumns && (strlen(report_columns[i].name) != len ||
				       strncmp(report_columns[i].name, name, len) != 0))
		i++;
	return i;
}

int report_columns_parse(const char *text, unsigned keys, struct report_columns *out, struct err *e)
{
	out->n = 0;
	for (const char *s = text;;) {
		size_t len = strcspn(s, ",");
		size_t i = column_of(s, len, keys);
		if (i == report_ncolumns)
			return no_column(s, len, "there is no", keys, e);
		if (!is_of(&report_columns[i], keys))
			return no_column(s, len, "rows in this grouping have no", keys, e);
		if (out->n == REPORT_COLUMNS_MAX)
			return no_column(s, len, "too many, from", keys, e);
		out->which[out->n++] = (unsigned char)i;
		if (!s[len])
			return 0;
		s += len + 1;
	}
}

unsigned report_columns_keys(const struct report_columns *c)
{
	unsigned keys = 0;
	for (size_t i = 0; i < c->n; i++)
		keys |= report_columns[c->which[i]].keys;
	return keys;
}

/* Whether rows are sorted by the column: of several that show the key, the first. */
static bool is_sorted(const struct report_columns *c, size_t i, enum report_sort sort)
{
	static const struct {
		enum report_sort sort;
		const char *column;
	} of[] = {{REPORT_BY_SELF, "overhead"},
		  {REPORT_BY_SELF, "self_percent"},
		  {REPORT_BY_SELF, "self"},
		  {REPORT_BY_TOTAL, "both_percent"},
		  {REPORT_BY_TOTAL, "total_percent"},
		  {REPORT_BY_TOTAL, "total"},
		  {REPORT_BY_DEVICE_TIME, "device_percent"},
		  {REPORT_BY_CALLS, "samples"},
		  {REPORT_BY_LINE, "where"}};
	const char *name = report_columns[c->which[i]].name;
	bool is = !strcmp(name, report_sort_names[sort]);
	for (size_t k = 0; k < sizeof(of) / sizeof(of[0]); k++)
		is |= of[k].sort == sort && !strcmp(name, of[k].column);
	for (size_t before = 0; is && before < i; before++)
		if (is_sorted(c, before, sort))
			return false;
	return is;
}

void report_columns_default(unsigned keys, enum report_sort sort, struct report_columns *out)
{
	const char *name = "";
	for (int twice = 0; twice < 2; twice++) {
		bool is_shown = sort >= REPORT_BY_OP;
		out->n = 0;
		for (unsigned char i = 0; i < report_ncolumns; i++) {
			const struct report_column *c = &report_columns[i];
			if (!is_usual(c, keys) && !(is_of(c, keys) && !strcmp(c->name, name)))
				continue;
			out->which[out->n++] = i;
			is_shown |= is_sorted(out, out->n - 1, sort);
		}
		if (is_shown)
			return;
		name = report_sort_names[sort];
	}
}

static bool is_column(const struct report_columns *c, size_t i, const char *name)
{
	return i < c->n && !strcmp(report_columns[c->which[i]].name, name);
}

/* Where there are devices, the host's total gives way to their time. */
static int order_of(const struct report_columns *c, size_t i)
{
	bool beside = is_column(c, i, "total_percent") && is_column(c, i + 1, "device_percent");
	return beside ? 2 : report_columns[c->which[i]].order;
}

void report_columns_head(struct table *t, const struct report_columns *c,
			 const struct report_opts *opts)
{
	char header[64];
	for (size_t i = 0; i < c->n; i++) {
		const struct report_column *col = &report_columns[c->which[i]];
		bool ascending = opts->sort >= REPORT_BY_OP;
		snprintf(header, sizeof(header), "%s%s", col->header,
			 !is_sorted(c, i, opts->sort) ? ""
			 : ascending		      ? " ^"
						      : " v");
		table_column_optional(t, header, col->flags & COL_LEFT ? TABLE_LEFT : TABLE_RIGHT,
				      opts->columns ? 0 : order_of(c, i));
	}
}

/* Rows that have activities only have no time of the host. */
static const char *cell_of(char *out, size_t size, const struct report_column *c,
			   const struct column_row *row)
{
	struct column_row w = *row;
	bool of_host = !(c->flags & COL_LEFT) && (!c->keys || c->keys == AGGREGATE_RANKS);
	bool is_other = w.r->activities;
	for (int k = 0; k < MEMORY_KINDS; k++)
		is_other |= w.r->memory[k].allocs || w.r->memory[k].frees;
	w.memory = &w.r->memory[c->flags & COL_DEVICES ? MEMORY_DEVICES : MEMORY_CPU];
	return of_host && !w.r->calls && is_other ? "-" : c->text(out, size, &w);
}

/* Of its part of the time of devices, or of threads. */
static enum table_style heat_of(const struct report_column *c, const struct column_row *w)
{
	const bool of_devices = c->keys & AGGREGATE_ACTIVITIES;
	double part = of_devices ? report_percent(w->r->device_ns, w->opts->busy_ns)
				 : report_percent(w->r->self_ns, w->observed_ns);
	return part >= 10 ? TABLE_HOT : part >= 3 ? TABLE_WARM : TABLE_PLAIN;
}

void report_columns_rest(struct table *t, const struct report_columns *c,
			 const struct aggregate_row *rest, size_t n, uint64_t observed_ns,
			 const struct report_opts *opts)
{
	const struct column_row row = {.r = rest, .observed_ns = observed_ns, .opts = opts};
	char text[WHERE_TEXT_MAX], rows[64];
	text_counted(rows, sizeof(rows), n, "more row");
	size_t named = c->n - 1; /* the first column of the rows' keys, else the last */
	while (named && report_columns[c->which[named - 1]].flags & COL_LEFT)
		named--;
	for (size_t i = 0; i < c->n; i++) {
		const struct report_column *col = &report_columns[c->which[i]];
		table_cell(t, i == named	     ? rows
			      : col->flags & COL_SUM ? cell_of(text, sizeof(text), col, &row)
						     : "");
	}
}

void report_columns_row(struct table *t, const struct report_columns *c,
			const struct aggregate_row *r, uint64_t observed_ns,
			const struct report_opts *opts, const struct file_names *files)
{
	const struct column_row row = {
	    .r = r, .observed_ns = observed_ns, .opts = opts, .files = files};
	char text[WHERE_TEXT_MAX];
	for (size_t i = 0; i < c->n; i++) {
		const struct report_column *col = &report_columns[c->which[i]];
		table_cell_styled(t, cell_of(text, sizeof(text), col, &row),
				  col->flags & COL_HEAT ? heat_of(col, &row) : TABLE_PLAIN);
	}
}
