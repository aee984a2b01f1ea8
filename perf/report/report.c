#define _GNU_SOURCE
#include "perf/report/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "perf/report/internal.h"

uint64_t report_mean(const struct aggregate_row *r)
{
	return r->calls ? r->sum_ns / r->calls : 0;
}

static double ratio(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

/* The least or the most time that a rank has of the row. */
static uint64_t of_ranks(const struct aggregate_row *r, size_t n, bool most)
{
	uint64_t is = n ? aggregate_rank_ns(r, 0) : 0;
	for (size_t i = 1; i < n; i++) {
		uint64_t ns = aggregate_rank_ns(r, i);
		is = (ns > is) == most ? ns : is;
	}
	return is;
}

static double memory_key(const struct memory_row *m, enum report_sort sort)
{
	switch (sort) {
	case REPORT_BY_ALLOC:
	case REPORT_BY_DEVICE_ALLOC:
		return (double)m->allocated;
	case REPORT_BY_FREED:
	case REPORT_BY_DEVICE_FREED:
		return (double)m->freed;
	case REPORT_BY_ALLOCS:
	case REPORT_BY_DEVICE_ALLOCS:
		return (double)m->allocs;
	case REPORT_BY_PEAK:
	case REPORT_BY_DEVICE_PEAK:
		return (double)m->at_peak;
	case REPORT_BY_NET:
	case REPORT_BY_DEVICE_NET:
		return (double)m->net;
	default:
		return (double)m->allocated - (double)m->freed;
	}
}

static double sort_key(const struct aggregate_row *r, const struct report_opts *opts)
{
	switch (opts->sort) {
	case REPORT_BY_TOTAL:
		return (double)(r->total_ns + r->backward_ns);
	case REPORT_BY_CALLS:
		return (double)r->calls;
	case REPORT_BY_MEAN:
		return (double)report_mean(r);
	case REPORT_BY_P99:
		return (double)aggregate_quantile(r, 0.99);
	case REPORT_BY_MAX:
		return (double)r->max_ns;
	case REPORT_BY_P50:
		return (double)aggregate_quantile(r, 0.5);
	case REPORT_BY_MIN:
		return r->calls ? (double)r->min_ns : 0;
	case REPORT_BY_THROWN:
		return (double)r->thrown;
	case REPORT_BY_DEVICE_TIME:
		return (double)r->device_ns;
	case REPORT_BY_ACTIVITIES:
		return (double)r->activities;
	case REPORT_BY_ALLOC:
	case REPORT_BY_FREED:
	case REPORT_BY_ALLOCS:
	case REPORT_BY_PEAK:
	case REPORT_BY_NET:
	case REPORT_BY_SELF_NET:
		return memory_key(&r->memory[MEMORY_CPU], opts->sort);
	case REPORT_BY_DEVICE_ALLOC:
	case REPORT_BY_DEVICE_FREED:
	case REPORT_BY_DEVICE_ALLOCS:
	case REPORT_BY_DEVICE_PEAK:
	case REPORT_BY_DEVICE_NET:
	case REPORT_BY_SELF_DEVICE_NET:
		return memory_key(&r->memory[MEMORY_DEVICES], opts->sort);
	case REPORT_BY_FLOPS:
		return r->flops;
	case REPORT_BY_FLOP_RATE:
		return r->flops_unknown ? 0 : ratio(r->flops, (double)r->total_ns);
	case REPORT_BY_FORWARD:
		return (double)r->total_ns;
	case REPORT_BY_BACKWARD:
		return (double)r->backward_ns;
	case REPORT_BY_BACKWARD_CALLS:
		return (double)r->backward_calls;
	case REPORT_BY_RATIO:
		return r->backward_calls ? ratio((double)r->backward_ns, (double)r->total_ns) : 0;
	case REPORT_BY_LEAST:
	case REPORT_BY_MOST:
		return (double)of_ranks(r, opts->nranks, opts->sort == REPORT_BY_MOST);
	case REPORT_BY_SELF:
		return (double)r->self_ns;
	default:
		return 0;
	}
}

static int compare_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int compare_int(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int compare_line(const struct aggregate_row *x, const struct aggregate_row *y)
{
	int c = compare_text(x->file, y->file);
	c = c ? c : compare_int(x->line, y->line);
	return c ? c : compare_text(x->parameter, y->parameter);
}

static int compare_key(const struct aggregate_row *x, const struct aggregate_row *y,
		       enum report_sort sort)
{
	int c;
	switch (sort) {
	case REPORT_BY_OP:
		return compare_text(x->op, y->op);
	case REPORT_BY_LINE:
	case REPORT_BY_FILE:
		return compare_line(x, y);
	case REPORT_BY_FUNCTION:
		return compare_text(x->function, y->function);
	case REPORT_BY_THREAD:
		c = compare_int(x->pid, y->pid);
		return c ? c : compare_int(x->tid, y->tid);
	case REPORT_BY_MODULE:
		return compare_text(x->module, y->module);
	case REPORT_BY_SHAPE:
		return compare_text(x->shape, y->shape);
	case REPORT_BY_DTYPE:
		return compare_text(x->dtype, y->dtype);
	case REPORT_BY_DEVICE:
		return compare_text(x->device, y->device);
	case REPORT_BY_SYMBOL:
		return compare_text(x->symbol, y->symbol);
	case REPORT_BY_OBJECT:
		return compare_text(x->object, y->object);
	case REPORT_BY_RANK:
		return compare_int(x->rank1, y->rank1);
	default:
		return 0;
	}
}

/* The parts of a table. */
enum report_part {
	FORWARD_OPS,
	BACKWARD_OF_LINES,
	RECOMPUTED,
	CALLED_IN_BACKWARD,
	WORKERS,
	NO_LAUNCH,
	COMPILING,
	PARTS
};

static enum report_part part_of(const struct aggregate_row *r)
{
	return r->phase == PHASE_COMPILE     ? COMPILING
	       : r->worker		     ? WORKERS
	       : r->launch && !r->op	     ? NO_LAUNCH
	       : r->phase == PHASE_RECOMPUTE ? RECOMPUTED
	       : r->phase == PHASE_FORWARD   ? FORWARD_OPS
	       : r->is_own		     ? CALLED_IN_BACKWARD
					     : BACKWARD_OF_LINES;
}

static int compare_rows(const void *a, const void *b, void *opts)
{
	const struct aggregate_row *x = *(const struct aggregate_row *const *)a;
	const struct aggregate_row *y = *(const struct aggregate_row *const *)b;
	enum report_sort sort = ((const struct report_opts *)opts)->sort;
	double kx = sort_key(x, opts), ky = sort_key(y, opts);
	if (part_of(x) != part_of(y))
		return part_of(x) < part_of(y) ? -1 : 1;
	if (kx > ky || kx < ky)
		return kx > ky ? -1 : 1;
	int c = compare_key(x, y, sort);
	if (!c && sort >= REPORT_BY_DEVICE_TIME && x->self_ns != y->self_ns)
		return x->self_ns > y->self_ns ? -1 : 1;
	for (enum report_sort k = REPORT_BY_OP; !c && k <= REPORT_BY_OBJECT; k++)
		c = compare_key(x, y, k);
	return c;
}

struct report_opts report_with_busy(const struct aggregate *a, const struct report_opts *opts)
{
	struct report_opts with = *opts;
	struct aggregate_totals t;
	aggregate_totals(a, &t);
	with.busy_ns = t.busy_ns;
	return with;
}

struct aggregate_totals report_totals(const struct aggregate *a, const struct report_opts *opts)
{
	struct aggregate_totals t;
	aggregate_totals(opts->whole ? opts->whole : a, &t);
	return t;
}

/* Whether it is little of the time that what rows are sorted by may be found in. */
static bool is_apart_from_time(enum report_sort sort)
{
	return (sort >= REPORT_BY_ALLOC && sort <= REPORT_BY_SELF_DEVICE_NET) ||
	       sort == REPORT_BY_THROWN;
}

/* Whether the row has `limit` percent of the time of the host or of devices. */
static bool is_large(const struct aggregate_row *r, uint64_t observed_ns,
		     const struct report_opts *opts, double limit)
{
	return report_percent(r->total_ns + r->backward_ns, observed_ns) >= limit ||
	       report_percent(r->device_ns, opts->busy_ns) >= limit ||
	       (is_apart_from_time(opts->sort) && (sort_key(r, opts) > 0 || sort_key(r, opts) < 0));
}

const struct aggregate_row **report_sorted(const struct aggregate *a,
					   const struct report_opts *opts, double limit, size_t *n)
{
	const struct aggregate_row *const *rows = aggregate_rows(a, n);
	const struct aggregate_row **s = malloc((*n + 1) * sizeof(*s));
	if (!s)
		return NULL;
	size_t all = *n;
	const struct aggregate_totals t = report_totals(a, opts);
	*n = 0;
	for (size_t i = 0; i < all; i++)
		if (is_large(rows[i], aggregate_base(&t, rows[i]), opts, limit))
			s[(*n)++] = rows[i];
	qsort_r(s, *n, sizeof(*s), compare_rows, (void *)opts);
	return s;
}

/* The title of the part that begins with row `r`; NULL: none. Samples know no forward op. */
static const char *part_title(const struct aggregate_row *r, bool is_first, bool of_samples)
{
	static const char *const titles[PARTS] = {
	    [BACKWARD_OF_LINES] = "backward of the above",
	    [RECOMPUTED] = "recomputed in the backward, for checkpoints",
	    [CALLED_IN_BACKWARD] = "called by code of the program that ran in the backward",
	    [WORKERS] = "workers, which load and send data, in percent of their own time",
	    [NO_LAUNCH] = "launched in no op that is known",
	    [COMPILING] = "while torch.compile compiled, in percent of that time",
	};
	enum report_part part = part_of(r);
	if (part == CALLED_IN_BACKWARD && of_samples)
		return "in the backward, by the line that ran meanwhile";
	return part == BACKWARD_OF_LINES && is_first ? "backward" : titles[part];
}

static void add_memory(struct memory_row *to, const struct memory_row *r)
{
	to->allocs += r->allocs;
	to->allocated += r->allocated;
	to->freed += r->freed;
	to->at_peak += r->at_peak;
}

static void add_part(struct table *t, const struct report_columns *columns,
		     const struct aggregate_row *const *rows, size_t n, uint64_t observed_ns,
		     const struct report_opts *opts, const struct file_names *files)
{
	struct aggregate_row rest = {0};
	size_t shown = 0;
	for (size_t i = 0; i < n; i++) {
		const struct aggregate_row *r = rows[i];
		if (is_large(r, observed_ns, opts, opts->percent_limit) &&
		    (!opts->limit || shown < opts->limit)) {
			report_columns_row(t, columns, r, observed_ns, opts, files);
			shown++;
			continue;
		}
		rest.self_ns += r->self_ns;
		rest.calls += r->calls;
		rest.backward_calls += r->backward_calls;
		rest.thrown += r->thrown;
		rest.activities += r->activities;
		rest.device_ns += r->device_ns;
		for (int k = 0; k < MEMORY_KINDS; k++)
			add_memory(&rest.memory[k], &r->memory[k]);
		rest.flops += r->flops;
		rest.flops_unknown += r->flops_unknown;
	}
	if (shown < n)
		report_columns_rest(t, columns, &rest, n - shown, observed_ns, opts);
}

static void print_in_no_op(FILE *f, const struct aggregate_totals *t,
			   const struct report_opts *opts)
{
	char none[32], all[32];
	uint64_t self = t->self_ns < t->observed_ns ? t->self_ns : t->observed_ns;
	if (t->observed_ns && !opts->left_out)
		fprintf(f, "in no op%s: %.1f %%, %s of %s\n",
			opts->chosen || opts->when ? ", or in one left out" : "",
			100.0 - report_percent(self, t->observed_ns),
			text_ns(none, sizeof(none), t->observed_ns - self),
			text_ns(all, sizeof(all), t->observed_ns));
}

static void add_parts(struct table *t, const struct report_columns *columns,
		      const struct aggregate_row *const *rows, size_t n,
		      const struct aggregate_totals *totals, const struct report_opts *opts,
		      const struct file_names *files)
{
	for (size_t first = 0, end; first < n; first = end) {
		const char *title = part_title(rows[first], first == 0, opts->samples);
		for (end = first; end < n && part_of(rows[first]) == part_of(rows[end]);)
			end++;
		if (title)
			table_line(t, title);
		add_part(t, columns, rows + first, end - first, aggregate_base(totals, rows[first]),
			 opts, files);
	}
}

static int print_table(FILE *f, const struct aggregate *a, const struct report_opts *opts,
		       const struct file_names *files)
{
	struct aggregate_totals totals = report_totals(a, opts);
	struct report_columns columns;
	size_t n;
	const struct aggregate_row **rows = report_sorted(a, opts, 0, &n);
	struct table *t = table_new();
	int r = -ENOMEM;
	report_columns_default(aggregate_keys(a), opts->sort, &columns);
	if (opts->columns)
		columns = *opts->columns;
	if (rows && t) {
		report_columns_head(t, &columns, opts);
		add_parts(t, &columns, rows, n, &totals, opts, files);
		r = table_print(t, f, opts->terminal.width, opts->terminal.color);
	}
	if (!r && !opts->samples) {
		print_in_no_op(f, &totals, opts);
		r = opts->steps || opts->all_activities ? headline_other_memory(f, a, opts, files)
							: 0;
	}
	table_free(t);
	free(rows);
	return r;
}

static int print_modules(FILE *f, const struct aggregate *a, const struct report_opts *opts)
{
	struct aggregate_totals totals = report_totals(a, opts);
	int r = module_tree_print(f, a, opts);
	if (!r)
		print_in_no_op(f, &totals, opts);
	return r;
}

/* If it fails, files have their base names. */
static void name_files(struct file_names *files, const struct aggregate *a,
		       const struct report_opts *opts)
{
	size_t n;
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	for (size_t i = 0; i < n; i++)
		file_names_add(files, rows[i]->file);
	if (opts->steps) {
		file_names_add(files, opts->steps->data.file);
		file_names_add(files, opts->steps->no_op.file);
	}
}

int report_print(FILE *f, const struct aggregate *a, const struct report_opts *given)
{
	const struct report_opts with_busy = report_with_busy(a, given), *opts = &with_busy;
	struct file_names files = {0};
	size_t n;
	int r;
	aggregate_rows(a, &n);
	name_files(&files, a, opts);
	if (opts->samples)
		report_print_sampled(f, a, opts);
	else
		report_print_summary(f, a, opts, &files);
	if (opts->blocks)
		r = code_blocks_print(f, opts->blocks, report_totals(a, opts).observed_ns, opts);
	else if ((n == 0 && !opts->kernels) || opts->no_table)
		r = ferror(f) ? -EIO : 0;
	else if (opts->kernels)
		r = kernels_print(f, opts->kernels, a, opts);
	else
		r = opts->modules ? print_modules(f, a, opts) : print_table(f, a, opts, &files);
	file_names_free(&files);
	return r;
}
