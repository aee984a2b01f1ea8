#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/table.h"
#include "base/text.h"
#include "perf/collectives/internal.h"
#include "perf/events/print_event.h"
#include "symbolizer/event/names.h"

static int compare_calls(const void *a, const void *b)
{
	const uint64_t *x = *(const uint64_t *const *)a, *y = *(const uint64_t *const *)b;
	if (*x != *y)
		return *x < *y ? 1 : -1;
	return (x > y) - (x < y);
}

void *collectives_sort(const void *all, size_t n, size_t size, size_t *out)
{
	const uint64_t **rows = calloc(n + 1, sizeof(*rows));
	*out = 0;
	for (size_t i = 0; rows && i < n; i++) {
		const uint64_t *calls = (const void *)((const char *)all + i * size);
		if (*calls)
			rows[(*out)++] = calls;
	}
	if (rows)
		qsort(rows, *out, sizeof(*rows), compare_calls);
	return rows;
}

static const struct collective_row **sorted_rows(const struct collectives *c, size_t *n)
{
	return collectives_sort(c->rows, c->nrows, sizeof(*c->rows), n);
}

static void group_text(char *out, size_t size, const struct collective_row *r)
{
	const char *backend = r->what.backend ? r->what.backend : "";
	const char *gap = *backend ? " " : "";
	char group[96];
	collective_group_text(group, sizeof(group), r->of, r->group);
	if (!r->group_known)
		snprintf(out, size, "?");
	else if (r->of || r->size < 0)
		snprintf(out, size, "%s%s%s", group, gap, backend);
	else
		snprintf(out, size, "%s (%" PRId32 " ranks)%s%s", group, r->size, gap, backend);
}

/* The rank that came last most often, by index. */
static size_t most_often_last(const struct collectives *c, const struct collective_row *r)
{
	size_t most = 0;
	for (size_t i = 1; r->last && i < c->nranks; i++)
		most = r->last[i] > r->last[most] ? i : most;
	return most;
}

static uint64_t done_median(const struct collective_row *r)
{
	return histogram_quantile(&r->done_ns, 0.5);
}

static uint64_t rate_of(const struct collective_row *r)
{
	return r->done && r->what.has_bytes ? collective_rate(r->what.bytes, done_median(r)) : 0;
}

static bool any_is_done(const struct collectives *c)
{
	for (size_t i = 0; i < c->nrows; i++)
		if (c->rows[i].done || c->rows[i].waits)
			return true;
	return false;
}

static bool any_has_purpose(const struct collectives *c)
{
	for (size_t i = 0; i < c->nrows; i++)
		if (c->rows[i].purpose)
			return true;
	return false;
}

static uint64_t median(const struct collective_row *r)
{
	uint64_t ns = histogram_quantile(&r->ns, 0.5); /* the middle of a bucket */
	return ns < r->max_ns ? ns : r->max_ns;
}

static void add_row(struct table *t, const struct collectives *c, const struct collective_row *r,
		    const struct file_names *files)
{
	char text[WHERE_TEXT_MAX], n[32], m[32];
	size_t last = most_often_last(c, r);
	table_cell(t, text_count(text, sizeof(text), r->calls));
	table_cell(t, r->what.has_bytes ? text_bytes(text, sizeof(text), r->what.bytes) : "");
	if (any_is_done(c)) {
		table_cell(t, r->done ? text_ns(text, sizeof(text), done_median(r)) : "");
		table_cell(
		    t, r->waits ? text_ns(text, sizeof(text), histogram_quantile(&r->waits_ns, 0.5))
				: "");
		snprintf(text, sizeof(text), "%s/s", text_bytes(n, sizeof(n), rate_of(r)));
		table_cell(t, rate_of(r) ? text : "");
	}
	table_cell(t, text_ns(text, sizeof(text), median(r)));
	table_cell(t, text_ns(text, sizeof(text), r->max_ns));
	if (c->nworlds) {
		snprintf(text, sizeof(text), "%zu in %s of %s", last,
			 text_count(n, sizeof(n), r->last ? r->last[last] : 0),
			 text_count(m, sizeof(m), r->matched));
		table_cell(t, r->matched ? text : "");
		table_cell(t, r->matched ? text_ns(text, sizeof(text),
						   histogram_quantile(&r->spread_ns, 0.5))
					 : "");
	}
	table_cell(t, collective_text(text, sizeof(text), &r->what));
	if (any_has_purpose(c))
		table_cell(t, r->purpose ? r->purpose : "");
	group_text(text, sizeof(text), r);
	table_cell(t, text);
	table_cell(t, where_text(text, sizeof(text), r->where, NULL, PHASE_FORWARD, files));
}

static void add_columns(struct table *t, const struct collectives *c)
{
	table_columns(t, ">Calls|>Bytes");
	if (any_is_done(c)) {
		table_columns(t, ">Done|>Waited");
		table_column_optional(t, "Rate", TABLE_RIGHT, 3);
	}
	table_column_optional(t, "Median", TABLE_RIGHT, 1);
	table_column_optional(t, "Max", TABLE_RIGHT, 2);
	if (c->nworlds)
		table_columns(t, ">Last, rank|>Spread");
	table_columns(t,
		      any_has_purpose(c) ? "Collective|For|Group|Where" : "Collective|Group|Where");
}

static void print_notes(const struct collectives *c, FILE *f)
{
	if (c->why[0]) {
		fputs("ranks are not compared: ", f);
		text_print_safe(f, c->why);
		putc('\n', f);
	}
	if (c->differ[0]) {
		text_print_safe(f, c->differ);
		putc('\n', f);
	}
	if (any_is_done(c))
		fputs("Done: from the call until it is done, Waited: for it, medians; Rate: Bytes "
		      "by Done; ",
		      f);
	fputs("Median, Max: of the call alone", f);
	fputs(c->nworlds ? "; Spread: from the first rank's call to the last one's, the median\n\n"
			 : "\n\n",
	      f);
}

static int print_none(const struct collectives *c, FILE *f)
{
	fputs("no collectives were recorded\n", f);
	if (c->blind)
		fputs("only the engine shim sees those of PyTorch: ditrace run --engine shim\n", f);
	return ferror(f) ? -EIO : 0;
}

void collectives_print_compared(const struct collectives *c, FILE *f)
{
	char text[TRACE_CLOCK_TEXT_MAX];
	if (c->starts > 1 && !c->why[0])
		fprintf(f, "each rank was started %zu times: the last start is compared\n",
			c->starts);
	for (size_t i = 0; i < c->nclocks && !c->why[0]; i++) {
		text_print_safe(f, trace_clock_text(text, sizeof(text), c->clocks[i]));
		putc('\n', f);
	}
	if (c->left_out[0] && !c->why[0]) {
		text_print_safe(f, c->left_out);
		putc('\n', f);
	}
}

int collectives_print(const struct collectives *c, FILE *f, const struct collectives_opts *opts)
{
	struct file_names files = {0};
	size_t n;
	const struct collective_row **rows = sorted_rows(c, &n);
	struct table *t = rows ? table_new() : NULL;
	int r = t ? 0 : -ENOMEM;
	if (t && n) {
		for (size_t i = 0; i < n; i++)
			file_names_add(&files, rows[i]->where ? rows[i]->where->file : NULL);
		add_columns(t, c);
		for (size_t i = 0; i < n && (!opts->limit || i < opts->limit); i++)
			add_row(t, c, rows[i], &files);
		collectives_print_compared(c, f);
		print_notes(c, f);
		r = table_print(t, f, opts->terminal.width, false);
		r = r ? r : buckets_print(c, f, opts);
	} else if (t) {
		r = print_none(c, f);
	}
	table_free(t);
	free(rows);
	file_names_free(&files);
	return r;
}

static void json_where(struct json_out *j, const struct py_frame *f)
{
	json_text(j, "file", f ? f->file : NULL);
	json_number(j, "line", f, f ? f->line : 0);
	json_text(j, "function", f ? f->function : NULL);
	json_text(j, "text", f ? f->text : NULL);
}

static void json_row(struct json_out *j, const struct collectives *c,
		     const struct collective_row *r)
{
	json_open(j, NULL, '{');
	json_text(j, "collective", r->what.name);
	json_text(j, "reduce_op", r->what.reduce_op);
	json_number(j, "root", r->what.root_rank >= 0, r->what.root_rank);
	json_async(j, &r->what);
	json_number(j, "bytes", r->what.has_bytes, (int64_t)r->what.bytes);
	json_text(j, "dtype", r->what.dtype < 0 ? NULL : names_dtype(r->what.dtype));
	json_text(j, "backend", r->what.backend);
	json_number(j, "group", r->group_known, r->group);
	json_number(j, "group_size", r->size >= 0, r->size);
	collective_json_group(j, r->of);
	json_text(j, "purpose", r->purpose);
	json_where(j, r->where);
	json_u64(j, "calls", r->calls);
	json_u64(j, "p50_ns", median(r));
	json_u64(j, "max_ns", r->max_ns);
	json_u64(j, "done", r->done);
	json_number(j, "done_p50_ns", r->done, (int64_t)done_median(r));
	json_number(j, "bytes_per_s", rate_of(r), (int64_t)rate_of(r));
	json_u64(j, "waits", r->waits);
	json_number(j, "waited_p50_ns", r->waits, (int64_t)histogram_quantile(&r->waits_ns, 0.5));
	json_number(j, "waited_ns", r->waits, (int64_t)r->waited_ns);
	json_u64(j, "matched", r->matched);
	json_number(j, "spread_p50_ns", r->matched,
		    (int64_t)histogram_quantile(&r->spread_ns, 0.5));
	json_open(j, "last", '[');
	for (size_t i = 0; r->last && i < c->nranks; i++)
		json_u64(j, NULL, r->last[i]);
	json_close(j, ']');
	json_close(j, '}');
}

int collectives_print_json(const struct collectives *c, FILE *f)
{
	struct json_out j = {.f = f};
	size_t n;
	const struct collective_row **rows = sorted_rows(c, &n);
	if (!rows)
		return -ENOMEM;
	json_open(&j, NULL, '{');
	json_u64(&j, "ranks", c->nworlds ? c->nranks : 0);
	json_text(&j, "not_compared", c->why[0] ? c->why : NULL);
	json_text(&j, "differs", c->differ[0] ? c->differ : NULL);
	json_text(&j, "groups_not_compared", c->left_out[0] ? c->left_out : NULL);
	trace_clocks_json(&j, c->clocks, c->nclocks);
	json_open(&j, "rows", '[');
	for (size_t i = 0; i < n; i++) {
		json_line(&j);
		json_row(&j, c, rows[i]);
	}
	json_line(&j);
	json_close(&j, ']');
	int r = buckets_json(c, &j);
	json_close(&j, '}');
	putc('\n', f);
	free(rows);
	return r ? r : ferror(f) ? -EIO : 0;
}

static void csv_number(FILE *f, bool known, uint64_t n)
{
	if (known)
		fprintf(f, "%" PRIu64, n);
	putc(',', f);
}

static void csv_row(FILE *f, const struct collectives *c, const struct collective_row *r)
{
	const struct py_frame *at = r->where;
	const char *dtype = r->what.dtype < 0 ? NULL : names_dtype(r->what.dtype);
	fprintf(f, "%s,%s,", r->what.name, r->what.reduce_op ? r->what.reduce_op : "");
	csv_number(f, r->what.root_rank >= 0, (uint64_t)r->what.root_rank);
	csv_number(f, r->what.has_bytes, r->what.bytes);
	fprintf(f, "%s,", dtype ? dtype : "");
	csv_number(f, r->group_known, r->group);
	csv_number(f, r->size >= 0, (uint64_t)r->size);
	csv_number(f, true, r->calls);
	csv_number(f, true, median(r));
	csv_number(f, true, r->max_ns);
	csv_number(f, true, r->matched);
	csv_number(f, r->matched, histogram_quantile(&r->spread_ns, 0.5));
	csv_number(f, r->matched, most_often_last(c, r));
	csv_number(f, r->matched, r->last ? r->last[most_often_last(c, r)] : 0);
	fprintf(f, "%s,", r->what.backend ? r->what.backend : "");
	csv_number(f, true, r->done);
	csv_number(f, r->done, done_median(r));
	csv_number(f, rate_of(r), rate_of(r));
	csv_number(f, true, r->waits);
	csv_number(f, r->waits, histogram_quantile(&r->waits_ns, 0.5));
	csv_number(f, r->waits, r->waited_ns);
	csv_text(f, at ? at->file : "");
	putc(',', f);
	csv_number(f, at, at ? (uint64_t)at->line : 0);
	csv_text(f, at ? at->function : "");
	putc(',', f);
	csv_text(f, r->of ? r->of->name : "");
	putc(',', f);
	for (uint32_t i = 0; r->of && i < r->of->n; i++)
		fprintf(f, "%s%" PRId32, i ? " " : "", r->of->ranks[i]);
	putc(',', f);
	csv_text(f, r->purpose ? r->purpose : "");
	putc('\n', f);
}

int collectives_print_csv(const struct collectives *c, FILE *f)
{
	size_t n;
	const struct collective_row **rows = sorted_rows(c, &n);
	if (!rows)
		return -ENOMEM;
	fputs("collective,reduce_op,root,bytes,dtype,group,group_size,calls,p50_ns,max_ns,matched,"
	      "spread_p50_ns,last_rank,last_calls,backend,done,done_p50_ns,bytes_per_s,waits,"
	      "waited_p50_ns,waited_ns,file,line,function,group_name,group_ranks,purpose\n",
	      f);
	for (size_t i = 0; i < n; i++)
		csv_row(f, c, rows[i]);
	free(rows);
	return ferror(f) ? -EIO : 0;
}
