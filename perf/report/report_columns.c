
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "perf/report/internal.h"
#include "perf/report/internal.h"

struct column_row {
	const struct aggregate_row *r;
	uint64_t observed_ns;
	const struct report_opts *opts;
	const struct file_names *files;
};

struct column {
	const char *name, *header;
	unsigned keys; /* rows by any of these keys have it; 0: all rows except those of samples */
	bool usual;    /* shown by default */
	bool left;
	uint8_t order; /* in which it gives way, see table_column_optional */
	const char *(*text)(char *out, size_t size, const struct column_row *row);
};

enum { CELL_MAX = WHERE_TEXT_MAX };

uint64_t report_mean(const struct aggregate_row *r)
{
	return r->calls ? r->sum_ns / r->calls : 0;
}

double report_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static const char *percent_text(char *out, size_t size, uint64_t part, uint64_t whole)
{
	snprintf(out, size, "%.1f%%", report_percent(part, whole));
	return out;
}

static const char *self_percent(char *out, size_t size, const struct column_row *w)
{
	return percent_text(out, size, w->r->self_ns, w->observed_ns);
}

static const char *total_percent(char *out, size_t size, const struct column_row *w)
{
	return percent_text(out, size, w->r->total_ns, w->observed_ns);
}

static const char *both_percent(char *out, size_t size, const struct column_row *w)
{
	return percent_text(out, size, w->r->total_ns + w->r->backward_ns, w->observed_ns);
}

static const char *time_text(char *out, size_t size, const struct column_row *w, uint64_t ns)
{
	return text_ns(out, size, w->opts->per_step ? ns / w->opts->per_step : ns);
}

static const char *device_percent(char *out, size_t size, const struct column_row *w)
{
	return w->r->activities ? percent_text(out, size, w->r->device_ns, w->opts->busy_ns) : "-";
}

static const char *device_time(char *out, size_t size, const struct column_row *w)
{
	return w->r->activities ? time_text(out, size, w, w->r->device_ns) : "-";
}

static const char *backward(char *out, size_t size, const struct column_row *w)
{
	return w->r->backward_calls ? time_text(out, size, w, w->r->backward_ns) : "-";
}

static const char *backward_calls(char *out, size_t size, const struct column_row *w)
{
	return text_count(out, size, w->r->backward_calls);
}

static const char *ratio(char *out, size_t size, const struct column_row *w)
{
	if (!w->r->total_ns || !w->r->backward_calls)
		return "-";
	snprintf(out, size, "%.2f", (double)w->r->backward_ns / (double)w->r->total_ns);
	return out;
}

static const char *count_text(char *out, size_t size, const struct column_row *w, uint64_t n)
{
	uint64_t steps = w->opts->per_step;
	if (!steps || n % steps == 0)
		return text_count(out, size, n / (steps ? steps : 1));
	snprintf(out, size, "%.2f", (double)n / (double)steps);
	return out;
}

static const char *calls(char *out, size_t size, const struct column_row *w)
{
	return count_text(out, size, w, w->r->calls);
}

static const char *activities(char *out, size_t size, const struct column_row *w)
{
	return w->r->activities ? count_text(out, size, w, w->r->activities) : "-";
}

static const char *bytes_text(char *out, size_t size, const struct column_row *w, uint64_t bytes)
{
	uint64_t steps = w->opts->per_step;
	return bytes ? text_bytes(out, size, bytes / (steps ? steps : 1)) : "-";
}

static const char *blocks_text(char *out, size_t size, const struct column_row *w, uint64_t n)
{
	return n ? count_text(out, size, w, n) : "-";
}

/* At one moment, not of a step. */
static const char *peak_text(char *out, size_t size, uint64_t bytes)
{
	return bytes ? text_bytes(out, size, bytes) : "-";
}

static const char *allocated(char *out, size_t size, const struct column_row *w)
{
	return bytes_text(out, size, w, w->r->memory[MEMORY_CPU].allocated);
}

static const char *freed(char *out, size_t size, const struct column_row *w)
{
	return bytes_text(out, size, w, w->r->memory[MEMORY_CPU].freed);
}

static const char *allocs(char *out, size_t size, const struct column_row *w)
{
	return blocks_text(out, size, w, w->r->memory[MEMORY_CPU].allocs);
}

static const char *at_peak(char *out, size_t size, const struct column_row *w)
{
	return peak_text(out, size, w->r->memory[MEMORY_CPU].at_peak);
}

static const char *device_allocated(char *out, size_t size, const struct column_row *w)
{
	return bytes_text(out, size, w, w->r->memory[MEMORY_DEVICES].allocated);
}

static const char *device_freed(char *out, size_t size, const struct column_row *w)
{
	return bytes_text(out, size, w, w->r->memory[MEMORY_DEVICES].freed);
}

static const char *device_allocs(char *out, size_t size, const struct column_row *w)
{
	return blocks_text(out, size, w, w->r->memory[MEMORY_DEVICES].allocs);
}

static const char *device_at_peak(char *out, size_t size, const struct column_row *w)
{
	return peak_text(out, size, w->r->memory[MEMORY_DEVICES].at_peak);
}

/* Less than nothing where more was freed than allocated. */
static const char *net_text(char *out, size_t size, const struct column_row *w, int64_t bytes)
{
	const int64_t of = w->opts->per_step ? bytes / (int64_t)w->opts->per_step : bytes;
	char text[32];
	snprintf(out, size, "%s%s", of < 0 ? "-" : "",
		 text_bytes(text, sizeof(text), of < 0 ? -(uint64_t)of : (uint64_t)of));
	return bytes ? out : "-";
}

static const char *self_net_text(char *out, size_t size, const struct column_row *w,
				 enum memory_kind k)
{
	const struct memory_row *m = &w->r->memory[k];
	return net_text(out, size, w, (int64_t)(m->allocated - m->freed));
}

static const char *net(char *out, size_t size, const struct column_row *w)
{
	return net_text(out, size, w, w->r->memory[MEMORY_CPU].net);
}

static const char *self_net(char *out, size_t size, const struct column_row *w)
{
	return self_net_text(out, size, w, MEMORY_CPU);
}

static const char *device_net(char *out, size_t size, const struct column_row *w)
{
	return net_text(out, size, w, w->r->memory[MEMORY_DEVICES].net);
}

static const char *self_device_net(char *out, size_t size, const struct column_row *w)
{
	return self_net_text(out, size, w, MEMORY_DEVICES);
}

static const char *thrown(char *out, size_t size, const struct column_row *w)
{
	return text_count(out, size, w->r->thrown);
}

static const char *self(char *out, size_t size, const struct column_row *w)
{
	return time_text(out, size, w, w->r->self_ns);
}

static const char *total(char *out, size_t size, const struct column_row *w)
{
	return time_text(out, size, w, w->r->total_ns);
}

static const char *mean(char *out, size_t size, const struct column_row *w)
{
	return text_ns(out, size, report_mean(w->r));
}

static const char *shortest(char *out, size_t size, const struct column_row *w)
{
	return text_ns(out, size, w->r->calls ? w->r->min_ns : 0);
}

static const char *quantile(char *out, size_t size, const struct column_row *w, double q)
{
	return aggregate_has_quantiles(w->r) ? text_ns(out, size, aggregate_quantile(w->r, q))
					     : "-";
}

static const char *p50(char *out, size_t size, const struct column_row *w)
{
	return quantile(out, size, w, 0.5);
}

static const char *p99(char *out, size_t size, const struct column_row *w)
{
	return quantile(out, size, w, 0.99);
}

static const char *longest(char *out, size_t size, const struct column_row *w)
{
	return text_ns(out, size, w->r->max_ns);
}

/* A number of three digits with a prefix of the SI, which at least it is when some calls are not
 * known. */
static const char *flops_text(char *out, size_t size, double n, bool at_least)
{
	static const char prefixes[] = " KMGTPE";
	unsigned i = 0;
	for (; n >= 999.5 && prefixes[i + 1]; i++)
		n /= 1000;
	if (!n && !at_least)
		return "-";
	snprintf(out, size, "%s%.*f%s%.1s", at_least ? ">" : "",
		 i && n < 9.995 ? 2 : i && n < 99.95, n, i ? " " : "", i ? prefixes + i : "");
	return out;
}

static const char *flops(char *out, size_t size, const struct column_row *w)
{
	uint64_t steps = w->opts->per_step ? w->opts->per_step : 1;
	return flops_text(out, size, w->r->flops / (double)steps, w->r->flops_unknown);
}

static const char *flop_rate(char *out, size_t size, const struct column_row *w)
{
	double s = (double)w->r->total_ns / 1e9;
	return flops_text(out, size, s > 0 && !w->r->flops_unknown ? w->r->flops / s : 0, false);
}

static const char *phase(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return report_launch_text(w->r->launch) ? "-" : op_phase_names[w->r->phase];
}

const char *report_thread_name(const struct report_opts *opts, const struct aggregate_row *r)
{
	for (size_t i = opts->nthreads; i--;)
		if (opts->threads[i].pid == r->pid && opts->threads[i].tid == r->tid)
			return opts->threads[i].name;
	return "";
}

static const char *thread(char *out, size_t size, const struct column_row *w)
{
	if (!w->r->tid) /* of what was launched by no thread that is known */
		snprintf(out, size, "%" PRId32 "/- (launch not known)", w->r->pid);
	else
		snprintf(out, size, "%" PRId32 "/%" PRId32 " %s", w->r->pid, w->r->tid,
			 report_thread_name(w->opts, w->r));
	return out;
}

static const char *or_dash(const char *s)
{
	return s && s[0] ? s : "-";
}

/* `text`, unless the row is of no op that is known. */
static const char *or_launch(const struct aggregate_row *r, const char *text)
{
	const char *launch = report_launch_text(r->launch);
	return launch ? launch : text;
}

static const char *of_tensors(const struct aggregate_row *r, const char *text)
{
	return r->launch == AGGREGATE_NO_CALL ? "(call not known)" : or_launch(r, or_dash(text));
}

static const char *module(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return or_launch(w->r, or_dash(w->r->module));
}

static const char *shape(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return of_tensors(w->r, w->r->shape);
}

static const char *dtype(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return of_tensors(w->r, w->r->dtype);
}

static const char *device(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return of_tensors(w->r, w->r->device);
}

const char *report_op_name(const char *op)
{
	return strncmp(op, "aten::", 6) ? op : op + 6;
}

const char *report_op_text(const char *op, int width)
{
	enum { NARROW = 100 };
	return width && width < NARROW ? report_op_name(op) : op;
}

static const char *op(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return report_op_text(w->r->op, w->opts->terminal.width);
}

static const char *file(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return w->r->file ? w->r->file : or_launch(w->r, "(no Python frame)");
}

static const char *function(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return w->r->function ? w->r->function : or_launch(w->r, "(no Python frame)");
}

static const char *symbol(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return or_dash(w->r->symbol);
}

static const char *object(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return or_dash(w->r->object ? text_base_name(w->r->object) : NULL);
}

static const char *where(char *out, size_t size, const struct column_row *w)
{
	const struct aggregate_row *r = w->r;
	const struct py_frame frame = {
	    .file = r->file, .function = r->function, .text = r->text, .line = r->line};
	if (report_launch_text(r->launch))
		return r->op ? "-" : report_launch_text(r->launch);
	return where_text(out, size, r->file ? &frame : NULL, r->op, r->phase, w->files);
}

static const char *rank(char *out, size_t size, const struct column_row *w)
{
	if (!w->r->rank1)
		return "-";
	snprintf(out, size, "%" PRIu32, w->r->rank1 - 1);
	return out;
}

/* The rank with the least (most) self time, and that. */
static const char *of_rank(char *out, size_t size, const struct column_row *w, bool most)
{
	char ns[32];
	size_t at = 0;
	for (size_t i = 1; i < w->opts->nranks; i++) {
		uint64_t a = aggregate_rank_ns(w->r, i), b = aggregate_rank_ns(w->r, at);
		if (a != b && (a > b) == most)
			at = i;
	}
	if (!w->opts->nranks)
		return "-";
	snprintf(out, size, "%s %" PRIu32,
		 time_text(ns, sizeof(ns), w, aggregate_rank_ns(w->r, at)), w->opts->ranks[at]);
	return out;
}

static const char *least(char *out, size_t size, const struct column_row *w)
{
	return of_rank(out, size, w, false);
}

static const char *most(char *out, size_t size, const struct column_row *w)
{
	return of_rank(out, size, w, true);
}

/* With AGGREGATE_SIDES (--side-by-side) some columns replace default ones: see is_usual. */
static const struct column columns[] = {
    {"overhead", "Overhead", AGGREGATE_SAMPLES, true, false, 0, self_percent},
    {"samples", "Samples", AGGREGATE_SAMPLES, true, false, 2, calls},
    {"self_percent", "Self %", 0, true, false, 0, self_percent},
    {"total_percent", "Total %", 0, true, false, 0, total_percent},
    {"device_percent", "Device %", AGGREGATE_ACTIVITIES, true, false, 0, device_percent},
    {"device_time", "Device", AGGREGATE_ACTIVITIES, true, false, 1, device_time},
    {"both_percent", "Both %", AGGREGATE_SIDES, true, false, 0, both_percent},
    {"self", "Self", 0, true, false, 5, self},
    {"total", "Total", 0, true, false, 6, total},
    {"least", "Least, rank", AGGREGATE_RANKS, true, false, 0, least},
    {"most", "Most, rank", AGGREGATE_RANKS, true, false, 0, most},
    {"calls", "Calls", 0, true, false, 2, calls},
    {"activities", "Activities", AGGREGATE_ACTIVITIES, true, false, 10, activities},
    {"alloc", "Alloc", AGGREGATE_MEMORY, true, false, 4, allocated},
    {"freed", "Freed", AGGREGATE_MEMORY, false, false, 0, freed},
    {"allocs", "Allocs", AGGREGATE_MEMORY, false, false, 0, allocs},
    {"peak", "At peak", AGGREGATE_MEMORY, true, false, 3, at_peak},
    {"device_alloc", "Device alloc", AGGREGATE_DEVICE_MEMORY, true, false, 2, device_allocated},
    {"device_freed", "Device freed", AGGREGATE_DEVICE_MEMORY, false, false, 0, device_freed},
    {"device_allocs", "Device allocs", AGGREGATE_DEVICE_MEMORY, false, false, 0, device_allocs},
    {"device_peak", "At device's peak", AGGREGATE_DEVICE_MEMORY, true, false, 1, device_at_peak},
    {"cpu_mem", "CPU Mem", AGGREGATE_NET_MEMORY, false, false, 0, net},
    {"self_cpu_mem", "Self CPU Mem", AGGREGATE_MEMORY, false, false, 0, self_net},
    {"device_mem", "Device Mem", AGGREGATE_NET_MEMORY, false, false, 0, device_net},
    {"self_device_mem", "Self Device Mem", AGGREGATE_DEVICE_MEMORY, false, false, 0,
     self_device_net},
    {"thrown", "Thrown", 0, false, false, 0, thrown},
    {"mean", "Mean", 0, true, false, 7, mean},
    {"min", "Min", 0, false, false, 0, shortest},
    {"p50", "P50", 0, false, false, 0, p50},
    {"p99", "P99", 0, true, false, 8, p99},
    {"max", "Max", 0, true, false, 9, longest},
    {"flops", "FLOPs", AGGREGATE_FLOPS, false, false, 0, flops},
    {"flop_rate", "FLOP/s", AGGREGATE_FLOPS, false, false, 0, flop_rate},
    {"forward", "Forward", AGGREGATE_SIDES, true, false, 0, total},
    {"backward", "Backward", AGGREGATE_SIDES, true, false, 0, backward},
    {"backward_calls", "Nodes", AGGREGATE_SIDES, true, false, 5, backward_calls},
    {"ratio", "B/F", AGGREGATE_SIDES, true, false, 4, ratio},
    {"phase", "Phase", AGGREGATE_PHASE, false, true, 0, phase},
    {"rank", "Rank", AGGREGATE_RANK, true, false, 0, rank},
    {"thread", "Thread", AGGREGATE_THREAD, true, true, 0, thread},
    {"module", "Module", AGGREGATE_MODULE, true, true, 0, module},
    {"op", "Op", AGGREGATE_OP, true, true, 0, op},
    {"shape", "Shapes", AGGREGATE_SHAPE, true, true, 0, shape},
    {"dtype", "Dtypes", AGGREGATE_DTYPE, true, true, 0, dtype},
    {"device", "Devices", AGGREGATE_DEVICE, true, true, 0, device},
    {"symbol", "Symbol", AGGREGATE_SYMBOL, true, true, 0, symbol},
    {"object", "Object", AGGREGATE_SYMBOL, true, true, 0, object},
    {"file", "File", AGGREGATE_FILE | AGGREGATE_FUNCTION | AGGREGATE_LINE, false, true, 0, file},
    {"function", "Function", AGGREGATE_FUNCTION | AGGREGATE_LINE, false, true, 0, function},
    {"where", "Where", AGGREGATE_LINE, true, true, 0, where},
};

enum { NCOLUMNS = sizeof(columns) / sizeof(columns[0]) };
const char *const *report_column_names(void)
{
	static const char *names[NCOLUMNS + 1];
	for (int i = 0; i < NCOLUMNS; i++)
		names[i] = columns[i].name;
	return names;
}

_Static_assert((int)NCOLUMNS <= (int)REPORT_COLUMNS_MAX, "all columns can be chosen");

static bool has(const struct column *c, unsigned keys)
{
	return c->keys ? (keys & c->keys) != 0 : !(keys & AGGREGATE_SAMPLES);
}

static bool is_usual(const struct column *c, unsigned keys)
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
	return c->usual && has(c, keys);
}

bool report_columns_has(const char *name, unsigned keys)
{
	size_t i = 0;
	while (i < NCOLUMNS && strcmp(columns[i].name, name) != 0)
		i++;
	return i < NCOLUMNS && has(&columns[i], keys);
}

static int no_column(const char *word, size_t len, const char *why, unsigned keys, struct err *e)
{
	char names[256] = "";
	size_t used = 0;
	for (size_t i = 0; i < NCOLUMNS && used < sizeof(names); i++)
		if (has(&columns[i], keys))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 used ? "," : "", columns[i].name);
	err_set(e, -EINVAL, "--columns: %s \"%.*s\"", why, (int)(len < 40 ? len : 40), word);
	return err_hint(e, "choose among %s", names);
}

/* The index of the column of that name. "device" is that of rows grouped by it, else the time. */
static size_t column_of(const char *name, size_t len, unsigned keys)
{
	size_t i = 0;
	if (!(keys & AGGREGATE_DEVICE) && len == 6 && !strncmp(name, "device", len))
		name = "device_time", len = strlen(name);
	while (i < NCOLUMNS &&
	       (strlen(columns[i].name) != len || strncmp(columns[i].name, name, len) != 0))
		i++;
	return i;
}

int report_columns_parse(const char *text, unsigned keys, struct report_columns *out, struct err *e)
{
	out->n = 0;
	for (const char *s = text;;) {
		size_t len = strcspn(s, ",");
		size_t i = column_of(s, len, keys);
		if (i == NCOLUMNS)
			return no_column(s, len, "there is no", keys, e);
		if (!has(&columns[i], keys))
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
		keys |= columns[c->which[i]].keys;
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
	const char *name = columns[c->which[i]].name;
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
		for (unsigned char i = 0; i < NCOLUMNS; i++) {
			const struct column *c = &columns[i];
			if (!is_usual(c, keys) && !(has(c, keys) && !strcmp(c->name, name)))
				continue;
			out->which[out->n++] = i;
			is_shown |= is_sorted(out, out->n - 1, sort);
		}
		if (is_shown)
			return;
		name = report_sort_names[sort];
	}
}

/* Where there are devices, the host's total gives way to their time. */
static int order_of(const struct report_columns *c, size_t i)
{
	const struct column *col = &columns[c->which[i]];
	bool beside = i + 1 < c->n && columns[c->which[i + 1]].text == device_percent;
	return col->text == total_percent && beside ? 2 : col->order;
}

void report_columns_head(struct table *t, const struct report_columns *c,
			 const struct report_opts *opts)
{
	char header[64];
	for (size_t i = 0; i < c->n; i++) {
		const struct column *col = &columns[c->which[i]];
		bool ascending = opts->sort >= REPORT_BY_OP;
		snprintf(header, sizeof(header), "%s%s", col->header,
			 !is_sorted(c, i, opts->sort) ? ""
			 : ascending		      ? " ^"
						      : " v");
		table_column_optional(t, header, col->left ? TABLE_LEFT : TABLE_RIGHT,
				      opts->columns ? 0 : order_of(c, i));
	}
}

static bool is_sum(const struct column *c)
{
	return c->text == self_percent || c->text == self || c->text == calls || c->text == flops ||
	       c->text == device_percent || c->text == device_time || c->text == activities ||
	       c->keys == AGGREGATE_MEMORY || c->keys == AGGREGATE_DEVICE_MEMORY;
}

/* Rows that have activities only have no time of the host. */
static const char *cell_of(char *out, size_t size, const struct column *c,
			   const struct column_row *w)
{
	bool of_host = !c->left && (!c->keys || c->keys == AGGREGATE_RANKS);
	bool is_other = w->r->activities;
	for (int k = 0; k < MEMORY_KINDS; k++)
		is_other |= w->r->memory[k].allocs || w->r->memory[k].frees;
	return of_host && !w->r->calls && is_other ? "-" : c->text(out, size, w);
}

static enum table_style heat(double part)
{
	return part >= 10 ? TABLE_HOT : part >= 3 ? TABLE_WARM : TABLE_PLAIN;
}

void report_columns_rest(struct table *t, const struct report_columns *c,
			 const struct aggregate_row *rest, size_t n, uint64_t observed_ns,
			 const struct report_opts *opts)
{
	const struct column_row row = {.r = rest, .observed_ns = observed_ns, .opts = opts};
	char text[CELL_MAX], rows[64];
	text_counted(rows, sizeof(rows), n, "more row");
	size_t named = c->n - 1; /* the first column of the rows' keys, else the last */
	while (named && columns[c->which[named - 1]].left)
		named--;
	for (size_t i = 0; i < c->n; i++) {
		const struct column *col = &columns[c->which[i]];
		table_cell(t, i == named    ? rows
			      : is_sum(col) ? cell_of(text, sizeof(text), col, &row)
					    : "");
	}
}

void report_columns_row(struct table *t, const struct report_columns *c,
			const struct aggregate_row *r, uint64_t observed_ns,
			const struct report_opts *opts, const struct file_names *files)
{
	const struct column_row row = {
	    .r = r, .observed_ns = observed_ns, .opts = opts, .files = files};
	double self_part = report_percent(r->self_ns, observed_ns);
	double device_part = report_percent(r->device_ns, opts->busy_ns);
	char text[CELL_MAX];
	for (size_t i = 0; i < c->n; i++) {
		const struct column *col = &columns[c->which[i]];
		table_cell_styled(t, cell_of(text, sizeof(text), col, &row),
				  col->text == self_percent	? heat(self_part)
				  : col->text == device_percent ? heat(device_part)
								: TABLE_PLAIN);
	}
}
