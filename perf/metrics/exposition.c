/* The text of metrics, in the format OpenMetrics 1.0.0
 * (https://prometheus.io/docs/specs/om/open_metrics_spec/). */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "perf/metrics/internal.h"
#include "perf/report/devices.h"
#include "symbolizer/event/names.h"

void metrics_print_label(FILE *f, const char *text)
{
	uint32_t cp;
	putc('"', f);
	for (size_t left = strlen(text), n; left; text += n, left -= n) {
		n = text_utf8(text, left, &cp);
		if (n == 0)
			fputs("\xef\xbf\xbd", f);
		else if (*text == '\n')
			fputs("\\n", f);
		else
			fprintf(f, "%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", (int)n,
				text);
		n = n ? n : 1;
	}
	putc('"', f);
}

void expose_family(const struct exposition *x, const char *name, const char *type, const char *unit,
		   const char *help)
{
	fprintf(x->f, "# TYPE %s %s\n", name, type);
	if (unit)
		fprintf(x->f, "# UNIT %s %s\n", name, unit);
	fprintf(x->f, "# HELP %s %s\n", name, help);
}

void expose_label(const struct exposition *x, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	fprintf(x->f, ",%s=", name);
	metrics_print_label(x->f, value);
}

static void expose_label_number(const struct exposition *x, const char *name, int32_t n)
{
	if (n >= 0)
		fprintf(x->f, ",%s=\"%" PRId32 "\"", name, n);
}

void expose_sample(const struct exposition *x, const char *name, const struct metrics_series *s)
{
	fprintf(x->f, "%s{role=\"%s\"", name, s->pid ? "train" : "load");
	expose_label_number(x, "pid", s->pid ? s->pid : -1);
	expose_label_number(x, "rank", s->rank.rank);
}

void expose_count(const struct exposition *x, uint64_t n)
{
	fprintf(x->f, "} %" PRIu64 "\n", n);
}

void expose_seconds(const struct exposition *x, uint64_t ns)
{
	fprintf(x->f, "} %" PRIu64 ".%09" PRIu64 "\n", ns / 1000000000, ns % 1000000000);
}

void expose_moment(const struct exposition *x, uint64_t monotonic_ns)
{
	expose_seconds(x, (uint64_t)((int64_t)monotonic_ns + x->realtime_ns));
}

/* torchrun, which has PyTorch loaded and runs no op, is none. */
static bool is_shown(const struct metrics_series *s)
{
	return !s->hidden && (s->rank.rank >= 0 || s->ops);
}

const struct metrics_series *expose_series(const struct exposition *x, size_t *i)
{
	while (*i < x->m->nseries && !is_shown(x->m->series[*i]))
		++*i;
	return *i < x->m->nseries ? x->m->series[*i] : NULL;
}

const struct metrics_series *expose_process(const struct exposition *x, size_t *i)
{
	const struct metrics_series *s;
	while ((s = expose_series(x, i)) && !s->pid)
		++*i;
	return s;
}

const struct aggregate_row *const *expose_rows(const struct metrics_series *s, size_t *n)
{
	*n = 0;
	return s->ops ? aggregate_rows(s->ops, n) : NULL;
}

struct aggregate_totals expose_totals(const struct metrics_series *s)
{
	struct aggregate_totals t = {0};
	if (s->ops)
		aggregate_totals(s->ops, &t);
	return t;
}

static struct device *devices_of(const struct metrics_series *s, size_t *n)
{
	*n = 0;
	return s->ops ? devices_list(aggregate_devices(s->ops), n) : NULL;
}

/* Processes. */

static void print_processes(const struct exposition *x)
{
	const struct metrics_series *s;
	expose_family(x, "ditrace_process", "info", NULL, "A process that is traced.");
	for (size_t at = 0; (s = expose_process(x, &at)); at++) {
		expose_sample(x, "ditrace_process_info", s);
		expose_label_number(x, "world_size", s->rank.world_size);
		expose_label_number(x, "local_rank", s->rank.local_rank);
		expose_label_number(x, "node", s->rank.node);
		expose_label_number(x, "restarts", s->rank.restarts);
		expose_label(x, "host", s->rank.host);
		expose_label(x, "torch", s->torch);
		expose_label(x, "python", s->python);
		expose_label(x, "engine", s->engine);
		expose_count(x, 1);
	}
	expose_family(x, "ditrace_up", "gauge", NULL,
		      "1 while the process runs, 0 once it has ended.");
	for (size_t at = 0; (s = expose_process(x, &at)); at++)
		if (!s->end_not_known) {
			expose_sample(x, "ditrace_up", s);
			expose_count(x, !s->ended_ns);
		}
	expose_family(x, "ditrace_end_time_seconds", "gauge", "seconds",
		      "When the process ended, since 1970.");
	for (size_t at = 0; (s = expose_process(x, &at)); at++)
		if (s->ended_ns) {
			expose_sample(x, "ditrace_end_time_seconds", s);
			expose_moment(x, s->ended_ns);
		}
}

static void print_usage(const struct exposition *x)
{
	const struct metrics_series *s;
	struct metrics_usage u;
	if (!x->usage)
		return;
	expose_family(x, "ditrace_cpu_seconds", "counter", "seconds", "CPU time of the process.");
	for (size_t at = 0; (s = expose_process(x, &at)); at++)
		if (!s->ended_ns && x->usage(s->pid, &u)) {
			expose_sample(x, "ditrace_cpu_seconds_total", s);
			expose_seconds(x, u.cpu_ns);
		}
	expose_family(x, "ditrace_resident_memory_bytes", "gauge", "bytes",
		      "Resident memory of the process.");
	for (size_t at = 0; (s = expose_process(x, &at)); at++)
		if (!s->ended_ns && x->usage(s->pid, &u)) {
			expose_sample(x, "ditrace_resident_memory_bytes", s);
			expose_count(x, u.rss);
		}
}

/* Ops. */

static void print_ops(const struct exposition *x)
{
	const struct metrics_series *s;
	expose_family(x, "ditrace_ops", "counter", NULL,
		      "Calls of operators that have ended, nested ones included.");
	for (size_t at = 0; (s = expose_series(x, &at)); at++) {
		uint64_t calls[PHASES] = {0};
		size_t n;
		const struct aggregate_row *const *rows = expose_rows(s, &n);
		for (size_t i = 0; i < n; i++)
			calls[rows[i]->phase] += rows[i]->calls;
		for (int i = 0; i < PHASES; i++) {
			if (!calls[i] && i != PHASE_FORWARD && i != PHASE_BACKWARD)
				continue;
			expose_sample(x, "ditrace_ops_total", s);
			expose_label(x, "phase", op_phase_names[i]);
			expose_count(x, calls[i]);
		}
	}
}

static void print_each_op(const struct exposition *x, bool times)
{
	const struct metrics_series *s;
	const char *name = times ? "ditrace_op_seconds_total" : "ditrace_op_calls_total";
	for (size_t at = 0; (s = expose_series(x, &at)); at++) {
		size_t n;
		const struct aggregate_row *const *rows = expose_rows(s, &n);
		for (size_t i = 0; i < n; i++) {
			if (!metrics_op_is_named(x->m, rows[i]->op))
				continue;
			expose_sample(x, name, s);
			expose_label(x, "phase", op_phase_names[rows[i]->phase]);
			expose_label(x, "op", rows[i]->op);
			if (times)
				expose_seconds(x, rows[i]->self_ns);
			else
				expose_count(x, rows[i]->calls);
		}
	}
}

static int print_named_ops(const struct exposition *x)
{
	int r = metrics_name_ops(x->m);
	expose_family(x, "ditrace_op_seconds", "counter", "seconds",
		      "Time in an operator itself, less those it called, of those that take most.");
	print_each_op(x, true);
	expose_family(x, "ditrace_op_calls", "counter", NULL, "Calls of such an operator.");
	print_each_op(x, false);
	return r;
}

/* Devices. */

static void print_devices(const struct exposition *x)
{
	const struct metrics_series *s;
	expose_family(x, "ditrace_device_busy_seconds", "counter", "seconds",
		      "Time in which a device did at least one thing for the process.");
	for (size_t at = 0; (s = expose_series(x, &at)); at++) {
		size_t n;
		uint64_t off;
		struct device *list = devices_of(s, &n);
		for (size_t i = 0; i < n; i++) {
			char name[32];
			expose_sample(x, "ditrace_device_busy_seconds_total", s);
			expose_label(x, "device",
				     names_device(name, sizeof(name), list[i].type, list[i].index));
			expose_seconds(x, busy_between(&list[i].busy, 0, UINT64_MAX, &off));
		}
	}
	expose_family(x, "ditrace_lost_activities", "counter", NULL,
		      "Activities of devices that were lost: their time is in no figure.");
	fprintf(x->f, "ditrace_lost_activities_total %" PRIu64 "\n", x->m->activities_lost);
}

/* What is not known, and what tracing costs. */

static void print_doubts(const struct exposition *x)
{
	const struct metrics_series *s;
	expose_family(x, "ditrace_summed_ops", "counter", NULL,
		      "Calls, of those of ditrace_ops, of which only the sum is known.");
	for (size_t at = 0; (s = expose_series(x, &at)); at++) {
		struct aggregate_totals t = expose_totals(s);
		expose_sample(x, "ditrace_summed_ops_total", s);
		expose_count(x, t.summed);
	}
	expose_family(x, "ditrace_lost_events", "counter", NULL,
		      "Records of calls, of all processes, that were lost: they are in no figure.");
	fprintf(x->f, "ditrace_lost_events_total %" PRIu64 "\n", x->m->lost);
	const struct trace_stats *t = &x->m->stats;
	double percent = t->cpu_ns ? report_slowdown(t->probe_ns, t->cpu_ns) : -1;
	if (!t->probe_ns || percent < 0)
		return;
	expose_family(
	    x, "ditrace_slowdown_ratio", "gauge", "ratio",
	    "By how much, or more, probes made the traced threads slower so far: 0.1 is 10 %.");
	fprintf(x->f, "ditrace_slowdown_ratio %.4f\n", percent / 100);
}

int metrics_print(struct metrics *m, FILE *f, int64_t realtime_ns, metrics_usage_fn *usage)
{
	const struct exposition x = {.m = m, .f = f, .realtime_ns = realtime_ns, .usage = usage};
	print_processes(&x);
	print_usage(&x);
	print_ops(&x);
	int r = print_named_ops(&x);
	expose_steps(&x);
	expose_waits(&x);
	print_devices(&x);
	print_doubts(&x);
	fputs("# EOF\n", f);
	return r ? r : ferror(f) ? -EIO : 0;
}
