/* When most memory was allocated, and what had allocated it: of devices, and of the CPU. */
#include <errno.h>
#include <stdlib.h>

#include "base/text.h"
#include "perf/report/internal.h"
#include "symbolizer/event/names.h"

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

static void add_peak(struct headline_line *l, const struct aggregate *a,
		     const struct memory_peak *p, size_t processes)
{
	char bytes[32], reserved[32], device[32], ns[32], of[64] = "";
	const uint64_t first = first_op_ns(a);
	struct aggregate_totals t;
	aggregate_totals(a, &t);
	if (processes > 1)
		snprintf(of, sizeof(of), " of %s %d, highest of %zu processes",
			 p->rank1 ? "rank" : "process", p->rank1 ? (int)p->rank1 - 1 : p->pid,
			 processes);
	headline_add(l, "%speak of memory on %s%s: %s", p->late ? "about " : "",
		     names_device(device, sizeof(device), p->device_type, p->device_index), of,
		     text_bytes(bytes, sizeof(bytes), p->bytes));
	if (p->reserved)
		headline_add(l, " of up to %s that were reserved",
			     text_bytes(reserved, sizeof(reserved), p->reserved));
	else if (t.late && memory_kind(p->device_type) == MEMORY_CPU)
		headline_add(l, " allocated since recording began");
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

static void add_line(struct table *t, const struct aggregate *a, const struct report_opts *opts,
		     const struct file_names *files, const struct peak_line *p)
{
	struct headline_line l = headline_line(opts);
	add_peak(&l, a, p->peak, p->processes);
	if (p->alone)
		add_holders(&l, a, p->peak, files);
	table_line(t, l.text);
}

void headline_memory(struct table *t, const struct aggregate *a, const struct report_opts *opts,
		     const struct file_names *files)
{
	struct peak_line *lines;
	if (list_peaks(a, &lines))
		add_line(t, a, opts, files, &lines[0]);
	free(lines);
}

int headline_other_memory(FILE *f, const struct aggregate *a, const struct report_opts *opts,
			  const struct file_names *files)
{
	struct peak_line *lines;
	struct table *t = table_new();
	size_t n = list_peaks(a, &lines);
	for (size_t i = 1; t && i < n; i++)
		add_line(t, a, opts, files, &lines[i]);
	int r = t ? table_print(t, f, opts->terminal.width, false) : -ENOMEM;
	table_free(t);
	free(lines);
	return r;
}
