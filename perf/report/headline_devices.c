/* The lines of a report's first ones that are about devices: how busy they were, and with what. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "perf/report/internal.h"

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
static bool add_one(struct table *t, struct device *d, const struct devices *all, bool lost,
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
		if (by_host)
			headline_add(&line, ", the device waits %.0f %%", 100 - percent);
	}
	table_line(t, line.text);
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

static bool add_several(struct table *t, struct device *list, size_t n, const struct devices *all,
			bool lost, const struct report_opts *opts, const struct breakdown *b)
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
	table_line(t, line.text);
	return r.idle;
}

bool headline_devices(struct table *t, const struct aggregate *a, const struct report_opts *opts,
		      const struct breakdown *b)
{
	struct aggregate_totals totals;
	const struct devices *all = aggregate_devices(a);
	size_t n;
	struct device *list = devices_list(all, &n);
	aggregate_totals(a, &totals);
	bool lost = totals.activities_lost;
	return n == 1 ? add_one(t, list, all, lost, opts, b)
		      : add_several(t, list, n, all, lost, opts, b);
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

void headline_slowest_on_devices(struct table *t, const struct aggregate *a,
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
	table_line(t, line.text);
}
