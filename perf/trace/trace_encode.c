/* The values and the statistics of an event are encoded. */
#include <errno.h>
#include <string.h>

#include "perf/trace/internal.h"
#include "symbolizer/event/event.h"

_Static_assert((int)VALUE_DEPTH_MAX <= (int)TRACE_VALUE_DEPTH_MAX, "values fit into the file");

static void encode_meta(struct out *o, const struct tensor_meta *m)
{
	uint8_t ndim = m->ndim <= TENSOR_MAX_DIM ? m->ndim : 0;
	uint8_t unknown = m->unknown;
	if (!m->shape && ndim)
		unknown |= TENSOR_NO_SHAPE;
	if (!m->stride && ndim)
		unknown |= TENSOR_NO_STRIDE;
	if (m->ndim > TENSOR_MAX_DIM)
		unknown |= TENSOR_NO_SHAPE | TENSOR_NO_STRIDE;
	const uint8_t head[8] = {(uint8_t)m->dtype,
				 (uint8_t)(m->dtype >> 8),
				 (uint8_t)m->device_type,
				 (uint8_t)m->device_index,
				 (uint8_t)m->layout,
				 m->requires_grad,
				 unknown,
				 ndim};
	out_bytes(o, head, sizeof(head));
	out_s(o, m->numel);
	for (uint8_t i = 0; i < ndim && !(unknown & TENSOR_NO_SHAPE); i++)
		out_s(o, m->shape[i]);
	for (uint8_t i = 0; i < ndim && !(unknown & TENSOR_NO_STRIDE); i++)
		out_s(o, m->stride[i]);
}

static int put_meta(struct out *o, const struct tensor *t, const struct meta_numbers *metas)
{
	struct meta_known *known =
	    t->same && metas->known ? &metas->known[t->same % META_KNOWN] : NULL;
	if (known && known->same == t->same) {
		out_u(o, (uint64_t)known->number + 1);
		return 0;
	}
	uint8_t buf[TRACE_META_PAYLOAD_MAX];
	struct out m = {.p = buf, .end = buf + sizeof(buf)};
	encode_meta(&m, &t->meta);
	uint32_t len = (uint32_t)(m.p - buf);
	int64_t id = metas->number(metas->arg, buf, len);
	if (id < 0 && id != -ENOENT)
		return (int)id;
	out_u(o, id < 0 ? 0 : (uint64_t)id + 1);
	if (id < 0)
		out_bytes(o, buf, len);
	else if (known)
		*known = (struct meta_known){.same = t->same, .number = id};
	return 0;
}

static int put_tensor(struct out *o, const struct tensor *t, const struct meta_numbers *metas)
{
	int r = put_meta(o, t, metas);
	if (r)
		return r;
	out_s(o, t->storage_offset);
	out_u(o, t->data_ptr);
	out_u(o, t->impl);
	out_u(o, t->storage);
	return 0;
}

void trace_encode_not_decoded(struct out *o, const char *reason)
{
	out_b(o, VALUE_NOT_DECODED);
	out_str(o, reason, strlen(reason));
}

static void put_scalar(struct out *o, const struct value *v)
{
	uint8_t held = v->scalar == VALUE_FLOAT ? 1 : v->scalar == VALUE_BOOL ? 2 : 0;
	out_b(o, (uint8_t)(VALUE_SCALAR | held << 5 | (v->is_unsigned ? 0x80 : 0)));
	if (held == 1)
		out_f(o, v->f);
	else if (held == 2)
		out_b(o, v->i != 0);
	else
		out_s(o, v->i);
}

static int put_value(struct out *o, const struct value *v, const struct meta_numbers *metas,
		     int depth);

static int put_list(struct out *o, const struct value *v, const struct meta_numbers *metas,
		    int depth)
{
	if (depth >= TRACE_VALUE_DEPTH_MAX) {
		trace_encode_not_decoded(o, "lists nested too deeply");
		return 0;
	}
	out_b(o, VALUE_LIST);
	out_u(o, v->count);
	for (uint32_t i = 0; i < v->count && !o->full; i++) {
		int r = put_value(o, &v->items[i], metas, depth + 1);
		if (r)
			return r;
	}
	return 0;
}

static int put_value(struct out *o, const struct value *v, const struct meta_numbers *metas,
		     int depth)
{
	if (v->kind == VALUE_LIST)
		return put_list(o, v, metas, depth);
	if (v->kind == VALUE_SCALAR) {
		put_scalar(o, v);
		return 0;
	}
	if (v->kind >= VALUE_KINDS) {
		trace_encode_not_decoded(o, "unknown kind of value");
		return 0;
	}
	out_b(o, v->kind);
	switch (v->kind) {
	case VALUE_TENSOR:
		return put_tensor(o, v->tensor, metas);
	case VALUE_INT:
	case VALUE_DTYPE:
	case VALUE_LAYOUT:
	case VALUE_MEMORY_FORMAT:
	case VALUE_GENERATOR:
		out_s(o, v->i);
		break;
	case VALUE_BOOL:
		out_b(o, v->i != 0);
		break;
	case VALUE_FLOAT:
		out_f(o, v->f);
		break;
	case VALUE_COMPLEX:
		out_f(o, v->c.re);
		out_f(o, v->c.im);
		break;
	case VALUE_DEVICE:
		out_b(o, (uint8_t)v->device.type);
		out_b(o, (uint8_t)v->device.index);
		break;
	case VALUE_STRING:
		out_str(o, v->str, v->count);
		break;
	case VALUE_GROUP:
		out_u(o, v->group.address);
		out_s(o, v->group.rank);
		out_s(o, v->group.size);
		break;
	case VALUE_WORK:
		out_u(o, v->work.address);
		out_str(o, v->work.backend ? v->work.backend : "",
			v->work.backend ? strlen(v->work.backend) : 0);
		break;
	case VALUE_NOT_DECODED:
		out_str(o, v->str ? v->str : "", v->str ? strlen(v->str) : 0);
		break;
	}
	return 0;
}

int trace_encode_value(struct out *o, const struct value *v, const struct meta_numbers *metas)
{
	return put_value(o, v, metas, 0);
}

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
	/* After the values of an event that was not measured comes nothing, or padding. */
	uint64_t n = in_later_u(in);
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
