/* What stands above the table of a report: where the time goes, what was traced, what is missing.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "perf/report/internal.h"

/* Workers of a DataLoader belong to the program that they load for, whatever they were started as.
 */
static bool is_same_program(const struct trace_target *a, const struct trace_target *b,
			    bool is_worker)
{
	bool same = !strcmp(a->torch_version, b->torch_version) &&
		    !strcmp(a->python_version, b->python_version) && !strcmp(a->engine, b->engine);
	return same && (is_worker ||
			(!strcmp(a->argv, b->argv) && (a->argv[0] || !strcmp(a->comm, b->comm))));
}

/* Processes of a program besides the first. */
struct others {
	size_t workers, more;
};

static void others_text(char *out, size_t size, struct others o, bool is_narrow)
{
	char more[32] = "", workers[40] = "", number[32];
	if (o.more)
		snprintf(more, sizeof(more), " and %zu more", o.more);
	if (o.workers)
		snprintf(workers, sizeof(workers), "%s%s", o.more ? ", " : " and ",
			 text_counted(number, sizeof(number), o.workers,
				      is_narrow ? "worker" : "DataLoader worker"));
	snprintf(out, size, "%s%s", more, workers);
}

static bool is_narrow(size_t width)
{
	return width && width < 100;
}

static void print_target(FILE *f, const struct trace_target *t, struct others o, size_t width,
			 const struct trace_stats *stats)
{
	char wall[32], others[80], rest[512];
	const char *name = t->argv[0] ? t->argv : t->comm;
	others_text(others, sizeof(others), o, is_narrow(width));
	if (is_narrow(width))
		snprintf(rest, sizeof(rest), " (pid %" PRId32 "%s), torch %.*s, %s%s%s", t->pid,
			 others, (int)strcspn(t->torch_version, "+"), t->torch_version, t->engine,
			 stats ? ", " : "",
			 stats ? text_ns(wall, sizeof(wall), stats->wall_ns) : "");
	else
		snprintf(
		    rest, sizeof(rest), " (pid %" PRId32 "%s, torch %s, CPython %s), engine %s%s%s",
		    t->pid, others, t->torch_version[0] ? t->torch_version : "unknown",
		    t->python_version[0] ? t->python_version : "unknown", t->engine,
		    stats ? ", " : "", stats ? text_ns(wall, sizeof(wall), stats->wall_ns) : "");
	fputs("ditrace: ", f);
	text_print_end(f, name, width, strlen("ditrace: ") + text_width(rest));
	text_print_safe(f, rest);
	putc('\n', f);
}

/* The targets that get a line or are counted in one: those with an op, if any has one. */
static size_t choose_targets(const struct aggregate *a, const struct report_opts *opts,
			     const struct trace_target **chosen, bool *is_worker)
{
	size_t n = 0;
	for (int all = 0; all < 2 && !n; all++)
		for (size_t i = 0; i < opts->ntargets; i++) {
			enum aggregate_process p =
			    aggregate_process(a, opts->targets[i].pid, opts->targets[i].rank1);
			if (p == AGGREGATE_NO_OPS && !all && !opts->when)
				continue;
			is_worker[n] = p == AGGREGATE_LOADS;
			chosen[n++] = &opts->targets[i];
		}
	return n;
}

/* A line for each program. */
static void print_targets(FILE *f, const struct aggregate *a, const struct report_opts *opts)
{
	const struct trace_target **t = malloc((opts->ntargets + 1) * sizeof(*t));
	bool *is_worker = malloc(opts->ntargets + 1);
	size_t n =
	    t && is_worker ? choose_targets(opts->whole ? opts->whole : a, opts, t, is_worker) : 0;
	for (size_t i = 0; i < n; i++) {
		struct others o = {0};
		size_t before = 0;
		while (before < i && !is_same_program(t[before], t[i], is_worker[i]))
			before++;
		for (size_t k = i + 1; k < n && before == i; k++)
			if (is_same_program(t[i], t[k], is_worker[k]))
				is_worker[k] ? o.workers++ : o.more++;
		if (before == i)
			print_target(f, t[i], o, (size_t)opts->terminal.width, opts->stats);
	}
	free(t);
	free(is_worker);
}

double report_slowdown(uint64_t probe_ns, uint64_t cpu_ns)
{
	return probe_ns / 3 <= cpu_ns / 4 ? report_percent(probe_ns, cpu_ns - probe_ns) : -1;
}

const char *report_slowdown_text(char *out, size_t size, const struct trace_stats *s)
{
	const double percent = report_slowdown(s->probe_ns, s->cpu_ns);
	if (percent < 0)
		return NULL;
	snprintf(out, size, "%s %.*f %%", s->probe_is_least ? "at least" : "about", percent < 10,
		 percent);
	return out;
}

/* What the vendor's library takes of each launch is not known here. */
static void print_slowdown(FILE *f, const struct trace_stats *s, uint64_t activities, bool narrow)
{
	const char *more = activities ? ", and the records of devices more" : "";
	char text[64];
	if (!report_slowdown_text(text, sizeof(text), s))
		fputs("; probes took most of the time", f);
	else if (narrow)
		fprintf(f, "; slower by %s%s", text, activities ? " or more" : "");
	else
		fprintf(f, "; probes made it %s slower%s", text, more);
}

/* "3.1 % ± 0.8 %" */
static void print_measured(FILE *f, const struct trace_stats *s)
{
	const double percent = (double)s->slowdown / 1e4, error = (double)s->slowdown_error / 1e4;
	fprintf(f, "; measured: %.1f %% ± %.1f %% slower, in %" PRIu64 " turns", percent, error,
		s->turns);
}

void report_print_sampled(FILE *f, const struct aggregate *a, const struct report_opts *opts)
{
	const struct report_samples *s = opts->samples;
	char threads[32], samples[40], count[32], when[160];
	struct aggregate_totals t = report_totals(a, opts);
	fprintf(f, "ditrace: %s of %s", text_counted(samples, sizeof(samples), t.events, "sample"),
		text_counted(threads, sizeof(threads), t.threads, "thread"));
	if (s->how.event) {
		fputs(", ", f);
		text_print_safe(f, s->how.event);
		fprintf(f, " at %" PRIu64 " Hz%s", s->how.frequency,
			s->how.kernel ? "" : " in user space");
	}
	fprintf(f, ", %s lost", text_count(count, sizeof(count), s->lost));
	if (s->mismatched)
		fprintf(f, ", %s whose Python frames had moved on",
			text_count(count, sizeof(count), s->mismatched));
	if (s->own_weight)
		fprintf(f, ", %.1f %% in ditrace's recorder",
			100 * (double)s->own_weight / (double)t.self_ns);
	if (opts->when)
		fprintf(f, "\nditrace: %s", when_counts_text(when, sizeof(when), opts->when));
	fputs("\n\n", f);
}

/* How many threads and ops there were, what was lost, and what tracing them took. */
static void print_traced(FILE *f, const struct aggregate_totals *t, const struct report_opts *opts)
{
	char threads[32], events[48], lost[32], unfinished[32], steps[40];
	const struct trace_stats *s = opts->stats;
	fprintf(f, "ditrace: traced %s, %s, %s lost%s",
		text_counted(threads, sizeof(threads), t->threads, "thread"),
		text_counted(events, sizeof(events), t->events + t->unfinished, "op"),
		text_count(lost, sizeof(lost), t->lost),
		t->lost && opts->of_ranks ? " of all ranks" : "");
	if (s && s->turns)
		print_measured(f, s);
	else if (s && s->probe_ns && s->cpu_ns)
		print_slowdown(f, s, t->activities, is_narrow((size_t)opts->terminal.width));
	if (s && s->seen_permille < 1000)
		fprintf(f,
			"; %.1f %% of the dispatched ops were seen in short samples, --engine shim "
			"sees the others",
			s->seen_permille / 10.0);
	if (t->unfinished)
		fprintf(f, "; %s had not ended",
			text_count(unfinished, sizeof(unfinished), t->unfinished));
	if (opts->per_step)
		fprintf(f, "; below: means of %s",
			text_counted(steps, sizeof(steps), opts->per_step, "whole step"));
}

static void print_lost(FILE *f, uint64_t n, const char *one, const char *many, const char *hence)
{
	char count[32];
	if (n)
		fprintf(f, "\nditrace: %s %s lost: %s", text_count(count, sizeof(count), n),
			n == 1 ? one : many, hence);
}

static void print_ops(FILE *f, uint64_t n, const char *what)
{
	char ops[40];
	if (n)
		fprintf(f, "\nditrace: %s %s %s", text_counted(ops, sizeof(ops), n, "op"),
			n == 1 ? "is" : "are", what);
}

/* What was lost, and what has less detail than the rest. */
static void print_incomplete(FILE *f, const struct aggregate_totals *t,
			     const struct report_opts *opts)
{
	const struct trace_stats *s = opts->stats;
	char n[48];
	print_lost(f, t->activities_lost, "activity of a device was", "activities of devices were",
		   "times of devices are too short");
	print_lost(f, t->memory_lost, "allocation or free was", "allocations or frees were",
		   "what is said of memory is not exact");
	if (t->memory_unknown)
		fprintf(f, "\nditrace: freed, but allocated before: %s of a size that is not known",
			text_counted(n, sizeof(n), t->memory_unknown, "block"));
	if (t->lost && opts->each)
		fprintf(
		    f,
		    "\nditrace: %s needs each call, so that none is summed up: without room for "
		    "its record (--buffer) it is lost",
		    opts->each);
	print_ops(f, t->summed,
		  "in the counts and times with less detail: ditrace had no time for more");
	print_ops(f, opts->left_out,
		  "left out, as the recording has sums of them only: it is not known which are of "
		  "this part");
	if (s && s->turns_ops)
		fprintf(
		    f,
		    "\nditrace: %s before that, while the overhead was measured, %s not recorded",
		    text_counted(n, sizeof(n), s->turns_ops, "op"),
		    s->turns_ops == 1 ? "is" : "are");
	if (s && s->no_blocks)
		fprintf(f,
			"\nditrace: of %s process%s blocks of record_function could not be "
			"recorded: waiting for data may be told as in no op",
			text_count(n, sizeof(n), s->no_blocks), s->no_blocks == 1 ? "" : "es");
	if (s && s->lean)
		fprintf(f,
			"\nditrace: of %s of %s there was no time to read the tensors "
			"and other values",
			text_counted(n, sizeof(n), s->lean, "op"),
			opts->of_ranks ? "all ranks" : "the recording");
}

static void print_safe_line(FILE *f, const char *text)
{
	fputs("\nditrace: ", f);
	text_print_safe(f, text);
}

/* What was chosen, and how it was recorded. */
static void print_chosen(FILE *f, const struct aggregate_totals *t, const struct report_opts *opts)
{
	char when[160], clock[TRACE_CLOCK_TEXT_MAX];
	if (opts->when)
		fprintf(f, "\nditrace: %s", when_counts_text(when, sizeof(when), opts->when));
	if (opts->chosen) {
		fputs("\nditrace: recorded with ", f);
		text_print_safe(f, opts->chosen);
		fputs(": what other ops took is not known", f);
		if (t->activities)
			fputs(", and what they launched is told as in no op", f);
	}
	for (size_t i = 0; i < opts->nclocks; i++)
		print_safe_line(f, trace_clock_text(clock, sizeof(clock), opts->clocks[i]));
	if (opts->engine)
		print_safe_line(f, opts->engine);
}

void report_print_summary(FILE *f, const struct aggregate *a, const struct report_opts *opts,
			  const struct file_names *files)
{
	struct aggregate_totals t = report_totals(a, opts);
	bool has_sums = t.summed || opts->left_out;
	if ((opts->steps || opts->all_activities) && !opts->no_table)
		headline_print(f, has_sums ? NULL : opts->steps, a, opts, files);
	print_targets(f, a, opts);
	print_traced(f, &t, opts);
	print_incomplete(f, &t, opts);
	print_chosen(f, &t, opts);
	fputs(opts->no_table ? "\n" : "\n\n", f);
	if (opts->about)
		fprintf(f, "%s\n\n", opts->about);
}
