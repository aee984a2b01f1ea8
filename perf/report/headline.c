/* The first lines of a report: where the time of a step goes, in words. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "perf/events/print_event.h"
#include "perf/report/internal.h"

enum { USUAL_WIDTH = 120 };

bool headline_add(struct headline_line *l, const char *fmt, ...)
{
	char part[512];
	size_t used = strlen(l->text);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(part, sizeof(part), fmt, ap);
	va_end(ap);
	if (text_width(l->text) + text_width(part) > l->width ||
	    used + strlen(part) >= sizeof(l->text))
		return false;
	memcpy(l->text + used, part, strlen(part) + 1);
	return true;
}

struct headline_line headline_line(const struct report_opts *opts)
{
	return (struct headline_line){
	    .width = opts->terminal.width > 0 ? (size_t)opts->terminal.width : USUAL_WIDTH};
}

void headline_put(struct headline *h, const struct headline_line *l)
{
	if (h->n < HEADLINE_LINES)
		h->lines[h->n++] = *l;
}

/* Put what is brief of it behind a line that has room. */
static bool join(struct headline *h, const struct headline_line *l)
{
	for (size_t i = 0; i < h->n && l->brief[0]; i++) {
		struct headline_line *to = &h->lines[i];
		if (to == l || !to->takes || !headline_add(to, "; %s", l->brief))
			continue;
		to->spare = false;
		return true;
	}
	return false;
}

static void shorten(struct headline *h)
{
	for (int spare = 0; spare < 2; spare++)
		for (size_t i = h->n; i-- && h->n > HEADLINE_USUAL;) {
			if (spare ? !h->lines[i].spare : !join(h, &h->lines[i]))
				continue;
			h->n--;
			memmove(&h->lines[i], &h->lines[i + 1], (h->n - i) * sizeof(h->lines[0]));
		}
}

static void put_place(struct headline *h, const char *before, const struct breakdown_line *at,
		      const struct file_names *files)
{
	struct headline_line line = {0};
	char place[PLACE_MAX];
	snprintf(line.text, sizeof(line.text), "%s %s%s%s", before,
		 place_text(place, sizeof(place), at->file, at->line, files), at->text ? ": " : "",
		 at->text ? at->text : "");
	headline_put(h, &line);
}

/* What most of a step waits for: its data, or what happens in no op. */
static bool add_longest(struct headline *h, const struct breakdown_result *b,
			const struct file_names *files, bool data)
{
	const struct breakdown_line *at = data ? &b->data : &b->no_op;
	double part = report_percent(at->ns, b->wall_ns);
	const char *of = b->steps ? "a step" : "the time";
	char before[128];
	if (part < (data ? 10 : 5))
		return false;
	if (!data)
		snprintf(before, sizeof(before), "%.0f %% of %s is in no op, up to", part, of);
	else if (b->loads_itself)
		snprintf(before, sizeof(before), "%.0f %% of %s loads data, without workers, in",
			 part, of);
	else
		snprintf(before, sizeof(before), "%.0f %% of %s waits for data in", part, of);
	put_place(h, before, at, files);
	return true;
}

struct share {
	const char *name;
	uint64_t ns;
};

static int compare_shares(const void *a, const void *b)
{
	const struct share *x = a, *y = b;
	return (x->ns < y->ns) - (x->ns > y->ns);
}

/* Behind the steps if they fit, else on a line of their own. */
static void add_shares(struct headline *h, struct headline_line *steps, const struct share *shares,
		       size_t n, uint64_t wall_ns)
{
	struct headline_line own = {.width = steps->width, .takes = true};
	for (size_t i = 0; i < n && report_percent(shares[i].ns, wall_ns) >= 0.5; i++)
		headline_add(&own, "%s%s %.0f %%", i ? ", " : "", shares[i].name,
			     report_percent(shares[i].ns, wall_ns));
	bool fits = headline_add(steps, ": %s", own.text);
	headline_put(h, steps);
	if (!fits)
		headline_put(h, &own);
}

static void add_steps(struct headline *h, const struct breakdown_result *b,
		      const struct report_opts *opts)
{
	struct share shares[] = {
	    {"forward", b->parts[BREAKDOWN_FORWARD]},
	    {"backward", b->parts[BREAKDOWN_BACKWARD]},
	    {"optimizer", b->parts[BREAKDOWN_OPTIMIZER]},
	    {"data", b->parts[BREAKDOWN_DATA]},
	    {b->python_ns ? "waits" : "in no op", b->parts[BREAKDOWN_NO_OP] - b->python_ns},
	    {"Python", b->python_ns}};
	struct headline_line line = headline_line(opts);
	char n[40], mean[32], median[32], p99[32];
	line.takes = true;
	if (b->steps)
		headline_add(
		    &line, "%s%smedian %s, p99 %s",
		    opts->per_step ? "a step: " : text_counted(n, sizeof(n), b->steps, "step"),
		    opts->per_step ? "" : ", ", text_ns(median, sizeof(median), b->median_ns),
		    text_ns(p99, sizeof(p99), b->p99_ns));
	else
		headline_add(&line, "no whole training step was seen");
	if (b->steps && b->wall_ns / b->steps > b->median_ns * 3 / 2)
		headline_add(&line, ", mean %s",
			     text_ns(mean, sizeof(mean), b->wall_ns / b->steps));
	if (b->processes > 1)
		headline_add(&line, " in %u processes", b->processes);
	qsort(shares, sizeof(shares) / sizeof(shares[0]), sizeof(shares[0]), compare_shares);
	add_shares(h, &line, shares, sizeof(shares) / sizeof(shares[0]), b->wall_ns);
}

static uint64_t ns_at(const struct aggregate_row *r, size_t offset)
{
	uint64_t ns;
	memcpy(&ns, (const char *)r + offset, sizeof(ns));
	return ns;
}

/* A thread that waits until a collective is done: in no op of its own. */
static bool is_wait(const struct aggregate_row *r)
{
	return r->op && !strcmp(r->op, "c10d::Work::wait");
}

size_t headline_most(const struct aggregate *a, size_t offset, const struct aggregate_row **most,
		     size_t want)
{
	size_t n, found = 0;
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	for (size_t i = 0; i < n; i++) {
		size_t at = found;
		if (rows[i]->worker || rows[i]->phase == PHASE_COMPILE || is_wait(rows[i]) ||
		    !ns_at(rows[i], offset))
			continue;
		while (at && ns_at(most[at - 1], offset) < ns_at(rows[i], offset))
			at--;
		if (at == want)
			continue;
		found += found < want;
		memmove(most + at + 1, most + at, (found - at - 1) * sizeof(*most));
		most[at] = rows[i];
	}
	return found;
}

const char *headline_where(char *out, size_t size, const struct aggregate_row *r,
			   const struct file_names *files)
{
	out[0] = '\0';
	char place[PLACE_MAX];
	if (r->parameter)
		snprintf(out, size, " at %s", parameter_text(place, sizeof(place), r->parameter));
	else if (r->file)
		snprintf(out, size, " at %s",
			 place_text(place, sizeof(place), r->file, r->line, files));
	return out;
}

/* Percentages in the table are of what was observed, those of the lines above of steps. */
static void add_slowest(struct headline *h, const struct aggregate *a,
			const struct breakdown_result *b, uint64_t observed_ns,
			const struct report_opts *opts, const struct file_names *files)
{
	enum { NAMED = 3, NEARLY_ALL = 90 };
	const struct aggregate_row *most[NAMED];
	struct headline_line line = headline_line(opts);
	const double steps = report_percent(b->wall_ns, observed_ns);
	const bool is_part = b->steps && !opts->per_step && steps < NEARLY_ALL;
	if (is_part)
		headline_add(&line, "of all time steps are %.0f %% (--per-step)", steps);
	size_t n = headline_most(a, offsetof(struct aggregate_row, self_ns), most, NAMED);
	for (size_t k = 0; k < n; k++) {
		char at[256];
		if (!headline_add(&line, "%s%.1f %% %s%s",
				  k	    ? ", "
				  : is_part ? ", slowest op "
					    : "slowest op: ",
				  report_percent(most[k]->self_ns, observed_ns),
				  report_op_name(most[k]->op),
				  headline_where(at, sizeof(at), most[k], files)))
			break;
		if (!k)
			snprintf(line.brief, sizeof(line.brief), "slowest %.0f %% %s%s",
				 report_percent(most[k]->self_ns, observed_ns),
				 report_op_name(most[k]->op), at);
	}
	if (is_part)
		snprintf(line.brief, sizeof(line.brief), "steps are %.0f %% of all time", steps);
	line.takes = true;
	line.spare = !is_part;
	if (line.text[0])
		headline_put(h, &line);
}

static void add_waits(struct headline *h, const struct aggregate *a, uint64_t observed_ns,
		      const struct report_opts *opts, const struct file_names *files)
{
	size_t n;
	uint64_t ns = 0;
	char at[256];
	const struct aggregate_row *const *rows = aggregate_rows(a, &n), *most = NULL;
	struct headline_line line = headline_line(opts);
	for (size_t i = 0; i < n; i++) {
		if (rows[i]->worker || !is_wait(rows[i]))
			continue;
		ns += rows[i]->self_ns;
		most = !most || rows[i]->self_ns > most->self_ns ? rows[i] : most;
	}
	if (report_percent(ns, observed_ns) < 1)
		return;
	headline_add(&line, "%.1f %% waits for collectives", report_percent(ns, observed_ns));
	headline_add(&line, "%s%s", most->file ? ", most" : "",
		     headline_where(at, sizeof(at), most, files));
	headline_put(h, &line);
}

/* What a rank computes itself: neither its workers nor what it sends and waits for. */
static uint64_t own_time(const struct aggregate_row *const *rows, size_t n, size_t rank)
{
	uint64_t ns = 0;
	for (size_t i = 0; i < n; i++)
		if (!rows[i]->worker && !(rows[i]->op && !strncmp(rows[i]->op, "c10d::", 6)))
			ns += aggregate_rank_ns(rows[i], rank);
	return ns;
}

/* Ranks wait for each other: for the one that is in ops for longest. */
static void add_ranks(struct headline *h, const struct aggregate_row *const *rows, size_t n,
		      const struct report_opts *opts)
{
	struct headline_line line = headline_line(opts);
	char long_ns[32], short_ns[32];
	uint64_t steps = opts->per_step ? opts->per_step : 1, most = 0, least = UINT64_MAX;
	size_t at_most = 0, at_least = 0;
	for (size_t i = 0; i < opts->nranks; i++) {
		uint64_t ns = own_time(rows, n, i);
		at_most = ns > most ? i : at_most;
		at_least = ns < least ? i : at_least;
		most = ns > most ? ns : most;
		least = ns < least ? ns : least;
	}
	if (opts->nranks < 2 || most == least)
		return;
	if (headline_add(&line,
			 "of %zu ranks %" PRIu32 " is in ops for longest, %s, and %" PRIu32
			 " for shortest, %s; collectives not counted",
			 opts->nranks, opts->ranks[at_most],
			 text_ns(long_ns, sizeof(long_ns), most / steps), opts->ranks[at_least],
			 text_ns(short_ns, sizeof(short_ns), least / steps)))
		headline_put(h, &line);
}

/* The line of most of the time of compilations; NULL: rows are not by line. */
static const struct aggregate_row *most_compiled(const struct aggregate *a)
{
	size_t n;
	const struct aggregate_row *const *rows = aggregate_rows(a, &n), *most = NULL;
	for (size_t i = 0; i < n; i++)
		if (rows[i]->phase == PHASE_COMPILE && rows[i]->file && rows[i]->op &&
		    !strncmp(rows[i]->op, "dynamo::", 8) &&
		    (!most || rows[i]->total_ns > most->total_ns))
			most = rows[i];
	return most;
}

static void add_compilations(struct headline *h, const struct aggregate *a,
			     const struct breakdown_result *b, const struct report_opts *opts,
			     const struct file_names *files)
{
	const struct aggregate_row *most = most_compiled(a);
	struct headline_line line = headline_line(opts);
	char ns[32], n[40], steps[40], at[256] = "";
	if (!b->compilations)
		return;
	headline_add(&line, "compiling, in no other figure: %s in %s%s%s",
		     text_ns(ns, sizeof(ns), b->compile_ns),
		     text_counted(n, sizeof(n), b->compilations, "compilation"),
		     most && b->compilations > 1 ? ", most" : "",
		     most ? headline_where(at, sizeof(at), most, files) : "");
	snprintf(line.brief, sizeof(line.brief), "compiling %s besides", ns);
	if (b->compile_steps)
		headline_add(&line, "; %s with it left out",
			     text_counted(steps, sizeof(steps), b->compile_steps, "step"));
	headline_put(h, &line);
}

/* What of the time of the host is to be told: less where a device is busy, for which it may wait.
 */
static void add_lines(struct headline *h, const struct breakdown_result *b,
		      const struct aggregate *a, const struct report_opts *opts,
		      const struct file_names *files)
{
	size_t n;
	struct aggregate_totals totals;
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	aggregate_totals(a, &totals);
	bool by_op = aggregate_keys(a) & AGGREGATE_OP, is_busy = false;
	bool waits = b && add_longest(h, b, files, true);
	if (b)
		add_steps(h, b, opts);
	if (b)
		add_compilations(h, a, b, opts, files);
	if (totals.activities)
		is_busy = !headline_devices(h, a, opts, b ? opts->breakdown : NULL);
	if (b && !waits && !is_busy)
		add_longest(h, b, files, false);
	if (by_op && (is_busy || (!b && totals.activities)))
		headline_slowest_on_devices(h, a, opts, files);
	else if (by_op && b) {
		add_slowest(h, a, b, totals.observed_ns, opts, files);
		add_waits(h, a, totals.observed_ns, opts, files);
	}
	if (by_op && b && (!totals.activities || (is_busy && !waits)))
		add_ranks(h, rows, n, opts);
	headline_memory(h, a, opts, files);
}

int headline_print(FILE *f, const struct breakdown_result *b, const struct aggregate *a,
		   const struct report_opts *opts, const struct file_names *files)
{
	struct headline h = {0};
	struct table *t = table_new();
	struct aggregate_totals totals;
	if (!t)
		return -ENOMEM;
	aggregate_totals(a, &totals);
	if (b ? b->wall_ns : aggregate_devices(a) || totals.memory_events)
		add_lines(&h, b, a, opts, files);
	if (opts->terminal.width > 0)
		shorten(&h);
	for (size_t i = 0; i < h.n; i++)
		table_line(t, h.lines[i].text);
	int r = table_print(t, f, opts->terminal.width, false);
	table_free(t);
	return r;
}
