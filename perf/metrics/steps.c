/* Steps of a process, and the text of them. That ops were summed up, or lost, is told after the
 * fact: a step counts only when none that may be its own can be among them any more. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "perf/metrics/internal.h"

#define MS 1000000u
#define S 1000000000u
/* Upper bounds, ns; the last bucket has none. */
static const uint64_t step_bounds[STEP_BUCKETS] = {
    1 * MS,   2500000,	5 * MS,	      10 * MS,	25 * MS,   50 * MS,   100 * MS,	 250 * MS,
    500 * MS, 1ull * S, 2500ull * MS, 5ull * S, 10ull * S, 30ull * S, 60ull * S, 300ull * S};

/* An op that is missing at one end of a step, before it or behind it, makes it longer or shorter.
 */
static bool is_unsure(const struct held_step *h, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t ns = h->end_ns - h->start_ns, near = ns < S ? ns : S;
	return h->start_ns < to_ns + near && from_ns < h->end_ns + near;
}

int metrics_hold_step(void *arg, const struct breakdown_step *step)
{
	struct metrics_steps *s = &((struct metrics_series *)arg)->steps;
	struct held_step h = {.start_ns = step->start_ns, .end_ns = step->end_ns};
	memcpy(h.parts, step->parts, sizeof(h.parts));
	if (s->unsure_ns && is_unsure(&h, 0, s->unsure_ns)) {
		s->unsure++;
		return 0;
	}
	if (s->first) {
		memmove(s->held, s->held + s->first, s->n * sizeof(*s->held));
		s->first = 0;
	}
	if (array_grow(&s->held, &s->room, s->n + 1, sizeof(*s->held)))
		return -ENOMEM;
	s->held[s->n++] = h;
	return 0;
}

void metrics_steps_unsure(struct metrics_steps *s, uint64_t from_ns, uint64_t to_ns)
{
	size_t kept = s->first;
	for (size_t i = s->first; i < s->first + s->n; i++) {
		if (is_unsure(&s->held[i], from_ns, to_ns))
			s->unsure++;
		else
			s->held[kept++] = s->held[i];
	}
	s->n = kept - s->first;
	s->unsure_ns = to_ns > s->unsure_ns ? to_ns : s->unsure_ns;
}

static void count_step(struct metrics_steps *s, const struct held_step *h)
{
	uint64_t ns = h->end_ns - h->start_ns;
	unsigned i = 0;
	while (i < STEP_BUCKETS && ns > step_bounds[i])
		i++;
	s->buckets[i]++;
	s->steps++;
	s->wall_ns += ns;
	s->last_ns = h->end_ns;
	for (i = 0; i < BREAKDOWN_PARTS; i++)
		s->parts[i] += h->parts[i];
}

void metrics_count_steps(struct metrics_steps *s, uint64_t now_ns)
{
	for (; s->n; s->n--, s->first++) {
		const struct held_step *h = &s->held[s->first];
		if (now_ns != UINT64_MAX && h->end_ns + METRICS_STEP_HELD_NS > now_ns)
			return;
		count_step(s, h);
	}
	s->first = 0;
}

static void print_histogram(const struct exposition *x, const struct metrics_series *s)
{
	uint64_t sum = 0;
	char bound[32];
	for (int i = 0; i <= STEP_BUCKETS; i++) {
		sum += s->steps.buckets[i];
		expose_sample(x, "ditrace_step_seconds_bucket", s);
		if (i < STEP_BUCKETS)
			text_float(bound, sizeof(bound), (double)step_bounds[i] / 1e9);
		expose_label(x, "le", i < STEP_BUCKETS ? bound : "+Inf");
		expose_count(x, sum);
	}
	expose_sample(x, "ditrace_step_seconds_count", s);
	expose_count(x, sum);
	expose_sample(x, "ditrace_step_seconds_sum", s);
	expose_seconds(x, s->steps.wall_ns);
}

static void print_parts(const struct exposition *x)
{
	const struct metrics_series *s;
	static const char *const names[BREAKDOWN_PARTS] = {"forward", "backward", "optimizer",
							   "data", "no_op"};
	expose_family(x, "ditrace_step_part_seconds", "counter", "seconds",
		      "What these steps consist of: no_op is Python, or waiting.");
	for (size_t at = 0; (s = expose_process(x, &at)); at++)
		for (int i = 0; i < BREAKDOWN_PARTS; i++) {
			expose_sample(x, "ditrace_step_part_seconds_total", s);
			expose_label(x, "part", names[i]);
			expose_seconds(x, s->steps.parts[i]);
		}
}

static void print_left_out(const struct exposition *x)
{
	const struct metrics_series *s;
	expose_family(
	    x, "ditrace_steps_left_out", "counter", NULL,
	    "Steps that are not counted, as ops of that time are missing or known in sum only, "
	    "or as torch.compile compiled in them.");
	for (size_t at = 0; (s = expose_process(x, &at)); at++) {
		struct breakdown_result b = {0};
		if (s->breakdown)
			breakdown_get(s->breakdown, &b);
		expose_sample(x, "ditrace_steps_left_out_total", s);
		expose_label(x, "why", "ops_missing");
		expose_count(x, s->steps.unsure);
		expose_sample(x, "ditrace_steps_left_out_total", s);
		expose_label(x, "why", "compilation");
		expose_count(x, b.compile_steps);
	}
}

static void print_compilations(const struct exposition *x)
{
	const struct metrics_series *s;
	expose_family(x, "ditrace_compile_seconds", "counter", "seconds",
		      "Time in which torch.compile compiled; it is in no other figure.");
	for (size_t at = 0; (s = expose_process(x, &at)); at++) {
		struct aggregate_totals t = expose_totals(s);
		expose_sample(x, "ditrace_compile_seconds_total", s);
		expose_seconds(x, t.compile_ns);
	}
}

void expose_steps(const struct exposition *x)
{
	const struct metrics_series *s;
	if (x->m->chosen)
		return;
	expose_family(
	    x, "ditrace_steps", "counter", NULL,
	    "Whole training steps: from the end of an optimizer's step to that of the next.");
	for (size_t at = 0; (s = expose_process(x, &at)); at++) {
		expose_sample(x, "ditrace_steps_total", s);
		expose_count(x, s->steps.steps);
	}
	expose_family(x, "ditrace_step_seconds", "histogram", "seconds",
		      "How long these steps took.");
	for (size_t at = 0; (s = expose_process(x, &at)); at++)
		print_histogram(x, s);
	expose_family(x, "ditrace_step_time_seconds", "gauge", "seconds",
		      "When the last of them ended, since 1970.");
	for (size_t at = 0; (s = expose_process(x, &at)); at++)
		if (s->steps.last_ns) {
			expose_sample(x, "ditrace_step_time_seconds", s);
			expose_moment(x, s->steps.last_ns);
		}
	print_parts(x);
	print_left_out(x);
	print_compilations(x);
}

/* Waits, and collectives. */

/* The time of the waits that were seen; false: there were none, or these are not seen here. */
static bool waited_ns(const struct metrics_series *s, uint64_t *ns)
{
	size_t n;
	bool is_known = false;
	const struct aggregate_row *const *rows = expose_rows(s, &n);
	*ns = 0;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(rows[i]->op, "c10d::Work::wait")) {
			is_known = true;
			*ns += rows[i]->self_ns;
		}
	return is_known;
}

static void print_collective(const struct exposition *x, const char *name, size_t offset)
{
	const struct metrics_series *s;
	for (size_t at = 0; (s = expose_process(x, &at)); at++)
		for (int i = 0; i < COLLECTIVE_KINDS && s->collectives[i].name; i++) {
			uint64_t n;
			memcpy(&n, (const char *)&s->collectives[i] + offset, sizeof(n));
			expose_sample(x, name, s);
			expose_label(x, "collective", s->collectives[i].name);
			expose_count(x, n);
		}
}

static void print_collectives(const struct exposition *x)
{
	expose_family(x, "ditrace_collectives", "counter", NULL,
		      "Calls of torch.distributed (engine shim).");
	print_collective(x, "ditrace_collectives_total",
			 offsetof(struct metrics_collective, calls));
	expose_family(
	    x, "ditrace_collective_bytes", "counter", "bytes",
	    "Bytes that the rank gave to them; of scatter and reduce_scatter, that it got.");
	print_collective(x, "ditrace_collective_bytes_total",
			 offsetof(struct metrics_collective, bytes));
	expose_family(x, "ditrace_collectives_without_size", "counter", NULL,
		      "Those of which the bytes are not known, and not counted.");
	print_collective(x, "ditrace_collectives_without_size_total",
			 offsetof(struct metrics_collective, unsized));
}

void expose_waits(const struct exposition *x)
{
	const struct metrics_series *s;
	expose_family(
	    x, "ditrace_wait_seconds", "counter", "seconds",
	    "Time in which threads of the program waited for a collective (c10d::Work::wait), "
	    "and in which steps had the DataLoader get data.");
	for (size_t at = 0; (s = expose_process(x, &at)); at++) {
		uint64_t ns;
		if (waited_ns(s, &ns)) {
			expose_sample(x, "ditrace_wait_seconds_total", s);
			expose_label(x, "kind", "collective");
			expose_seconds(x, ns);
		}
		if (x->m->chosen)
			continue;
		expose_sample(x, "ditrace_wait_seconds_total", s);
		expose_label(x, "kind", "data");
		expose_seconds(x, s->steps.parts[BREAKDOWN_DATA]);
	}
	print_collectives(x);
}
