/* Steps of a process. That ops were summed up, or lost, is told after the fact: a step counts only
 * when none that may be its own can be among them any more. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/metrics/internal.h"

#define MS 1000000u
#define S 1000000000u
const uint64_t metrics_step_bounds[STEP_BUCKETS] = {
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
	while (i < STEP_BUCKETS && ns > metrics_step_bounds[i])
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
