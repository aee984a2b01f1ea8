/* The lines of a report's first ones that are about devices, how busy they were, and with what; and
 * about memory, when most was allocated, and what had allocated it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "perf/report/internal.h"
#include "symbolizer/event/names.h"

/* How much of which time a device was busy. */
struct busy_part {
	uint64_t busy_ns, of_ns;
	uint64_t
	    steps; /* whole steps in that time; 0: it is that from its first work to its last */
	bool exact;
};

/* The time of whole steps, unless the device was not recorded in all of it, or is known for long
 * stretches only. */
static struct busy_part part_of(struct device *d, const struct breakdown *b)
{
	struct breakdown_span s;
	struct busy_part p = {0};
	uint64_t off;
	if (b && breakdown_span(b, d->pid, d->rank1, &s)) {
		uint64_t step_ns = (s.end_ns - s.start_ns) / s.steps;
		p = (struct busy_part){.of_ns = s.end_ns - s.start_ns, .steps = s.steps};
		p.busy_ns = busy_between(&d->busy, s.start_ns, s.end_ns, &off);
		p.exact = !d->busy.late;
		if (off <= p.of_ns / 100 && d->first_ns <= s.start_ns + step_ns &&
		    d->last_ns + step_ns >= s.end_ns)
			return p;
	}
	/* Between its first and its last work there is nothing to tell of one. */
	p = (struct busy_part){.of_ns = d->activities > 1 ? d->last_ns - d->first_ns : 0,
			       .exact = !d->busy.late};
	p.busy_ns = busy_between(&d->busy, d->first_ns, d->last_ns, &off);
	return p;
}

static const char *about(bool exact, bool lost)
{
	return lost ? "at least " : exact ? "" : "about ";
}

static bool is_idle(const struct busy_part *p)
{
	return p->busy_ns < p->of_ns / 2;
}

/* Whether the device was idle for more than half of the time. That the host is what it waits for is
 * certain only where there is no other device, and nothing is missing. */
static bool add_one(struct headline *h, struct device *d, const struct devices *all, bool lost,
		    const struct report_opts *opts, const struct breakdown *b)
{
	struct headline_line line = headline_line(opts), with_times;
	struct busy_part p = part_of(d, b);
	char name[64], busy[32], of[32];
	double percent = report_percent(p.busy_ns, p.of_ns);
	bool by_host = p.steps && !lost && is_idle(&p);
	uint64_t steps = p.steps ? p.steps : 1;
	if (!p.of_ns)
		return true;
	device_text(name, sizeof(name), all, d);
	text_ns(busy, sizeof(busy), p.busy_ns / steps);
	text_ns(of, sizeof(of), p.of_ns / steps);
	if (!p.steps) {
		headline_add(&line, "%s was busy %s%.0f %% of %s, from its first work to its last",
			     name, about(p.exact, lost), percent, of);
	} else {
		headline_add(&line, "%s was busy %s%.0f %% of the time", name, about(p.exact, lost),
			     percent);
		with_times = line;
		headline_add(&with_times, " (%s of the %s of a step)", busy, of);
		if (!by_host || headline_add(&with_times, ": the program is bound by the host"))
			line = with_times;
		else
			headline_add(&line, ": the program is bound by the host");
		if (!by_host)
			snprintf(line.brief, sizeof(line.brief), "%s was busy %s%.0f %%", name,
				 about(p.exact, lost), percent);
		if (by_host)
			headline_add(&line, ", the device waits %.0f %%", 100 - percent);
	}
	headline_put(h, &line);
	return is_idle(&p);
}

/* Of several devices. */
struct busy_range {
	size_t n; /* of which it is known */
	double low, high;
	const struct device *least, *most;
	bool exact, idle; /* all of them */
};

static struct busy_range range_of(struct device *list, size_t n, const struct breakdown *b)
{
	struct busy_range r = {.low = 101, .high = -1, .exact = true, .idle = true};
	for (size_t i = 0; i < n; i++) {
		struct busy_part p = part_of(&list[i], b);
		double percent = report_percent(p.busy_ns, p.of_ns);
		if (!p.of_ns)
			continue;
		r.n++;
		r.exact &= p.exact;
		r.idle &= is_idle(&p);
		if (percent < r.low) {
			r.low = percent;
			r.least = &list[i];
		}
		if (percent > r.high) {
			r.high = percent;
			r.most = &list[i];
		}
	}
	return r;
}

static bool add_several(struct headline *h, struct device *list, size_t n,
			const struct devices *all, bool lost, const struct report_opts *opts,
			const struct breakdown *b)
{
	struct headline_line line = headline_line(opts);
	struct busy_range r = range_of(list, n, b);
	char name[64];
	if (!r.n)
		return true;
	if (r.n == 1) {
		headline_add(&line, "%s was busy %s%.0f %% of the time",
			     device_text(name, sizeof(name), all, r.most), about(r.exact, lost),
			     r.high);
	} else {
		headline_add(&line, "%zu devices were busy %s%.0f to %.0f %% of the time", r.n,
			     about(r.exact, lost), r.low, r.high);
		if (headline_add(&line, ", %s least",
				 device_text(name, sizeof(name), all, r.least)))
			headline_add(&line, ", %s most",
				     device_text(name, sizeof(name), all, r.most));
	}
	headline_put(h, &line);
	return r.idle;
}

bool headline_devices(struct headline *h, const struct aggregate *a, const struct report_opts *opts,
		      const struct breakdown *b)
{
	struct aggregate_totals totals;
	const struct devices *all = aggregate_devices(a);
	size_t n;
	struct device *list = devices_list(all, &n);
	aggregate_totals(a, &totals);
	bool lost = totals.activities_lost;
	return n == 1 ? add_one(h, list, all, lost, opts, b)
		      : add_several(h, list, n, all, lost, opts, b);
}

static void add_copies(struct headline_line *line, const struct devices *all, uint64_t busy_ns)
{
	enum { WORTH = 5 };
	size_t n;
	const struct device *list = devices_list(all, &n);
	uint64_t ns = 0, most_ns;
	const char *most = devices_longest_copy(all, &most_ns);
	for (size_t i = 0; i < n; i++)
		ns += list[i].copies_ns;
	if (report_percent(ns, busy_ns) < WORTH)
		return;
	char safe[128];
	text_safe(safe, sizeof(safe), most);
	if (headline_add(line, "; copies %.0f %%", report_percent(ns, busy_ns)))
		headline_add(line, ", most %s", safe);
}

void headline_slowest_on_devices(struct headline *h, const struct aggregate *a,
				 const struct report_opts *opts, const struct file_names *files)
{
	enum { NAMED = 3 };
	struct aggregate_totals totals;
	struct headline_line line = headline_line(opts);
	const struct aggregate_row *most[NAMED];
	const struct devices *all = aggregate_devices(a);
	size_t n;
	struct device *list = devices_list(all, &n);
	char name[64] = "devices", at[256];
	aggregate_totals(a, &totals);
	if (n == 1)
		device_text(name, sizeof(name), all, list);
	size_t named = headline_most(a, offsetof(struct aggregate_row, device_ns), most, NAMED);
	for (size_t k = 0; k < named; k++) {
		headline_where(at, sizeof(at), most[k], files);
		if (k == 0)
			headline_add(&line, "slowest on %s: ", name);
		if (!headline_add(&line, "%s%.0f %% %s%s", k ? ", " : "",
				  report_percent(most[k]->device_ns, totals.busy_ns),
				  report_op_name(most[k]->op), at))
			break;
	}
	if (!named)
		return;
	add_copies(&line, all, totals.busy_ns);
	headline_put(h, &line);
}

static int compare_peaks(const void *a, const void *b)
{
	const struct memory_peak *x = *(const struct memory_peak *const *)a;
	const struct memory_peak *y = *(const struct memory_peak *const *)b;
	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static uint64_t first_op_ns(const struct aggregate *a)
{
	uint64_t first = UINT64_MAX;
	for (uint32_t i = 0; i < a->thread_ids.used; i++)
		if (a->threads[i].first_ns && a->threads[i].first_ns < first)
			first = a->threads[i].first_ns;
	return first;
}

static bool is_same_process(const struct memory_peak *a, const struct memory_peak *b)
{
	return a->pid == b->pid && a->rank1 == b->rank1;
}

static size_t count_processes(const struct memory_peak *const *peaks, size_t n)
{
	size_t processes = 0;
	for (size_t i = 0; i < n; i++) {
		size_t before = 0;
		while (before < i && !is_same_process(peaks[before], peaks[i]))
			before++;
		processes += before == i;
	}
	return processes;
}

/* What bounds it is told with it: what was reserved, or that less is known of the CPU. */
static void peak_bound(char *out, size_t size, const struct aggregate *a,
		       const struct memory_peak *p)
{
	char reserved[32];
	struct aggregate_totals t;
	aggregate_totals(a, &t);
	*out = '\0';
	if (p->reserved)
		snprintf(out, size, " of up to %s that were reserved",
			 text_bytes(reserved, sizeof(reserved), p->reserved));
	else if (t.late && memory_kind(p->device_type) == MEMORY_CPU)
		snprintf(out, size, " allocated since recording began");
}

/* "process 4121", "rank 3" */
static const char *peak_owner(char *out, size_t size, const struct memory_peak *p)
{
	snprintf(out, size, "%s %d", p->rank1 ? "rank" : "process",
		 p->rank1 ? (int)p->rank1 - 1 : p->pid);
	return out;
}

static void add_peak(struct headline_line *l, const struct aggregate *a,
		     const struct memory_peak *p, size_t processes)
{
	char bytes[32], bound[80], device[32], ns[32], owner[32];
	const uint64_t first = first_op_ns(a);
	peak_bound(bound, sizeof(bound), a, p);
	headline_add(l, "%speak of memory on %s", p->late ? "about " : "",
		     names_device(device, sizeof(device), p->device_type, p->device_index));
	if (processes > 1)
		headline_add(l, " of %s, highest of %zu processes",
			     peak_owner(owner, sizeof(owner), p), processes);
	headline_add(l, ": %s%s", text_bytes(bytes, sizeof(bytes), p->bytes), bound);
	if (p->ns >= first)
		headline_add(l, ", %s after the first op", text_ns(ns, sizeof(ns), p->ns - first));
}

static void add_holders(struct headline_line *l, const struct aggregate *a,
			const struct memory_peak *p, const struct file_names *files)
{
	enum { HOLDERS = 3, LEAST = 1 };
	const enum memory_kind kind = memory_kind(p->device_type);
	const size_t offset = offsetof(struct aggregate_row, memory) +
			      kind * sizeof(struct memory_row) +
			      offsetof(struct memory_row, at_peak);
	const struct aggregate_row *most[HOLDERS];
	char where[256];
	size_t n = headline_most(a, offset, most, HOLDERS);
	for (size_t i = 0; i < n; i++) {
		double percent = report_percent(most[i]->memory[kind].at_peak, p->bytes);
		if (percent < LEAST ||
		    !headline_add(l, "%s%.0f %% %s%s", i ? ", " : ": ", percent,
				  report_op_name(most[i]->op),
				  headline_where(where, sizeof(where), most[i], files)))
			return;
	}
}

/* A line to be told. */
struct peak_line {
	const struct memory_peak *peak;
	size_t processes; /* that have devices of the kind */
	bool alone;	  /* what rows hold is its own: it is known for all devices together */
};

/* Of one process the peak of each device, the highest first, then that of the CPU; of several
 * processes the highest of each. Returns how many; the caller frees *out, NULL if out of memory. */
static size_t list_peaks(const struct aggregate *a, struct peak_line **out)
{
	size_t n, nlines = 0;
	const struct memory_peak *peaks = aggregate_peaks(a, &n);
	const struct memory_peak **some = malloc((n + 1) * sizeof(*some));
	struct peak_line *lines = malloc((n + 1) * sizeof(*lines));
	for (int kind = MEMORY_KINDS; some && lines && kind-- > 0;) {
		size_t nsome = 0;
		for (size_t i = 0; i < n; i++)
			if ((int)memory_kind(peaks[i].device_type) == kind)
				some[nsome++] = &peaks[i];
		qsort(some, nsome, sizeof(*some), compare_peaks);
		const size_t processes = count_processes(some, nsome);
		for (size_t i = 0; i < nsome && (processes == 1 || !i) && some[i]->bytes; i++)
			lines[nlines++] = (struct peak_line){some[i], processes, nsome == 1};
	}
	free(some);
	*out = lines;
	return nlines;
}

static void peak_brief(struct headline_line *l, const struct aggregate *a,
		       const struct peak_line *is)
{
	const struct memory_peak *p = is->peak;
	char bytes[32], bound[80], device[32], owner[32];
	peak_bound(bound, sizeof(bound), a, p);
	int n = snprintf(l->brief, sizeof(l->brief), "%speak memory on %s %s%s",
			 p->late ? "about " : "",
			 names_device(device, sizeof(device), p->device_type, p->device_index),
			 text_bytes(bytes, sizeof(bytes), p->bytes), bound);
	if (is->processes > 1)
		snprintf(l->brief + n, sizeof(l->brief) - (size_t)n, " (%s)",
			 peak_owner(owner, sizeof(owner), p));
}

static struct headline_line peak_text(const struct aggregate *a, const struct report_opts *opts,
				      const struct file_names *files, const struct peak_line *p)
{
	struct headline_line l = headline_line(opts);
	add_peak(&l, a, p->peak, p->processes);
	if (p->alone)
		add_holders(&l, a, p->peak, files);
	return l;
}

void headline_memory(struct headline *h, const struct aggregate *a, const struct report_opts *opts,
		     const struct file_names *files)
{
	struct peak_line *lines;
	if (list_peaks(a, &lines)) {
		struct headline_line l = peak_text(a, opts, files, &lines[0]);
		peak_brief(&l, a, &lines[0]);
		headline_put(h, &l);
	}
	free(lines);
}

int headline_other_memory(FILE *f, const struct aggregate *a, const struct report_opts *opts,
			  const struct file_names *files)
{
	struct peak_line *lines;
	struct table *t = table_new();
	size_t n = list_peaks(a, &lines);
	for (size_t i = 1; t && i < n; i++) {
		struct headline_line l = peak_text(a, opts, files, &lines[i]);
		table_line(t, l.text);
	}
	int r = t ? table_print(t, f, opts->terminal.width, false) : -ENOMEM;
	table_free(t);
	free(lines);
	return r;
}
