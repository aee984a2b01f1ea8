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

struct exposition {
	struct metrics *m;
	FILE *f;
	int64_t realtime_ns;
	metrics_usage_fn *usage;
};

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

/* A metric family; `unit` may be NULL, and ends its name if not. */
static void family(const struct exposition *x, const char *name, const char *type, const char *unit,
		   const char *help)
{
	fprintf(x->f, "# TYPE %s %s\n", name, type);
	if (unit)
		fprintf(x->f, "# UNIT %s %s\n", name, unit);
	fprintf(x->f, "# HELP %s %s\n", name, help);
}

static void label(const struct exposition *x, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	fprintf(x->f, ",%s=", name);
	metrics_print_label(x->f, value);
}

static void label_number(const struct exposition *x, const char *name, int32_t n)
{
	if (n >= 0)
		fprintf(x->f, ",%s=\"%" PRId32 "\"", name, n);
}

/* The name of a sample and the labels of its process; more may follow, then the value. */
static void sample(const struct exposition *x, const char *name, const struct metrics_series *s)
{
	fprintf(x->f, "%s{role=\"%s\"", name, s->pid ? "train" : "load");
	label_number(x, "pid", s->pid ? s->pid : -1);
	label_number(x, "rank", s->rank.rank);
}

static void count(const struct exposition *x, uint64_t n)
{
	fprintf(x->f, "} %" PRIu64 "\n", n);
}

static void seconds(const struct exposition *x, uint64_t ns)
{
	fprintf(x->f, "} %" PRIu64 ".%09" PRIu64 "\n", ns / 1000000000, ns % 1000000000);
}

/* The time of the day. */
static void moment(const struct exposition *x, uint64_t monotonic_ns)
{
	seconds(x, (uint64_t)((int64_t)monotonic_ns + x->realtime_ns));
}

/* The first series that is told of from *i on, where *i is then; NULL: there are no more. */
static const struct metrics_series *series_from(const struct exposition *x, size_t *i)
{
	while (*i < x->m->nseries && x->m->series[*i]->hidden)
		++*i;
	return *i < x->m->nseries ? x->m->series[*i] : NULL;
}

/* The same, of a process. */
static const struct metrics_series *process_from(const struct exposition *x, size_t *i)
{
	const struct metrics_series *s;
	while ((s = series_from(x, i)) && !s->pid)
		++*i;
	return s;
}

static const struct aggregate_row *const *rows_of(const struct metrics_series *s, size_t *n)
{
	*n = 0;
	return s->ops ? aggregate_rows(s->ops, n) : NULL;
}

static struct aggregate_totals totals_of(const struct metrics_series *s)
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
	family(x, "ditrace_process", "info", NULL, "A process that is traced.");
	for (size_t at = 0; (s = process_from(x, &at)); at++) {
		sample(x, "ditrace_process_info", s);
		label_number(x, "world_size", s->rank.world_size);
		label_number(x, "local_rank", s->rank.local_rank);
		label_number(x, "node", s->rank.node);
		label_number(x, "restarts", s->rank.restarts);
		label(x, "host", s->rank.host);
		label(x, "torch", s->torch);
		label(x, "python", s->python);
		label(x, "engine", s->engine);
		count(x, 1);
	}
	family(x, "ditrace_up", "gauge", NULL, "1 while the process runs, 0 once it has ended.");
	for (size_t at = 0; (s = process_from(x, &at)); at++)
		if (!s->end_not_known) {
			sample(x, "ditrace_up", s);
			count(x, !s->ended_ns);
		}
	family(x, "ditrace_end_time_seconds", "gauge", "seconds",
	       "When the process ended, since 1970.");
	for (size_t at = 0; (s = process_from(x, &at)); at++)
		if (s->ended_ns) {
			sample(x, "ditrace_end_time_seconds", s);
			moment(x, s->ended_ns);
		}
}

static void print_usage(const struct exposition *x)
{
	const struct metrics_series *s;
	struct metrics_usage u;
	if (!x->usage)
		return;
	family(x, "ditrace_cpu_seconds", "counter", "seconds", "CPU time of the process.");
	for (size_t at = 0; (s = process_from(x, &at)); at++)
		if (!s->ended_ns && x->usage(s->pid, &u)) {
			sample(x, "ditrace_cpu_seconds_total", s);
			seconds(x, u.cpu_ns);
		}
	family(x, "ditrace_resident_memory_bytes", "gauge", "bytes",
	       "Resident memory of the process.");
	for (size_t at = 0; (s = process_from(x, &at)); at++)
		if (!s->ended_ns && x->usage(s->pid, &u)) {
			sample(x, "ditrace_resident_memory_bytes", s);
			count(x, u.rss);
		}
}

/* Ops. */

static void print_ops(const struct exposition *x)
{
	const struct metrics_series *s;
	family(x, "ditrace_ops", "counter", NULL,
	       "Calls of operators that have ended, nested ones included.");
	for (size_t at = 0; (s = series_from(x, &at)); at++) {
		uint64_t calls[PHASES] = {0};
		size_t n;
		const struct aggregate_row *const *rows = rows_of(s, &n);
		for (size_t i = 0; i < n; i++)
			calls[rows[i]->phase] += rows[i]->calls;
		for (int i = 0; i < PHASES; i++) {
			if (!calls[i] && i != PHASE_FORWARD && i != PHASE_BACKWARD)
				continue;
			sample(x, "ditrace_ops_total", s);
			label(x, "phase", op_phase_names[i]);
			count(x, calls[i]);
		}
	}
}

static void print_each_op(const struct exposition *x, bool times)
{
	const struct metrics_series *s;
	const char *name = times ? "ditrace_op_seconds_total" : "ditrace_op_calls_total";
	for (size_t at = 0; (s = series_from(x, &at)); at++) {
		size_t n;
		const struct aggregate_row *const *rows = rows_of(s, &n);
		for (size_t i = 0; i < n; i++) {
			if (!metrics_op_is_named(x->m, rows[i]->op))
				continue;
			sample(x, name, s);
			label(x, "phase", op_phase_names[rows[i]->phase]);
			label(x, "op", rows[i]->op);
			if (times)
				seconds(x, rows[i]->self_ns);
			else
				count(x, rows[i]->calls);
		}
	}
}

static int print_named_ops(const struct exposition *x)
{
	int r = metrics_name_ops(x->m);
	family(x, "ditrace_op_seconds", "counter", "seconds",
	       "Time in an operator itself, less those it called, of those that take most.");
	print_each_op(x, true);
	family(x, "ditrace_op_calls", "counter", NULL, "Calls of such an operator.");
	print_each_op(x, false);
	return r;
}

/* Steps. */

static void print_histogram(const struct exposition *x, const struct metrics_series *s)
{
	uint64_t sum = 0;
	char bound[32];
	for (int i = 0; i <= STEP_BUCKETS; i++) {
		sum += s->steps.buckets[i];
		sample(x, "ditrace_step_seconds_bucket", s);
		if (i < STEP_BUCKETS)
			text_float(bound, sizeof(bound), (double)metrics_step_bounds[i] / 1e9);
		label(x, "le", i < STEP_BUCKETS ? bound : "+Inf");
		count(x, sum);
	}
	sample(x, "ditrace_step_seconds_count", s);
	count(x, sum);
	sample(x, "ditrace_step_seconds_sum", s);
	seconds(x, s->steps.wall_ns);
}

static void print_parts(const struct exposition *x)
{
	const struct metrics_series *s;
	static const char *const names[BREAKDOWN_PARTS] = {"forward", "backward", "optimizer",
							   "data", "no_op"};
	family(x, "ditrace_step_part_seconds", "counter", "seconds",
	       "What these steps consist of: no_op is Python, or waiting.");
	for (size_t at = 0; (s = process_from(x, &at)); at++)
		for (int i = 0; i < BREAKDOWN_PARTS; i++) {
			sample(x, "ditrace_step_part_seconds_total", s);
			label(x, "part", names[i]);
			seconds(x, s->steps.parts[i]);
		}
}

static void print_left_out(const struct exposition *x)
{
	const struct metrics_series *s;
	family(x, "ditrace_steps_left_out", "counter", NULL,
	       "Steps that are not counted, as ops of that time are missing or known in sum only, "
	       "or as torch.compile compiled in them.");
	for (size_t at = 0; (s = process_from(x, &at)); at++) {
		struct breakdown_result b = {0};
		if (s->breakdown)
			breakdown_get(s->breakdown, &b);
		sample(x, "ditrace_steps_left_out_total", s);
		label(x, "why", "ops_missing");
		count(x, s->steps.unsure);
		sample(x, "ditrace_steps_left_out_total", s);
		label(x, "why", "compilation");
		count(x, b.compile_steps);
	}
}

static void print_compilations(const struct exposition *x)
{
	const struct metrics_series *s;
	family(x, "ditrace_compile_seconds", "counter", "seconds",
	       "Time in which torch.compile compiled; it is in no other figure.");
	for (size_t at = 0; (s = process_from(x, &at)); at++) {
		struct aggregate_totals t = totals_of(s);
		sample(x, "ditrace_compile_seconds_total", s);
		seconds(x, t.compile_ns);
	}
}

static void print_steps(const struct exposition *x)
{
	const struct metrics_series *s;
	if (x->m->chosen)
		return;
	family(x, "ditrace_steps", "counter", NULL,
	       "Whole training steps: from the end of an optimizer's step to that of the next.");
	for (size_t at = 0; (s = process_from(x, &at)); at++) {
		sample(x, "ditrace_steps_total", s);
		count(x, s->steps.steps);
	}
	family(x, "ditrace_step_seconds", "histogram", "seconds", "How long these steps took.");
	for (size_t at = 0; (s = process_from(x, &at)); at++)
		print_histogram(x, s);
	family(x, "ditrace_step_time_seconds", "gauge", "seconds",
	       "When the last of them ended, since 1970.");
	for (size_t at = 0; (s = process_from(x, &at)); at++)
		if (s->steps.last_ns) {
			sample(x, "ditrace_step_time_seconds", s);
			moment(x, s->steps.last_ns);
		}
	print_parts(x);
	print_left_out(x);
	print_compilations(x);
}

/* Waits, and collectives. */

static uint64_t time_in(const struct metrics_series *s, const char *op)
{
	size_t n;
	uint64_t ns = 0;
	const struct aggregate_row *const *rows = rows_of(s, &n);
	for (size_t i = 0; i < n; i++)
		ns += strcmp(rows[i]->op, op) ? 0 : rows[i]->self_ns;
	return ns;
}

static void print_waits(const struct exposition *x)
{
	const struct metrics_series *s;
	family(x, "ditrace_wait_seconds", "counter", "seconds",
	       "Time in which threads of the program waited for a collective (c10d::Work::wait), "
	       "and in which steps had the DataLoader get data.");
	for (size_t at = 0; (s = process_from(x, &at)); at++) {
		sample(x, "ditrace_wait_seconds_total", s);
		label(x, "kind", "collective");
		seconds(x, time_in(s, "c10d::Work::wait"));
		if (x->m->chosen)
			continue;
		sample(x, "ditrace_wait_seconds_total", s);
		label(x, "kind", "data");
		seconds(x, s->steps.parts[BREAKDOWN_DATA]);
	}
}

static void print_collective(const struct exposition *x, const char *name, size_t offset)
{
	const struct metrics_series *s;
	for (size_t at = 0; (s = process_from(x, &at)); at++)
		for (int i = 0; i < COLLECTIVE_KINDS && s->collectives[i].name; i++) {
			uint64_t n;
			memcpy(&n, (const char *)&s->collectives[i] + offset, sizeof(n));
			sample(x, name, s);
			label(x, "collective", s->collectives[i].name);
			count(x, n);
		}
}

static void print_collectives(const struct exposition *x)
{
	family(x, "ditrace_collectives", "counter", NULL,
	       "Calls of torch.distributed (engine shim).");
	print_collective(x, "ditrace_collectives_total",
			 offsetof(struct metrics_collective, calls));
	family(x, "ditrace_collective_bytes", "counter", "bytes",
	       "Bytes that the rank gave to them; of scatter and reduce_scatter, that it got.");
	print_collective(x, "ditrace_collective_bytes_total",
			 offsetof(struct metrics_collective, bytes));
	family(x, "ditrace_collectives_without_size", "counter", NULL,
	       "Those of which the bytes are not known, and not counted.");
	print_collective(x, "ditrace_collectives_without_size_total",
			 offsetof(struct metrics_collective, unsized));
}

/* Devices. */

static void print_devices(const struct exposition *x)
{
	const struct metrics_series *s;
	family(x, "ditrace_device_busy_seconds", "counter", "seconds",
	       "Time in which a device did at least one thing for the process.");
	for (size_t at = 0; (s = series_from(x, &at)); at++) {
		size_t n;
		uint64_t off;
		struct device *list = devices_of(s, &n);
		for (size_t i = 0; i < n; i++) {
			char name[32];
			sample(x, "ditrace_device_busy_seconds_total", s);
			label(x, "device",
			      names_device(name, sizeof(name), list[i].type, list[i].index));
			seconds(x, busy_between(&list[i].busy, 0, UINT64_MAX, &off));
		}
	}
	family(x, "ditrace_lost_activities", "counter", NULL,
	       "Activities of devices that were lost: their time is in no figure.");
	fprintf(x->f, "ditrace_lost_activities_total %" PRIu64 "\n", x->m->activities_lost);
}

/* What is not known, and what tracing costs. */

static void print_doubts(const struct exposition *x)
{
	const struct metrics_series *s;
	family(x, "ditrace_summed_ops", "counter", NULL,
	       "Calls, of those of ditrace_ops, of which only the sum is known.");
	for (size_t at = 0; (s = series_from(x, &at)); at++) {
		struct aggregate_totals t = totals_of(s);
		sample(x, "ditrace_summed_ops_total", s);
		count(x, t.summed);
	}
	family(x, "ditrace_lost_events", "counter", NULL,
	       "Records of calls, of all processes, that were lost: they are in no figure.");
	fprintf(x->f, "ditrace_lost_events_total %" PRIu64 "\n", x->m->lost);
	const struct trace_stats *t = &x->m->stats;
	double percent = t->cpu_ns ? report_slowdown(t->probe_ns, t->cpu_ns) : -1;
	if (!t->probe_ns || percent < 0)
		return;
	family(
	    x, "ditrace_slowdown_ratio", "gauge", "ratio",
	    "By how much probes made the traced threads slower so far, an estimate: 0.1 is 10 %.");
	fprintf(x->f, "ditrace_slowdown_ratio %.4f\n", percent / 100);
}

int metrics_print(struct metrics *m, FILE *f, int64_t realtime_ns, metrics_usage_fn *usage)
{
	const struct exposition x = {.m = m, .f = f, .realtime_ns = realtime_ns, .usage = usage};
	print_processes(&x);
	print_usage(&x);
	print_ops(&x);
	int r = print_named_ops(&x);
	print_steps(&x);
	print_waits(&x);
	print_collectives(&x);
	print_devices(&x);
	print_doubts(&x);
	fputs("# EOF\n", f);
	return r ? r : ferror(f) ? -EIO : 0;
}
