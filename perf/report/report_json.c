/* A report as JSON and CSV. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/json.h"
#include "perf/report/internal.h"
#include "symbolizer/event/names.h"

static void json_targets(struct json_out *j, const struct report_opts *opts)
{
	json_open(j, "targets", '[');
	for (size_t i = 0; i < opts->ntargets; i++) {
		const struct trace_target *t = &opts->targets[i];
		json_open(j, NULL, '{');
		json_i64(j, "pid", t->pid);
		json_text(j, "comm", t->comm);
		json_text(j, "command", t->argv);
		json_text(j, "torch", t->torch_version);
		json_text(j, "python", t->python_version);
		json_text(j, "engine", t->engine);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void json_when(struct json_out *j, const struct report_opts *opts)
{
	if (!opts->when)
		return;
	json_u64(j, "left_out", opts->when->left_out);
	json_u64(j, "not_known", opts->when->unknown);
}

static void json_sampled(struct json_out *j, const struct aggregate_totals *t,
			 const struct report_opts *opts)
{
	const struct report_samples *s = opts->samples;
	json_u64(j, "threads", t->threads);
	json_u64(j, "samples", t->events);
	json_u64(j, "weight", t->self_ns);
	json_text(j, "event", s->how.event);
	json_u64(j, "frequency", s->how.frequency);
	json_bool(j, "kernel", s->how.kernel);
	json_u64(j, "lost", s->lost);
	json_u64(j, "mismatched", s->mismatched);
	json_u64(j, "own_weight", s->own_weight);
	json_when(j, opts);
}

static void json_steps(struct json_out *j, const struct breakdown_result *b)
{
	static const char *const names[] = {"forward_ns", "backward_ns", "optimizer_ns", "data_ns",
					    "in_no_op_ns"};
	if (!b) {
		json_nothing(j, "steps");
		return;
	}
	json_open(j, "steps", '{');
	json_u64(j, "count", b->steps);
	json_u64(j, "median_ns", b->median_ns);
	json_u64(j, "p99_ns", b->p99_ns);
	json_u64(j, "wall_ns", b->wall_ns);
	for (int i = 0; i < BREAKDOWN_PARTS; i++)
		json_u64(j, names[i], b->parts[i]);
	json_u64(j, "compilations", b->compilations);
	json_u64(j, "compile_ns", b->compile_ns);
	json_u64(j, "compile_steps", b->compile_steps);
	if (b->python_ns)
		json_u64(j, "python_ns", b->python_ns);
	else
		json_nothing(j, "python_ns");
	json_close(j, '}');
}

static void json_measured(struct json_out *j, const struct trace_stats *s)
{
	if (!s->turns) {
		json_nothing(j, "measured");
		return;
	}
	json_open(j, "measured", '{');
	json_format(j, "slower_percent", "%.2f", (double)s->slowdown / 1e4);
	json_format(j, "error_percent", "%.2f", (double)s->slowdown_error / 1e4);
	json_u64(j, "turns", s->turns);
	json_close(j, '}');
}

static void json_summary(struct json_out *j, const struct aggregate_totals *t,
			 const struct report_opts *opts)
{
	const struct trace_stats *s = opts->stats;
	json_u64(j, "threads", t->threads);
	json_u64(j, "ops", t->events + t->unfinished);
	json_u64(j, "unfinished", t->unfinished);
	json_u64(j, "thrown", t->thrown);
	json_u64(j, "lost", t->lost);
	json_u64(j, "summed", t->summed);
	json_u64(j, "observed_ns", t->observed_ns);
	if (opts->left_out)
		json_nothing(j, "in_no_op_ns");
	else
		json_u64(j, "in_no_op_ns",
			 t->self_ns < t->observed_ns ? t->observed_ns - t->self_ns : 0);
	json_u64(j, "workers", t->workers);
	json_u64(j, "workers_ns", t->workers_ns);
	json_u64(j, "left_out_sums", opts->left_out);
	json_steps(j, t->summed || opts->left_out ? NULL : opts->steps);
	if (s) {
		json_u64(j, "wall_ns", s->wall_ns);
		json_u64(j, "probe_ns", s->probe_ns);
		json_bool(j, "probe_is_least", s->probe_is_least);
		json_u64(j, "cpu_ns", s->cpu_ns);
		json_u64(j, "lean", s->lean);
		json_u64(j, "no_blocks", s->no_blocks);
		json_measured(j, s);
	} else {
		json_nothing(j, "wall_ns");
		json_nothing(j, "probe_ns");
		json_nothing(j, "probe_is_least");
		json_nothing(j, "cpu_ns");
		json_nothing(j, "lean");
		json_nothing(j, "no_blocks");
		json_measured(j, &(struct trace_stats){0});
	}
	json_when(j, opts);
	if (s && s->seen_permille <= 1000)
		json_format(j, "seen_percent", "%.1f", s->seen_permille / 10.0);
	else
		json_nothing(j, "seen_percent");
}

static void json_peaks(struct json_out *j, const struct aggregate *a)
{
	size_t n;
	char name[32];
	const struct memory_peak *p = aggregate_peaks(a, &n);
	json_open(j, "memory", '[');
	for (size_t i = 0; i < n; i++, p++) {
		json_open(j, NULL, '{');
		json_text(j, "device",
			  names_device(name, sizeof(name), p->device_type, p->device_index));
		json_i64(j, "pid", p->pid);
		if (p->rank1)
			json_u64(j, "rank", p->rank1 - 1);
		else
			json_nothing(j, "rank");
		json_u64(j, "peak_bytes", p->bytes);
		json_u64(j, "peak_ns", p->ns);
		json_bool(j, "peak_exact", !p->late);
		if (p->reserved)
			json_u64(j, "reserved_bytes", p->reserved);
		else
			json_nothing(j, "reserved_bytes");
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* busy_ns: at least one thing at a time; sum_ns: each by itself. */
static void json_devices(struct json_out *j, const struct aggregate *a,
			 const struct aggregate_totals *t)
{
	size_t n;
	uint64_t off;
	struct device *list = devices_list(aggregate_devices(a), &n);
	json_u64(j, "activities", t->activities);
	json_u64(j, "activities_lost", t->activities_lost);
	json_u64(j, "memory_events", t->memory_events);
	json_u64(j, "memory_lost", t->memory_lost);
	json_u64(j, "memory_unknown", t->memory_unknown);
	json_bool(j, "memory_late", t->late);
	json_peaks(j, a);
	json_open(j, "devices", '[');
	for (size_t i = 0; i < n; i++) {
		struct device *d = &list[i];
		char name[32];
		json_open(j, NULL, '{');
		json_text(j, "device", names_device(name, sizeof(name), d->type, d->index));
		json_i64(j, "pid", d->pid);
		if (d->rank1)
			json_u64(j, "rank", d->rank1 - 1);
		else
			json_nothing(j, "rank");
		json_u64(j, "activities", d->activities);
		json_u64(j, "busy_ns", busy_between(&d->busy, 0, UINT64_MAX, &off));
		json_bool(j, "busy_exact", !d->busy.late);
		json_u64(j, "sum_ns", d->sum_ns);
		json_u64(j, "copies_ns", d->copies_ns);
		json_u64(j, "wall_ns", d->last_ns - d->first_ns);
		json_close(j, '}');
	}
	json_close(j, ']');
}

int report_print_json(FILE *f, const struct aggregate *a, const struct report_opts *given)
{
	const struct report_opts with_busy = report_with_busy(a, given), *opts = &with_busy;
	struct json_out j = {.f = f};
	struct aggregate_totals t = report_totals(a, opts);
	size_t n;
	const struct aggregate_row **rows = report_sorted(a, opts, opts->percent_limit, &n);
	if (!rows)
		return -ENOMEM;
	json_open(&j, NULL, '{');
	json_open(&j, "summary", '{');
	json_targets(&j, opts);
	trace_clocks_json(&j, opts->clocks, opts->nclocks);
	if (opts->samples)
		json_sampled(&j, &t, opts);
	else
		json_summary(&j, &t, opts);
	if (!opts->samples)
		json_devices(&j, a, &t);
	json_close(&j, '}');
	json_line(&j);
	int r = opts->kernels  ? kernels_json(&j, "rows", opts->kernels, opts)
		: opts->blocks ? code_blocks_json(&j, "rows", opts->blocks, t.observed_ns, opts)
			       : 0;
	if (!opts->kernels && !opts->blocks) {
		json_open(&j, "rows", '[');
		for (size_t i = 0; i < n; i++) {
			json_line(&j);
			report_fields_json(&j, aggregate_keys(a), rows[i],
					   aggregate_base(&t, rows[i]), opts);
		}
		json_line(&j);
		json_close(&j, ']');
	}
	json_close(&j, '}');
	putc('\n', f);
	free(rows);
	return r ? r : ferror(f) ? -EIO : 0;
}

int report_print_csv(FILE *f, const struct aggregate *a, const struct report_opts *given)
{
	const struct report_opts with_busy = report_with_busy(a, given), *opts = &with_busy;
	const struct aggregate_totals t = report_totals(a, opts);
	size_t n;
	if (opts->kernels)
		return kernels_print_csv(f, opts->kernels, opts);
	if (opts->blocks)
		return code_blocks_print_csv(f, opts->blocks, t.observed_ns, opts);
	const struct aggregate_row **rows = report_sorted(a, opts, opts->percent_limit, &n);
	if (!rows)
		return -ENOMEM;
	report_fields_header(f, aggregate_keys(a));
	for (size_t i = 0; i < n; i++)
		report_fields_csv(f, aggregate_keys(a), rows[i], aggregate_base(&t, rows[i]), opts);
	free(rows);
	return ferror(f) ? -EIO : 0;
}
