#include "perf/diff/trace_diff.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/table.h"
#include "base/text.h"
#include "perf/events/print_event.h"
#include "perf/report/report.h"

/* At the significance level of trace_diff.c a change shows from about so many deviations on. */
enum { TOLD = 5 };

/* B's row, or A's where B has none: B is the program as it is now. */
static const struct aggregate_row *either(const struct trace_diff_row *r)
{
	return r->b ? r->b : r->a;
}

/* The verdict on a row, for people or as a word for programs. */
static const char *verdict(char *out, size_t size, const struct trace_diff_row *r, bool people)
{
	const char *few = people ? "too few times to tell" : "few";
	if (!r->a || !r->b)
		return r->b ? "new" : "gone";
	snprintf(out, size, "%s%s%s", r->time ? (r->time > 0 ? "slower" : "faster") : "",
		 r->calls ? (r->time ? "+calls" : "calls") : "",
		 r->shape ? (r->time || r->calls ? "+shape" : "shape") : "");
	return out[0] ? out : r->few ? few : people ? "within noise" : "same";
}

static const char *signed_ns(char *out, size_t size, double ns)
{
	char text[32];
	snprintf(out, size, "%c%s", ns < 0 ? '-' : '+',
		 text_ns(text, sizeof(text), (uint64_t)fabs(ns)));
	return out;
}

static const char *total_text(char *out, size_t size, const struct aggregate_row *r)
{
	return r ? text_ns(out, size, r->total_ns) : "-";
}

/* "412 us -> 790 us", or one mean where only one trace has the row. */
static void add_means(struct table *t, const struct trace_diff_row *r)
{
	char a[32] = "", b[32] = "", both[80];
	if (r->a)
		text_ns(a, sizeof(a), report_mean(r->a));
	if (r->b)
		text_ns(b, sizeof(b), report_mean(r->b));
	snprintf(both, sizeof(both), "%s%s%s", a, r->a && r->b ? " -> " : "", b);
	table_cell(t, both);
}

static void add_calls(struct table *t, const struct trace_diff_row *r)
{
	char a[32] = "-", b[32] = "-", both[80];
	if (r->a)
		text_count(a, sizeof(a), r->a->calls);
	if (r->b)
		text_count(b, sizeof(b), r->b->calls);
	if (strcmp(a, b))
		snprintf(both, sizeof(both), "%s -> %s", a, b);
	else
		snprintf(both, sizeof(both), "%s", a);
	table_cell(t, both);
}

static void add_shapes(struct table *t, const struct trace_diff_row *r)
{
	const struct aggregate_row *e = either(r);
	char both[2 * 1024 + 8];
	if (r->shape)
		snprintf(both, sizeof(both), "%s -> %s", r->a->shape, r->b->shape);
	else
		snprintf(both, sizeof(both), "%s", e->shape);
	table_cell(t, both[0] ? both : "-");
}

static void add_row(struct table *t, const struct trace_diff_row *r, int width)
{
	const struct aggregate_row *e = either(r);
	char text[WHERE_TEXT_MAX];
	table_cell_styled(t, signed_ns(text, sizeof(text), r->change_ns),
			  r->time > 0 ? TABLE_HOT : TABLE_PLAIN);
	table_cell(t, total_text(text, sizeof(text), r->a));
	table_cell(t, total_text(text, sizeof(text), r->b));
	add_calls(t, r);
	add_means(t, r);
	table_cell(t, verdict(text, sizeof(text), r, true));
	table_cell(t, report_op_text(e->op, width));
	add_shapes(t, r);
	table_cell(t, report_where_text(text, sizeof(text), e, NULL));
}

static int print_table(FILE *f, const struct trace_diff *d, const struct trace_diff_print *opts)
{
	static const struct {
		const char *name;
		enum table_align align;
		int order;
	} columns[] = {
	    {"Change", TABLE_RIGHT, 0}, {"Before", TABLE_RIGHT, 7},   {"After", TABLE_RIGHT, 6},
	    {"Calls", TABLE_RIGHT, 8},	{"Per call", TABLE_RIGHT, 0}, {"Verdict", TABLE_LEFT, 0},
	    {"Op", TABLE_LEFT, 0},	{"Shapes", TABLE_LEFT, 5},    {"Where", TABLE_LEFT, 0}};
	size_t n = opts->all ? d->n : d->changed, shown = opts->limit ? opts->limit : n;
	struct table *t = table_new();
	char line[80], count[32];
	if (!t)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		table_column_optional(t, columns[i].name, columns[i].align, columns[i].order);
	for (size_t i = 0; i < n && i < shown; i++)
		add_row(t, &d->rows[i], opts->terminal.width);
	if (shown < n) {
		snprintf(line, sizeof(line), "and %s",
			 text_counted(count, sizeof(count), n - shown, "more row"));
		table_line(t, line);
	}
	int r = n ? table_print(t, f, opts->terminal.width, opts->terminal.color) : 0;
	table_free(t);
	return r;
}

/* The answer first. Whether it is noise is told by nothing but the number of steps. */
static void print_steps(FILE *f, const struct breakdown_result *a, const struct breakdown_result *b)
{
	char before[32], after[32], na[32], nb[40];
	if (!a->steps || !b->steps || !a->median_ns)
		return;
	fprintf(f, "step %s -> %s (%+.0f %%, medians of %s and of %s)\n",
		text_ns(before, sizeof(before), a->median_ns),
		text_ns(after, sizeof(after), b->median_ns),
		100 * ((double)b->median_ns / (double)a->median_ns - 1),
		text_count(na, sizeof(na), a->steps),
		text_counted(nb, sizeof(nb), b->steps, "step"));
}

static void print_side(FILE *f, const char *name, const struct aggregate *a)
{
	struct aggregate_totals t;
	char ops[32], ns[32];
	aggregate_totals(a, &t);
	fprintf(f, "%s: %s, %s in ops", name, text_counted(ops, sizeof(ops), t.events, "op"),
		text_ns(ns, sizeof(ns), t.self_ns));
	if (t.lost)
		fprintf(f, ", %s lost", text_count(ops, sizeof(ops), t.lost));
	if (t.summed)
		fprintf(f, ", %s as sums only", text_count(ops, sizeof(ops), t.summed));
	putc('\n', f);
}

int trace_diff_print(FILE *f, const struct trace_diff *d, const struct trace_diff_print *opts)
{
	print_steps(f, &opts->steps_a, &opts->steps_b);
	print_side(f, "before", opts->a);
	print_side(f, "after ", opts->b);
	if (fabs(d->calls_ratio - 1) > 0.01)
		fprintf(
		    f, "after has %.2f times the calls: its times are those of as many as before\n",
		    d->calls_ratio);
	if (fabs(d->time_ratio - 1) > 0.01)
		fprintf(
		    f,
		    "a call takes %.2f times as long: a row that changed by that is not marked\n",
		    d->time_ratio);
	if (d->spread > 0.001)
		fprintf(f, "rows vary by %.1f %%: changes below about %.0f %% are not detected\n",
			100 * d->spread, 100 * expm1(TOLD * log1p(d->spread)));
	putc('\n', f);
	int r = print_table(f, d, opts);
	if (!r && !opts->all)
		fputs(d->changed ? "nothing else changed beyond noise\n"
				 : "nothing changed beyond noise\n",
		      f);
	return r ? r : ferror(f) ? -EIO : 0;
}

/* One side of a row; null when the trace does not have it. */
static void json_side(struct json_out *j, const char *key, const struct aggregate_row *r)
{
	if (!r) {
		json_nothing(j, key);
		return;
	}
	json_open(j, key, '{');
	json_u64(j, "calls", r->calls);
	json_u64(j, "total_ns", r->total_ns);
	json_u64(j, "self_ns", r->self_ns);
	json_u64(j, "mean_ns", report_mean(r));
	if (aggregate_has_quantiles(r))
		json_u64(j, "p50_ns", aggregate_quantile(r, 0.5));
	else
		json_nothing(j, "p50_ns");
	json_text(j, "shape", r->shape);
	json_i64(j, "line", r->line);
	json_close(j, '}');
}

static void json_row(struct json_out *j, const struct trace_diff_row *r)
{
	const struct aggregate_row *e = either(r);
	char text[32];
	json_open(j, NULL, '{');
	json_text(j, "op", e->op);
	json_text(j, "phase", op_phase_names[e->phase]);
	json_text(j, "file", e->file);
	json_text(j, "function", e->function);
	json_text(j, "verdict", verdict(text, sizeof(text), r, false));
	json_bool(j, "changed", trace_diff_is_change(r));
	json_format(j, "change_ns", "%.0f", r->change_ns);
	json_format(j, "p", "%.3g", r->p);
	if (r->ratio > 0)
		json_format(j, "ratio", "%.4f", r->ratio);
	else
		json_nothing(j, "ratio");
	json_side(j, "before", r->a);
	json_side(j, "after", r->b);
	json_close(j, '}');
}

static void json_total(struct json_out *j, const char *key, const struct aggregate *a,
		       const struct breakdown_result *steps)
{
	struct aggregate_totals t;
	aggregate_totals(a, &t);
	json_open(j, key, '{');
	json_u64(j, "ops", t.events);
	json_u64(j, "self_ns", t.self_ns);
	json_u64(j, "lost", t.lost);
	json_u64(j, "summed", t.summed);
	json_u64(j, "steps", steps->steps);
	if (steps->steps)
		json_u64(j, "step_median_ns", steps->median_ns);
	else
		json_nothing(j, "step_median_ns");
	json_close(j, '}');
}

int trace_diff_print_json(FILE *f, const struct trace_diff *d, const struct trace_diff_print *opts)
{
	struct json_out j = {.f = f};
	json_open(&j, NULL, '{');
	json_open(&j, "summary", '{');
	json_total(&j, "before", opts->a, &opts->steps_a);
	json_total(&j, "after", opts->b, &opts->steps_b);
	json_u64(&j, "changed", d->changed);
	json_format(&j, "calls_ratio", "%.4f", d->calls_ratio);
	json_format(&j, "time_ratio", "%.4f", d->time_ratio);
	json_format(&j, "spread", "%.4f", d->spread);
	json_close(&j, '}');
	json_line(&j);
	json_open(&j, "rows", '[');
	for (size_t i = 0; i < d->n; i++) {
		json_line(&j);
		json_row(&j, &d->rows[i]);
	}
	json_line(&j);
	json_close(&j, ']');
	json_close(&j, '}');
	putc('\n', f);
	return ferror(f) ? -EIO : 0;
}

static void csv_side(FILE *f, const struct aggregate_row *r)
{
	if (!r) {
		fputs(",,,,,", f);
		return;
	}
	fprintf(f, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId32 ",", r->calls, r->total_ns,
		report_mean(r), r->line);
	csv_text(f, r->shape ? r->shape : "");
}

int trace_diff_print_csv(FILE *f, const struct trace_diff *d)
{
	char text[32];
	fputs("op,phase,file,function,verdict,change_ns,ratio,p,calls_before,total_ns_before,"
	      "mean_ns_before,line_before,shape_before,calls_after,total_ns_after,mean_ns_after,"
	      "line_after,shape_after\n",
	      f);
	for (size_t i = 0; i < d->n; i++) {
		const struct trace_diff_row *r = &d->rows[i];
		const struct aggregate_row *e = either(r);
		csv_text(f, e->op);
		fprintf(f, ",%s,", op_phase_names[e->phase]);
		csv_text(f, e->file ? e->file : "");
		putc(',', f);
		csv_text(f, e->function ? e->function : "");
		fprintf(f, ",%s,%.0f,", verdict(text, sizeof(text), r, false), r->change_ns);
		if (r->ratio > 0)
			fprintf(f, "%.4f", r->ratio);
		fprintf(f, ",%.3g", r->p);
		csv_side(f, r->a);
		csv_side(f, r->b);
		putc('\n', f);
	}
	return ferror(f) ? -EIO : 0;
}
