/* When most memory was allocated, and what had allocated it. */
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

static void add_peak(struct headline_line *l, const struct aggregate *a,
		     const struct memory_peak *p, bool several)
{
	char bytes[32], device[32], ns[32];
	const uint64_t first = first_op_ns(a);
	headline_add(l, "%speak of memory on %s: %s", p->late ? "about " : "",
		     names_device(device, sizeof(device), p->device_type, p->device_index),
		     text_bytes(bytes, sizeof(bytes), p->bytes));
	if (p->ns >= first)
		headline_add(l, ", %s after the first op", text_ns(ns, sizeof(ns), p->ns - first));
	if (several && p->rank1)
		headline_add(l, ", rank %u", p->rank1 - 1);
	else if (several)
		headline_add(l, ", process %d", p->pid);
}

static void add_holders(struct headline_line *l, const struct aggregate *a, uint64_t all,
			const struct file_names *files)
{
	enum { HOLDERS = 3, LEAST = 1 };
	const struct aggregate_row *most[HOLDERS];
	char where[256];
	size_t n = headline_most(a, offsetof(struct aggregate_row, memory.at_peak), most, HOLDERS);
	for (size_t i = 0; i < n; i++) {
		double percent = report_percent(most[i]->memory.at_peak, all);
		if (percent < LEAST ||
		    !headline_add(l, "%s%.0f %% %s%s", i ? ", " : ": ", percent,
				  report_op_name(most[i]->op),
				  headline_where(where, sizeof(where), most[i], files)))
			return;
	}
}

void headline_memory(struct table *t, const struct aggregate *a, const struct report_opts *opts,
		     const struct file_names *files)
{
	enum { LINES = 3 };
	size_t n;
	uint64_t all = 0;
	const struct memory_peak *peaks = aggregate_peaks(a, &n);
	const struct memory_peak **sorted = malloc((n + 1) * sizeof(*sorted));
	for (size_t i = 0; sorted && i < n; i++) {
		sorted[i] = &peaks[i];
		all += peaks[i].bytes;
	}
	if (sorted)
		qsort(sorted, n, sizeof(*sorted), compare_peaks);
	for (size_t i = 0; sorted && i < n && i < LINES && sorted[i]->bytes; i++) {
		struct headline_line l = headline_line(opts);
		add_peak(&l, a, sorted[i], n > 1);
		if (n == 1)
			add_holders(&l, a, all, files);
		table_line(t, l.text);
	}
	free(sorted);
}
