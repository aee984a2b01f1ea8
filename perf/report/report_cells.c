/* The cells of the table of times: what each column shows of a row. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "perf/report/internal.h"

static const char *percent_text(char *out, size_t size, uint64_t part, uint64_t whole)
{
	snprintf(out, size, "%.1f%%", report_percent(part, whole));
	return out;
}

static const char *self_percent_cell(char *out, size_t size, const struct column_row *w)
{
	return percent_text(out, size, w->r->self_ns, w->observed_ns);
}

static const char *total_percent_cell(char *out, size_t size, const struct column_row *w)
{
	return percent_text(out, size, w->r->total_ns, w->observed_ns);
}

static const char *both_percent_cell(char *out, size_t size, const struct column_row *w)
{
	return percent_text(out, size, w->r->total_ns + w->r->backward_ns, w->observed_ns);
}

static const char *time_text(char *out, size_t size, const struct column_row *w, uint64_t ns)
{
	return text_ns(out, size, w->opts->per_step ? ns / w->opts->per_step : ns);
}

static const char *device_percent_cell(char *out, size_t size, const struct column_row *w)
{
	return w->r->activities ? percent_text(out, size, w->r->device_ns, w->opts->busy_ns) : "-";
}

static const char *device_time_cell(char *out, size_t size, const struct column_row *w)
{
	return w->r->activities ? time_text(out, size, w, w->r->device_ns) : "-";
}

static const char *backward_cell(char *out, size_t size, const struct column_row *w)
{
	return w->r->backward_calls ? time_text(out, size, w, w->r->backward_ns) : "-";
}

static const char *backward_calls_cell(char *out, size_t size, const struct column_row *w)
{
	return text_count(out, size, w->r->backward_calls);
}

static const char *ratio_cell(char *out, size_t size, const struct column_row *w)
{
	if (!w->r->total_ns || !w->r->backward_calls)
		return "-";
	snprintf(out, size, "%.2f", (double)w->r->backward_ns / (double)w->r->total_ns);
	return out;
}

const char *report_count_text(char *out, size_t size, uint64_t n, uint64_t steps)
{
	if (!steps || n % steps == 0)
		return text_count(out, size, n / (steps ? steps : 1));
	snprintf(out, size, "%.2f", (double)n / (double)steps);
	return out;
}

static const char *calls_cell(char *out, size_t size, const struct column_row *w)
{
	return report_count_text(out, size, w->r->calls, w->opts->per_step);
}

static const char *activities_cell(char *out, size_t size, const struct column_row *w)
{
	return w->r->activities ? report_count_text(out, size, w->r->activities, w->opts->per_step)
				: "-";
}

static const char *bytes_text(char *out, size_t size, const struct column_row *w, uint64_t bytes)
{
	uint64_t steps = w->opts->per_step;
	return bytes ? text_bytes(out, size, bytes / (steps ? steps : 1)) : "-";
}

static const char *allocated_cell(char *out, size_t size, const struct column_row *w)
{
	return bytes_text(out, size, w, w->memory->allocated);
}

static const char *freed_cell(char *out, size_t size, const struct column_row *w)
{
	return bytes_text(out, size, w, w->memory->freed);
}

static const char *allocs_cell(char *out, size_t size, const struct column_row *w)
{
	return w->memory->allocs
		   ? report_count_text(out, size, w->memory->allocs, w->opts->per_step)
		   : "-";
}

/* At one moment, not of a step. */
static const char *at_peak_cell(char *out, size_t size, const struct column_row *w)
{
	return w->memory->at_peak ? text_bytes(out, size, w->memory->at_peak) : "-";
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

static const char *net_cell(char *out, size_t size, const struct column_row *w)
{
	return net_text(out, size, w, w->memory->net);
}

static const char *self_net_cell(char *out, size_t size, const struct column_row *w)
{
	return net_text(out, size, w, (int64_t)(w->memory->allocated - w->memory->freed));
}

static const char *thrown_cell(char *out, size_t size, const struct column_row *w)
{
	return text_count(out, size, w->r->thrown);
}

static const char *self_cell(char *out, size_t size, const struct column_row *w)
{
	return time_text(out, size, w, w->r->self_ns);
}

static const char *total_cell(char *out, size_t size, const struct column_row *w)
{
	return time_text(out, size, w, w->r->total_ns);
}

static const char *mean_cell(char *out, size_t size, const struct column_row *w)
{
	return text_ns(out, size, report_mean(w->r));
}

static const char *shortest_cell(char *out, size_t size, const struct column_row *w)
{
	return text_ns(out, size, w->r->calls ? w->r->min_ns : 0);
}

static const char *quantile(char *out, size_t size, const struct column_row *w, double q)
{
	return aggregate_has_quantiles(w->r) ? text_ns(out, size, aggregate_quantile(w->r, q))
					     : "-";
}

static const char *p50_cell(char *out, size_t size, const struct column_row *w)
{
	return quantile(out, size, w, 0.5);
}

static const char *p99_cell(char *out, size_t size, const struct column_row *w)
{
	return quantile(out, size, w, 0.99);
}

static const char *longest_cell(char *out, size_t size, const struct column_row *w)
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

static const char *flops_cell(char *out, size_t size, const struct column_row *w)
{
	uint64_t steps = w->opts->per_step ? w->opts->per_step : 1;
	return flops_text(out, size, w->r->flops / (double)steps, w->r->flops_unknown);
}

static const char *flop_rate_cell(char *out, size_t size, const struct column_row *w)
{
	double s = (double)w->r->total_ns / 1e9;
	return flops_text(out, size, s > 0 && !w->r->flops_unknown ? w->r->flops / s : 0, false);
}

static const char *phase_cell(char *out, size_t size, const struct column_row *w)
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

static const char *thread_cell(char *out, size_t size, const struct column_row *w)
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

static const char *module_cell(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return or_launch(w->r, or_dash(w->r->module));
}

static const char *shape_cell(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return of_tensors(w->r, w->r->shape);
}

static const char *dtype_cell(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return of_tensors(w->r, w->r->dtype);
}

static const char *device_cell(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return of_tensors(w->r, w->r->device);
}

const char *report_op_name(const char *op)
{
	return strncmp(op, "aten::", 6) ? op_text(op) : op + 6;
}

const char *report_op_text(const char *op, int width)
{
	enum { NARROW = 100 };
	return width && width < NARROW ? report_op_name(op) : op_text(op);
}

static const char *op_cell(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return report_op_text(w->r->op, w->opts->terminal.width);
}

/* Why it has no file. */
static const char *no_file(const struct aggregate_row *r)
{
	return r->function ? r->function : or_launch(r, where_unknown(NULL, PHASE_FORWARD));
}

static const char *file_cell(char *out, size_t size, const struct column_row *w)
{
	if (w->r->parameter)
		return parameter_text(out, size, w->r->parameter);
	return w->r->file ? w->r->file : no_file(w->r);
}

static const char *function_cell(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	if (w->r->parameter)
		return where_unknown("AccumulateGrad", PHASE_BACKWARD);
	return w->r->function ? w->r->function : no_file(w->r);
}

static const char *symbol_cell(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return or_dash(w->r->symbol);
}

static const char *object_cell(char *out, size_t size, const struct column_row *w)
{
	(void)out;
	(void)size;
	return or_dash(w->r->object ? text_base_name(w->r->object) : NULL);
}

const char *report_where_text(char *out, size_t size, const struct aggregate_row *r,
			      const struct file_names *files)
{
	const struct py_frame frame = {
	    .file = r->file, .function = r->function, .text = r->text, .line = r->line};
	if (r->parameter)
		return parameter_text(out, size, r->parameter);
	if (!r->file && r->function)
		return no_file(r);
	return where_text(out, size, r->file ? &frame : NULL, r->op, r->phase, files);
}

static const char *where_cell(char *out, size_t size, const struct column_row *w)
{
	const struct aggregate_row *r = w->r;
	if (report_launch_text(r->launch))
		return r->op ? "-" : report_launch_text(r->launch);
	return report_where_text(out, size, r, w->files);
}

static const char *rank_cell(char *out, size_t size, const struct column_row *w)
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

static const char *least_cell(char *out, size_t size, const struct column_row *w)
{
	return of_rank(out, size, w, false);
}

static const char *most_cell(char *out, size_t size, const struct column_row *w)
{
	return of_rank(out, size, w, true);
}

/* With AGGREGATE_SIDES (--side-by-side) some columns replace default ones: see is_usual. */
const struct report_column report_columns[] = {
    {"overhead", "Overhead", AGGREGATE_SAMPLES, COL_USUAL | COL_SUM | COL_HEAT, 0,
     self_percent_cell},
    {"samples", "Samples", AGGREGATE_SAMPLES, COL_USUAL | COL_SUM, 2, calls_cell},
    {"self_percent", "Self %", 0, COL_USUAL | COL_SUM | COL_HEAT, 0, self_percent_cell},
    {"total_percent", "Total %", 0, COL_USUAL, 0, total_percent_cell},
    {"device_percent", "Device %", AGGREGATE_ACTIVITIES, COL_USUAL | COL_SUM | COL_HEAT, 0,
     device_percent_cell},
    {"device_time", "Device", AGGREGATE_ACTIVITIES, COL_USUAL | COL_SUM, 1, device_time_cell},
    {"both_percent", "Both %", AGGREGATE_SIDES, COL_USUAL, 0, both_percent_cell},
    {"self", "Self", 0, COL_USUAL | COL_SUM, 5, self_cell},
    {"total", "Total", 0, COL_USUAL, 6, total_cell},
    {"least", "Least, rank", AGGREGATE_RANKS, COL_USUAL, 0, least_cell},
    {"most", "Most, rank", AGGREGATE_RANKS, COL_USUAL, 0, most_cell},
    {"calls", "Calls", 0, COL_USUAL | COL_SUM, 2, calls_cell},
    {"activities", "Activities", AGGREGATE_ACTIVITIES, COL_USUAL | COL_SUM, 10, activities_cell},
    {"alloc", "Alloc", AGGREGATE_MEMORY, COL_USUAL | COL_SUM, 4, allocated_cell},
    {"freed", "Freed", AGGREGATE_MEMORY, COL_SUM, 0, freed_cell},
    {"allocs", "Allocs", AGGREGATE_MEMORY, COL_SUM, 0, allocs_cell},
    {"peak", "At peak", AGGREGATE_MEMORY, COL_USUAL | COL_SUM, 3, at_peak_cell},
    {"device_alloc", "Device alloc", AGGREGATE_DEVICE_MEMORY, COL_USUAL | COL_SUM | COL_DEVICES, 2,
     allocated_cell},
    {"device_freed", "Device freed", AGGREGATE_DEVICE_MEMORY, COL_SUM | COL_DEVICES, 0, freed_cell},
    {"device_allocs", "Device allocs", AGGREGATE_DEVICE_MEMORY, COL_SUM | COL_DEVICES, 0,
     allocs_cell},
    {"device_peak", "At device's peak", AGGREGATE_DEVICE_MEMORY, COL_USUAL | COL_SUM | COL_DEVICES,
     1, at_peak_cell},
    {"cpu_mem", "CPU Mem", AGGREGATE_NET_MEMORY, 0, 0, net_cell},
    {"self_cpu_mem", "Self CPU Mem", AGGREGATE_MEMORY, COL_SUM, 0, self_net_cell},
    {"device_mem", "Device Mem", AGGREGATE_NET_MEMORY, COL_DEVICES, 0, net_cell},
    {"self_device_mem", "Self Device Mem", AGGREGATE_DEVICE_MEMORY, COL_SUM | COL_DEVICES, 0,
     self_net_cell},
    {"thrown", "Thrown", 0, COL_SUM, 0, thrown_cell},
    {"mean", "Mean", 0, COL_USUAL, 7, mean_cell},
    {"min", "Min", 0, 0, 0, shortest_cell},
    {"p50", "P50", 0, 0, 0, p50_cell},
    {"p99", "P99", 0, COL_USUAL, 8, p99_cell},
    {"max", "Max", 0, COL_USUAL, 9, longest_cell},
    {"flops", "FLOPs", AGGREGATE_FLOPS, COL_SUM, 0, flops_cell},
    {"flop_rate", "FLOP/s", AGGREGATE_FLOPS, 0, 0, flop_rate_cell},
    {"forward", "Forward", AGGREGATE_SIDES, COL_USUAL, 0, total_cell},
    {"backward", "Backward", AGGREGATE_SIDES, COL_USUAL, 0, backward_cell},
    {"backward_calls", "Nodes", AGGREGATE_SIDES, COL_USUAL | COL_SUM, 5, backward_calls_cell},
    {"ratio", "B/F", AGGREGATE_SIDES, COL_USUAL, 4, ratio_cell},
    {"phase", "Phase", AGGREGATE_PHASE, COL_LEFT, 0, phase_cell},
    {"rank", "Rank", AGGREGATE_RANK, COL_USUAL, 0, rank_cell},
    {"thread", "Thread", AGGREGATE_THREAD, COL_USUAL | COL_LEFT, 0, thread_cell},
    {"module", "Module", AGGREGATE_MODULE, COL_USUAL | COL_LEFT, 0, module_cell},
    {"op", "Op", AGGREGATE_OP, COL_USUAL | COL_LEFT, 0, op_cell},
    {"shape", "Shapes", AGGREGATE_SHAPE, COL_USUAL | COL_LEFT, 0, shape_cell},
    {"dtype", "Dtypes", AGGREGATE_DTYPE, COL_USUAL | COL_LEFT, 0, dtype_cell},
    {"device", "Devices", AGGREGATE_DEVICE, COL_USUAL | COL_LEFT, 0, device_cell},
    {"symbol", "Symbol", AGGREGATE_SYMBOL, COL_USUAL | COL_LEFT, 0, symbol_cell},
    {"object", "Object", AGGREGATE_SYMBOL, COL_USUAL | COL_LEFT, 0, object_cell},
    {"file", "File", AGGREGATE_FILE | AGGREGATE_FUNCTION | AGGREGATE_LINE, COL_LEFT, 0, file_cell},
    {"function", "Function", AGGREGATE_FUNCTION | AGGREGATE_LINE, COL_LEFT, 0, function_cell},
    {"where", "Where", AGGREGATE_LINE, COL_USUAL | COL_LEFT, 0, where_cell},
};

const size_t report_ncolumns = sizeof(report_columns) / sizeof(report_columns[0]);
_Static_assert(sizeof(report_columns) / sizeof(report_columns[0]) <= REPORT_COLUMNS_MAX,
	       "all columns can be chosen");
