#include <string.h>

#include "perf/trace/trace_decode.h"
#include "perf/trace/trace_encode.h"
#include "symbolizer/event/event_stats.h"

static uint8_t flags_of(const struct tensor_stats *r)
{
	const struct stats *s = &r->stats;
	return (uint8_t)((r->place.is_result ? STATS_RESULT : 0) |
			 (r->why ? STATS_NOT_MEASURED : 0) | (s->is_numeric ? STATS_NUMERIC : 0) |
			 (s->is_int ? STATS_INT : 0) | (s->is_unsigned ? STATS_UNSIGNED : 0));
}

static void put_numbers(struct out *o, const struct stats *s)
{
	out_u(o, s->nan);
	out_u(o, s->pos_inf);
	out_u(o, s->neg_inf);
	out_u(o, s->zeros);
	out_f(o, s->mean);
	out_f(o, s->std);
	out_f(o, s->l2);
	if (!s->is_int) {
		out_f(o, s->min);
		out_f(o, s->max);
	} else if (s->count) {
		out_s(o, s->min_int);
		out_s(o, s->max_int);
	}
}

static void put_row(struct out *o, const struct tensor_stats *r)
{
	out_b(o, flags_of(r));
	out_u(o, r->place.value);
	out_u(o, r->place.tensor);
	if (r->why) {
		out_str(o, r->why, strlen(r->why));
		return;
	}
	out_u(o, r->stats.count);
	out_u(o, r->stats.hash);
	if (r->stats.is_numeric)
		put_numbers(o, &r->stats);
}

void trace_encode_stats(struct out *o, const struct event_stats *s)
{
	if (!s)
		return;
	out_u(o, s->n);
	for (uint32_t i = 0; i < s->n && !o->full; i++)
		put_row(o, &s->rows[i]);
}

static void get_range(struct in *in, struct stats *s)
{
	if (!s->is_int) {
		s->min = in_f(in);
		s->max = in_f(in);
		return;
	}
	s->min = s->max = __builtin_nan("");
	if (!s->count)
		return;
	s->min_int = in_s(in);
	s->max_int = in_s(in);
	s->min = s->is_unsigned ? (double)(uint64_t)s->min_int : (double)s->min_int;
	s->max = s->is_unsigned ? (double)(uint64_t)s->max_int : (double)s->max_int;
}

static void get_numbers(struct in *in, struct stats *s)
{
	s->min = s->max = s->mean = s->std = s->l2 = __builtin_nan("");
	if (!s->is_numeric)
		return;
	s->nan = in_u(in);
	s->pos_inf = in_u(in);
	s->neg_inf = in_u(in);
	s->zeros = in_u(in);
	s->mean = in_f(in);
	s->std = in_f(in);
	s->l2 = in_f(in);
	get_range(in, s);
}

static void get_row(struct in *in, struct arena *a, struct tensor_stats *r)
{
	uint8_t flags = in_b(in);
	r->place.is_result = flags & STATS_RESULT;
	r->place.value = (uint16_t)in_below(in, UINT16_MAX + 1u);
	r->place.tensor = in_below(in, UINT32_MAX);
	if (flags & STATS_NOT_MEASURED) {
		uint32_t len;
		const char *why = in_str(in, &len);
		r->why = arena_strndup(a, why, len);
		in->bad |= !r->why;
		return;
	}
	r->stats.is_numeric = flags & STATS_NUMERIC;
	r->stats.is_int = flags & STATS_INT;
	r->stats.is_unsigned = flags & STATS_UNSIGNED;
	r->stats.count = in_u(in);
	r->stats.hash = in_u(in);
	get_numbers(in, &r->stats);
}

const struct event_stats *trace_decode_stats(struct in *in, struct arena *a)
{
	/* Behind the values of an event that was not measured there is nothing, or padding. */
	uint64_t n = in->p < in->end ? in_u(in) : 0;
	if (!n || in->bad)
		return NULL;
	if (n > (uint64_t)(in->end - in->p)) {
		in->bad = true;
		return NULL;
	}
	struct event_stats *s = arena_alloc(a, sizeof(*s));
	struct tensor_stats *rows = s ? arena_alloc(a, (size_t)n * sizeof(*rows)) : NULL;
	in->bad |= !rows;
	for (uint64_t i = 0; i < n && !in->bad; i++) {
		get_row(in, a, &rows[i]);
		in->bad |= i && tensor_place_compare(&rows[i - 1].place, &rows[i].place) >= 0;
	}
	if (in->bad)
		return NULL;
	*s = (struct event_stats){.rows = rows, .n = (uint32_t)n};
	return s;
}
