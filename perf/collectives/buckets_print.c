/* Rows of buckets of DistributedDataParallel, as a table and as JSON. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "perf/collectives/internal.h"

static const struct bucket_row **sorted_rows(const struct buckets *b, size_t *n)
{
	return collectives_sort(b->rows, b->nrows, sizeof(*b->rows), n);
}

static uint64_t median(const struct histogram *h)
{
	return histogram_quantile(h, 0.5);
}

static void time_cell(struct table *t, uint64_t known, const struct histogram *h)
{
	char text[32];
	table_cell(t, known ? text_ns(text, sizeof(text), median(h)) : "");
}

/* "fc.weight, fc.bias and 12 more" */
static void parameters_cell(struct table *t, const char *all)
{
	enum { SHOWN = 4 };
	char text[512] = "";
	size_t n = 0, shown = 0, more = 0;
	for (const char *p = all, *end; *p; p = *end ? end + 1 : end) {
		end = strchrnul(p, '\n');
		if (shown < SHOWN && n + (size_t)(end - p) + 32 < sizeof(text)) {
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.*s",
					      shown ? ", " : "", (int)(end - p), p);
			shown++;
		} else {
			more++;
		}
	}
	if (more)
		snprintf(text + n, sizeof(text) - n, "%s%zu more", shown ? " and " : "", more);
	table_cell(t, *all ? text : "?");
}

static void add_row(struct table *t, const struct bucket_row *r)
{
	char text[32];
	snprintf(text, sizeof(text), "%" PRId64, r->number);
	table_cell(t, text);
	table_cell(t, text_count(text, sizeof(text), r->calls));
	table_cell(t, r->bytes ? text_bytes(text, sizeof(text), r->bytes) : "");
	time_cell(t, r->left, &r->left_ns);
	time_cell(t, r->done, &r->done_ns);
	time_cell(t, r->lates, &r->late_ns);
	table_cell(t, r->filled_differ ? "(several)" : r->filled_by ? r->filled_by : "?");
	parameters_cell(t, r->parameters);
}

int buckets_print(const struct collectives *c, FILE *f, const struct collectives_opts *opts)
{
	size_t n;
	const struct bucket_row **rows = sorted_rows(&c->buckets, &n);
	struct table *t = rows && n ? table_new() : NULL;
	int r = rows && (t || !n) ? 0 : -ENOMEM;
	if (t) {
		table_column(t, "Bucket", TABLE_RIGHT);
		table_column(t, "Calls", TABLE_RIGHT);
		table_column(t, "Bytes", TABLE_RIGHT);
		table_column(t, "Left", TABLE_RIGHT);
		table_column(t, "Done", TABLE_RIGHT);
		table_column(t, "Late", TABLE_RIGHT);
		table_column(t, "Filled by", TABLE_LEFT);
		table_column(t, "Parameters", TABLE_LEFT);
		for (size_t i = 0; i < n && (!opts->limit || i < opts->limit); i++)
			add_row(t, rows[i]);
		fputs("\nbuckets of DistributedDataParallel; Left: from when all gradients are "
		      "there to the end of what the backward computes; Done: until it is reduced; "
		      "Late: after that end, medians\n\n",
		      f);
		r = table_print(t, f, opts->terminal.width, false);
	}
	table_free(t);
	free(rows);
	return r;
}

static void json_parameters(struct json_out *j, const char *all)
{
	json_open(j, "parameters", '[');
	for (const char *p = all, *end; *p; p = *end ? end + 1 : end) {
		end = strchrnul(p, '\n');
		char *one = strndup(p, (size_t)(end - p));
		json_text(j, NULL, one);
		free(one);
	}
	json_close(j, ']');
}

void buckets_json(const struct collectives *c, struct json_out *j)
{
	size_t n;
	const struct bucket_row **rows = sorted_rows(&c->buckets, &n);
	json_open(j, "buckets", '[');
	for (size_t i = 0; rows && i < n; i++) {
		const struct bucket_row *r = rows[i];
		json_line(j);
		json_open(j, NULL, '{');
		json_i64(j, "bucket", r->number);
		json_u64(j, "calls", r->calls);
		json_number(j, "bytes", r->bytes, (int64_t)r->bytes);
		json_number(j, "left_p50_ns", r->left, (int64_t)median(&r->left_ns));
		json_number(j, "done_p50_ns", r->done, (int64_t)median(&r->done_ns));
		json_number(j, "late_p50_ns", r->lates, (int64_t)median(&r->late_ns));
		json_text(j, "filled_by", r->filled_differ ? NULL : r->filled_by);
		json_parameters(j, r->parameters);
		json_close(j, '}');
	}
	json_line(j);
	json_close(j, ']');
	free(rows);
}
