/* The values of an event are decoded, or passed over. */
#include <errno.h>
#include <string.h>

#include "perf/trace/internal.h"

struct value_in {
	struct in in;
	const struct trace_defs *defs;
	struct arena *arena;
	bool no_memory;
};

static void *value_alloc(struct value_in *v, size_t size)
{
	void *p = arena_alloc(v->arena, size);
	if (!p)
		v->no_memory = v->in.bad = true;
	return p;
}

static void decode_tensor(struct value_in *v, struct value *out)
{
	struct tensor *t = value_alloc(v, sizeof(*t));
	uint32_t meta = in_below(&v->in, (uint64_t)v->defs->nmetas + 1);
	if (v->in.bad)
		return;
	if (meta) {
		t->meta = *v->defs->metas[meta - 1];
	} else {
		trace_meta_head(&v->in, &t->meta);
		int64_t *dims = v->in.bad ? NULL : value_alloc(v, t->meta.ndim * 2 * sizeof(*dims));
		if (!dims)
			return;
		trace_meta_dims(&v->in, &t->meta, dims);
	}
	t->storage_offset = in_s(&v->in);
	t->data_ptr = in_u(&v->in);
	t->impl = in_u(&v->in);
	t->storage = in_u(&v->in);
	out->tensor = t;
}

static void decode_value(struct value_in *v, struct value *out, int depth);

static void decode_list(struct value_in *v, struct value *out, int depth)
{
	uint64_t n = in_u(&v->in);
	if (v->in.bad || depth >= TRACE_VALUE_DEPTH_MAX || n > (uint64_t)(v->in.end - v->in.p)) {
		v->in.bad = true;
		return;
	}
	out->items = value_alloc(v, (size_t)n * sizeof(*out->items));
	out->count = (uint32_t)n;
	for (uint32_t i = 0; i < n && !v->in.bad; i++)
		decode_value(v, &out->items[i], depth + 1);
}

/* NULL: no memory, or damaged. */
static char *copy_string(struct value_in *v, uint32_t *len)
{
	const char *s = in_str(&v->in, len);
	char *copy = value_alloc(v, (size_t)*len + 1);
	if (copy)
		memcpy(copy, s, *len);
	return copy;
}

static void decode_string_value(struct value_in *v, struct value *out)
{
	uint32_t len;
	out->str = copy_string(v, &len);
	out->count = out->str && out->kind == VALUE_STRING ? len : 0;
}

static void decode_scalar(struct value_in *v, struct value *out, uint8_t flags)
{
	static const uint8_t held[] = {VALUE_INT, VALUE_FLOAT, VALUE_BOOL};
	uint8_t which = flags >> 5 & 3;
	if (which == 3) {
		v->in.bad = true;
		return;
	}
	out->scalar = held[which];
	out->is_unsigned = flags & 0x80;
	if (which == 1)
		out->f = in_f(&v->in);
	else if (which == 2)
		out->i = in_b(&v->in) != 0;
	else
		out->i = in_s(&v->in);
}

static void decode_value(struct value_in *v, struct value *out, int depth)
{
	uint32_t len = 0;
	uint8_t b = in_b(&v->in);
	out->kind = b & 0x1f;
	if (b >> 5 && out->kind != VALUE_SCALAR)
		v->in.bad = true;
	switch (out->kind) {
	case VALUE_NONE:
		break;
	case VALUE_TENSOR:
		decode_tensor(v, out);
		break;
	case VALUE_LIST:
		decode_list(v, out, depth);
		break;
	case VALUE_INT:
	case VALUE_DTYPE:
	case VALUE_LAYOUT:
	case VALUE_MEMORY_FORMAT:
	case VALUE_GENERATOR:
		out->i = in_s(&v->in);
		break;
	case VALUE_GROUP:
		out->group.address = in_u(&v->in);
		out->group.rank = in_s32(&v->in);
		out->group.size = in_s32(&v->in);
		out->group.of = NULL;
		break;
	case VALUE_WORK:
		out->work.address = in_u(&v->in);
		out->work.backend = copy_string(v, &len);
		if (!len)
			out->work.backend = NULL;
		break;
	case VALUE_BOOL:
		out->i = in_b(&v->in) != 0;
		break;
	case VALUE_FLOAT:
		out->f = in_f(&v->in);
		break;
	case VALUE_SCALAR:
		decode_scalar(v, out, b);
		break;
	case VALUE_COMPLEX:
		out->c.re = in_f(&v->in);
		out->c.im = in_f(&v->in);
		break;
	case VALUE_STRING:
	case VALUE_NOT_DECODED:
		decode_string_value(v, out);
		break;
	case VALUE_DEVICE:
		out->device.type = (int8_t)in_b(&v->in);
		out->device.index = (int8_t)in_b(&v->in);
		break;
	default:
		v->in.bad = true;
	}
}

int trace_decode_values(const struct trace_defs *d, struct in *in, struct arena *a, size_t n,
			struct value **out)
{
	struct value_in v = {.in = *in, .defs = d, .arena = a};
	struct value *all = value_alloc(&v, n * sizeof(*all));
	for (size_t i = 0; i < n && !v.in.bad; i++)
		decode_value(&v, &all[i], 0);
	*in = v.in;
	*out = all;
	return !in->bad ? 0 : v.no_memory ? -ENOMEM : -EBADMSG;
}

static void skip_tensor(struct in *in, const struct trace_defs *d)
{
	if (!in_below(in, (uint64_t)d->nmetas + 1) && !in->bad) {
		struct tensor_meta meta = {0};
		int64_t dims[2 * TENSOR_MAX_DIM];
		trace_meta_head(in, &meta);
		if (!in->bad)
			trace_meta_dims(in, &meta, dims);
	}
	in_pass(in, 4);
}

/* Mirrors decode_value. */
static void skip_value(struct in *in, const struct trace_defs *d, int depth)
{
	uint32_t len;
	uint8_t b = in_b(in), kind = b & 0x1f, held = b >> 5 & 3;
	if ((b >> 5 && kind != VALUE_SCALAR) || (kind == VALUE_SCALAR && held == 3))
		in->bad = true;
	switch (kind) {
	case VALUE_NONE:
		break;
	case VALUE_TENSOR:
		skip_tensor(in, d);
		break;
	case VALUE_LIST:
		in->bad |= depth >= TRACE_VALUE_DEPTH_MAX;
		for (uint64_t n = in_u(in); n && !in->bad; n--)
			skip_value(in, d, depth + 1);
		break;
	case VALUE_INT:
	case VALUE_DTYPE:
	case VALUE_LAYOUT:
	case VALUE_MEMORY_FORMAT:
	case VALUE_GENERATOR:
		in_pass(in, 1);
		break;
	case VALUE_GROUP:
		in_pass(in, 3);
		break;
	case VALUE_WORK:
		in_pass(in, 1);
		in_str(in, &len);
		break;
	case VALUE_SCALAR:
		if (held == 0)
			in_pass(in, 1);
		else
			in_pass_bytes(in, held == 1 ? sizeof(double) : 1);
		break;
	case VALUE_BOOL:
		in_pass_bytes(in, 1);
		break;
	case VALUE_FLOAT:
		in_pass_bytes(in, sizeof(double));
		break;
	case VALUE_COMPLEX:
		in_pass_bytes(in, 2 * sizeof(double));
		break;
	case VALUE_STRING:
	case VALUE_NOT_DECODED:
		in_str(in, &len);
		break;
	case VALUE_DEVICE:
		in_pass_bytes(in, 2);
		break;
	default:
		in->bad = true;
	}
}

void trace_pass_values(const struct trace_defs *d, struct in *in, size_t n)
{
	for (size_t i = 0; i < n && !in->bad; i++)
		skip_value(in, d, 0);
}
