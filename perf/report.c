#define _GNU_SOURCE
#include "perf/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "perf/csv.h"
#include "perf/json_event.h"
#include "perf/where_text.h"

const char *const report_sort_names[] = {"self", "total", "calls", "mean", "p99", "max", NULL};

static uint64_t mean_of(const struct aggregate_row *r)
{
	return r->calls ? r->sum_ns / r->calls : 0;
}

static uint64_t sort_key(const struct aggregate_row *r, enum report_sort sort)
{
	switch (sort) {
	case REPORT_BY_TOTAL:
		return r->total_ns;
	case REPORT_BY_CALLS:
		return r->calls;
	case REPORT_BY_MEAN:
		return mean_of(r);
	case REPORT_BY_P99:
		return aggregate_quantile(r, 0.99);
	case REPORT_BY_MAX:
		return r->max_ns;
	default:
		return r->self_ns;
	}
}

static int compare_rows(const void *a, const void *b, void *opts)
{
	const struct aggregate_row *x = *(const struct aggregate_row *const *)a;
	const struct aggregate_row *y = *(const struct aggregate_row *const *)b;
	enum report_sort sort = ((const struct report_opts *)opts)->sort;
	uint64_t kx = sort_key(x, sort), ky = sort_key(y, sort);
	if (x->phase != y->phase)
		return x->phase < y->phase ? -1 : 1;
	if (kx != ky)
		return kx > ky ? -1 : 1;
	int c = strcmp(x->op, y->op);
	return c ? c : (x->line > y->line) - (x->line < y->line);
}

/* The rows, sorted within their phase, forward first; *nforward of *n are forward. NULL without
 * memory. */
static const struct aggregate_row **
sorted(const struct aggregate *a, const struct report_opts *opts, size_t *n, size_t *nforward)
{
	const struct aggregate_row *const *rows = aggregate_rows(a, n);
	const struct aggregate_row **s = malloc((*n + 1) * sizeof(*s));
	if (!s)
		return NULL;
	if (*n)
		memcpy(s, rows, *n * sizeof(*s));
	qsort_r(s, *n, sizeof(*s), compare_rows, (void *)opts);
	for (*nforward = 0; *nforward < *n && s[*nforward]->phase == PHASE_FORWARD;)
		++*nforward;
	return s;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void print_target(FILE *f, const struct trace_target *t, const struct trace_stats *stats)
{
	char wall[32];
	fputs("ditrace: ", f);
	text_print_safe(f, t->argv[0] ? t->argv : t->comm);
	fprintf(f, " (pid %" PRId32 ", torch ", t->pid);
	text_print_safe(f, t->torch_version[0] ? t->torch_version : "unknown");
	fputs(", CPython ", f);
	text_print_safe(f, t->python_version[0] ? t->python_version : "unknown");
	fputs("), engine ", f);
	text_print_safe(f, t->engine);
	if (stats)
		fprintf(f, ", %s", text_ns(wall, sizeof(wall), stats->wall_ns));
	putc('\n', f);
}

/* Of a short run, or with threads that waited for a processor in the probes, the estimate can be
 * more than there was. */
static void print_probe_share(FILE *f, double share)
{
	if (share < 100)
		fprintf(f, "; %.1f %% of the time spent in probes (estimate)", share);
	else
		fputs("; nearly all of the time spent in probes (estimate)", f);
}

static void print_summary(FILE *f, const struct aggregate *a, const struct report_opts *opts)
{
	struct aggregate_totals t;
	char threads[32], events[32], lost[32], unfinished[32], when[128];
	const struct trace_stats *s = opts->stats;
	aggregate_totals(a, &t);
	for (size_t i = 0; i < opts->ntargets; i++)
		print_target(f, &opts->targets[i], s);
	fprintf(f, "ditrace: traced %s, %s, %s lost",
		text_counted(threads, sizeof(threads), t.threads, "thread"),
		text_counted(events, sizeof(events), t.events + t.unfinished, "op"),
		text_count(lost, sizeof(lost), t.lost));
	if (s && s->probe_ns && t.observed_ns)
		print_probe_share(f, percent(s->probe_ns, t.observed_ns));
	if (s && s->seen_permille < 1000)
		fprintf(f, "; %.1f %% of the dispatched ops were seen", s->seen_permille / 10.0);
	if (t.unfinished)
		fprintf(f, "; %s had not ended",
			text_count(unfinished, sizeof(unfinished), t.unfinished));
	if (opts->when)
		fprintf(f, "\nditrace: %s", when_counts_text(when, sizeof(when), opts->when));
	fputs("\n\n", f);
}

static void add_where(struct table *t, const struct aggregate_row *r)
{
	char where[WHERE_TEXT_MAX];
	const struct py_frame frame = {
	    .file = r->file, .function = r->function, .text = r->text, .line = r->line};
	table_cell(t, where_text(where, sizeof(where), r->file ? &frame : NULL, r->phase));
}

static void add_row(struct table *t, const struct aggregate_row *r, uint64_t observed_ns)
{
	char text[64];
	double self = percent(r->self_ns, observed_ns);
	snprintf(text, sizeof(text), "%.1f%%", self);
	table_cell_styled(t, text, self >= 10 ? TABLE_HOT : self >= 3 ? TABLE_WARM : TABLE_PLAIN);
	snprintf(text, sizeof(text), "%.1f%%", percent(r->total_ns, observed_ns));
	table_cell(t, text);
	table_cell(t, text_count(text, sizeof(text), r->calls));
	table_cell(t, text_ns(text, sizeof(text), mean_of(r)));
	table_cell(t, text_ns(text, sizeof(text), aggregate_quantile(r, 0.99)));
	table_cell(t, text_ns(text, sizeof(text), r->max_ns));
	table_cell(t, r->op);
	add_where(t, r);
}

static void add_part(struct table *t, const struct aggregate_row **rows, size_t n,
		     uint64_t observed_ns, size_t limit)
{
	char line[128], count[32];
	uint64_t self = 0;
	size_t shown = limit && limit < n ? limit : n;
	for (size_t i = 0; i < shown; i++)
		add_row(t, rows[i], observed_ns);
	for (size_t i = shown; i < n; i++)
		self += rows[i]->self_ns;
	if (shown == n)
		return;
	snprintf(line, sizeof(line), "%5.1f%%  in %s", percent(self, observed_ns),
		 text_counted(count, sizeof(count), n - shown, "more row"));
	table_line(t, line);
}

static void add_columns(struct table *t)
{
	static const char *const numbers[] = {"Self %", "Total %", "Calls", "Mean", "P99", "Max"};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		table_column(t, numbers[i], TABLE_RIGHT);
	table_column(t, "Op", TABLE_LEFT);
	table_column(t, "Where", TABLE_LEFT);
}

static int print_table(FILE *f, const struct aggregate *a, const struct report_opts *opts)
{
	struct aggregate_totals totals;
	size_t n, nforward;
	const struct aggregate_row **rows = sorted(a, opts, &n, &nforward);
	struct table *t = table_new();
	int r = -ENOMEM;
	aggregate_totals(a, &totals);
	if (rows && t) {
		add_columns(t);
		add_part(t, rows, nforward, totals.observed_ns, opts->limit);
		if (n > nforward) {
			table_line(t, nforward ? "backward of the above" : "backward");
			add_part(t, rows + nforward, n - nforward, totals.observed_ns, opts->limit);
		}
		r = table_print(t, f, opts->terminal.width, opts->terminal.color);
	}
	if (!r && totals.observed_ns)
		fprintf(f, "in no op: %.1f %%\n",
			100.0 - percent(totals.self_ns < totals.observed_ns ? totals.self_ns
									    : totals.observed_ns,
					totals.observed_ns));
	table_free(t);
	free(rows);
	return r;
}

int report_print(FILE *f, const struct aggregate *a, const struct report_opts *opts)
{
	size_t n;
	aggregate_rows(a, &n);
	print_summary(f, a, opts);
	if (n == 0)
		return ferror(f) ? -EIO : 0;
	return print_table(f, a, opts);
}

static void json_text(FILE *f, const char *key, const char *s)
{
	fprintf(f, "\"%s\":", key);
	if (s)
		json_write_string(f, s, strlen(s));
	else
		fputs("null", f);
}

static void json_row(FILE *f, const struct aggregate_row *r, uint64_t observed_ns)
{
	putc('{', f);
	json_text(f, "op", r->op);
	fprintf(f, ",\"phase\":\"%s\",", r->phase == PHASE_BACKWARD ? "backward" : "forward");
	json_text(f, "file", r->file);
	if (r->file)
		fprintf(f, ",\"line\":%" PRId32 ",", r->line);
	else
		fputs(",\"line\":null,", f);
	json_text(f, "function", r->function);
	putc(',', f);
	json_text(f, "text", r->text);
	fprintf(f,
		",\"calls\":%" PRIu64 ",\"thrown\":%" PRIu64 ",\"self_ns\":%" PRIu64
		",\"total_ns\":%" PRIu64 ",\"mean_ns\":%" PRIu64 ",\"min_ns\":%" PRIu64
		",\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64 ",\"max_ns\":%" PRIu64
		",\"self_percent\":%.4f,\"total_percent\":%.4f}",
		r->calls, r->thrown, r->self_ns, r->total_ns, mean_of(r), r->min_ns,
		aggregate_quantile(r, 0.5), aggregate_quantile(r, 0.99), r->max_ns,
		percent(r->self_ns, observed_ns), percent(r->total_ns, observed_ns));
}

static void json_target(FILE *f, const struct trace_target *t)
{
	fprintf(f, "{\"pid\":%" PRId32 ",", t->pid);
	json_text(f, "comm", t->comm);
	putc(',', f);
	json_text(f, "command", t->argv);
	putc(',', f);
	json_text(f, "torch", t->torch_version);
	putc(',', f);
	json_text(f, "python", t->python_version);
	putc(',', f);
	json_text(f, "engine", t->engine);
	putc('}', f);
}

static void json_summary(FILE *f, const struct aggregate_totals *t, const struct report_opts *opts)
{
	const struct trace_stats *s = opts->stats;
	fputs("{\"targets\":[", f);
	for (size_t i = 0; i < opts->ntargets; i++) {
		if (i)
			putc(',', f);
		json_target(f, &opts->targets[i]);
	}
	fprintf(f,
		"],\"threads\":%" PRIu64 ",\"ops\":%" PRIu64 ",\"unfinished\":%" PRIu64
		",\"thrown\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"observed_ns\":%" PRIu64
		",\"in_no_op_ns\":%" PRIu64,
		t->threads, t->events + t->unfinished, t->unfinished, t->thrown, t->lost,
		t->observed_ns, t->self_ns < t->observed_ns ? t->observed_ns - t->self_ns : 0);
	if (s)
		fprintf(f, ",\"wall_ns\":%" PRIu64 ",\"probe_ns\":%" PRIu64, s->wall_ns,
			s->probe_ns);
	else
		fputs(",\"wall_ns\":null,\"probe_ns\":null", f);
	if (opts->when)
		fprintf(f, ",\"left_out\":%" PRIu64 ",\"not_known\":%" PRIu64, opts->when->left_out,
			opts->when->unknown);
	if (s && s->seen_permille <= 1000)
		fprintf(f, ",\"seen_percent\":%.1f}", s->seen_permille / 10.0);
	else
		fputs(",\"seen_percent\":null}", f);
}

int report_print_json(FILE *f, const struct aggregate *a, const struct report_opts *opts)
{
	struct aggregate_totals t;
	size_t n, nforward;
	const struct aggregate_row **rows = sorted(a, opts, &n, &nforward);
	if (!rows)
		return -ENOMEM;
	aggregate_totals(a, &t);
	fputs("{\"summary\":", f);
	json_summary(f, &t, opts);
	fputs(",\n\"rows\":[", f);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? ",\n" : "\n", f);
		json_row(f, rows[i], t.observed_ns);
	}
	fputs("\n]}\n", f);
	free(rows);
	return ferror(f) ? -EIO : 0;
}

static void csv_row(FILE *f, const struct aggregate_row *r, uint64_t observed_ns)
{
	csv_text(f, r->op);
	fprintf(f, ",%s,", r->phase == PHASE_BACKWARD ? "backward" : "forward");
	csv_text(f, r->file ? r->file : "");
	if (r->file)
		fprintf(f, ",%" PRId32 ",", r->line);
	else
		fputs(",,", f);
	csv_text(f, r->function ? r->function : "");
	putc(',', f);
	csv_text(f, r->text ? r->text : "");
	fprintf(f,
		",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
		",%" PRIu64 ",%" PRIu64 ",%.4f,%.4f\n",
		r->calls, r->thrown, r->self_ns, r->total_ns, mean_of(r), r->min_ns,
		aggregate_quantile(r, 0.5), aggregate_quantile(r, 0.99), r->max_ns,
		percent(r->self_ns, observed_ns), percent(r->total_ns, observed_ns));
}

int report_print_csv(FILE *f, const struct aggregate *a, const struct report_opts *opts)
{
	struct aggregate_totals t;
	size_t n, nforward;
	const struct aggregate_row **rows = sorted(a, opts, &n, &nforward);
	if (!rows)
		return -ENOMEM;
	aggregate_totals(a, &t);
	fputs("op,phase,file,line,function,text,calls,thrown,self_ns,total_ns,mean_ns,min_ns,p50_"
	      "ns,p99_ns,max_ns,"
	      "self_percent,total_percent\n",
	      f);
	for (size_t i = 0; i < n; i++)
		csv_row(f, rows[i], t.observed_ns);
	free(rows);
	return ferror(f) ? -EIO : 0;
}
