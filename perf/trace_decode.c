#include "perf/trace_decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const size_t DEFS_MAX = (size_t)512 << 20;

uint8_t in_b(struct in *in)
{
	if (in->p >= in->end) {
		in->bad = true;
		return 0;
	}
	return *in->p++;
}

uint64_t in_u(struct in *in)
{
	uint64_t n = 0;
	if (in->p < in->end && *in->p < 0x80)
		return *in->p++;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t b = in_b(in);
		n |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return in->bad ? 0 : n;
	}
	in->bad = true;
	return 0;
}

int64_t in_s(struct in *in)
{
	uint64_t n = in_u(in);
	return (int64_t)((n >> 1) ^ (0 - (n & 1)));
}

static int32_t in_s32(struct in *in)
{
	int64_t n = in_s(in);
	if (n < INT32_MIN || n > INT32_MAX) {
		in->bad = true;
		return 0;
	}
	return (int32_t)n;
}

uint32_t in_below(struct in *in, uint64_t limit)
{
	uint64_t n = in_u(in);
	if (n >= limit) {
		in->bad = true;
		return 0;
	}
	return (uint32_t)n;
}

double in_f(struct in *in)
{
	double f = 0;
	if (in->end - in->p < (ptrdiff_t)sizeof(f)) {
		in->bad = true;
		return 0;
	}
	memcpy(&f, in->p, sizeof(f));
	in->p += sizeof(f);
	return f;
}

const char *in_str(struct in *in, uint32_t *len)
{
	uint64_t n = in_u(in);
	if (in->bad || n > (uint64_t)(in->end - in->p)) {
		in->bad = true;
		*len = 0;
		return "";
	}
	const char *s = (const char *)in->p;
	in->p += n;
	*len = (uint32_t)n;
	return s;
}

static void *defs_alloc(struct trace_defs *d, size_t size)
{
	if (d->bytes + size > DEFS_MAX)
		return NULL;
	d->bytes += size + 16;
	return arena_alloc(&d->arena, size);
}

static char *defs_str(struct trace_defs *d, struct in *in)
{
	uint32_t len;
	const char *s = in_str(in, &len);
	char *copy = defs_alloc(d, (size_t)len + 1);
	if (copy)
		memcpy(copy, s, len);
	return copy;
}

/* Room for one more pointer in the array of n; its size doubles when n reaches a power of two. */
static int grow(void *array, uint32_t n)
{
	void **old;
	memcpy(&old, array, sizeof(old));
	if (n & (n - 1) || (n && n < 64))
		return 0;
	void **grown = realloc(old, (n ? (size_t)n * 2 : 64) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memcpy(array, &grown, sizeof(grown));
	return 0;
}

static const char *string_at(const struct trace_defs *d, struct in *in)
{
	uint32_t id = in_below(in, d->nstrings);
	return in->bad ? "" : d->strings[id];
}

static int decode_string(struct trace_defs *d, struct in *in)
{
	char *s = defs_str(d, in);
	if (in->bad)
		return -EBADMSG;
	if (!s || grow(&d->strings, d->nstrings))
		return -ENOMEM;
	d->strings[d->nstrings++] = s;
	return 0;
}

static int decode_op(struct trace_defs *d, struct in *in)
{
	struct op_desc *op = defs_alloc(d, sizeof(*op));
	if (!op)
		return -ENOMEM;
	op->id = d->nops;
	op->kind = in_b(in);
	op->flags = in_b(in);
	op->name = string_at(d, in);
	op->schema = string_at(d, in);
	op->nargs = (uint16_t)in_below(in, UINT16_MAX + 1u);
	op->nresults = (uint16_t)in_below(in, UINT16_MAX + 1u);
	size_t n = (size_t)op->nargs + op->nresults;
	if (in->bad || n * 2 > (size_t)(in->end - in->p))
		return -EBADMSG;
	struct op_arg *args = defs_alloc(d, n * sizeof(*args));
	if (!args || grow(&d->ops, d->nops))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		args[i].name = string_at(d, in);
		args[i].type = string_at(d, in);
	}
	op->args = args;
	op->results = args + op->nargs;
	d->ops[d->nops++] = op;
	return in->bad ? -EBADMSG : 0;
}

/* Shape and stride go behind *m, to `dims` (2 * ndim of them). */
static void decode_meta_head(struct in *in, struct tensor_meta *m)
{
	m->dtype = in_b(in);
	m->dtype |= (uint16_t)(in_b(in) << 8);
	m->device_type = (int8_t)in_b(in);
	m->device_index = (int8_t)in_b(in);
	m->layout = (int8_t)in_b(in);
	m->requires_grad = in_b(in) != 0;
	m->unknown = in_b(in);
	m->ndim = in_b(in);
	m->numel = in_s(in);
	if (m->ndim > TENSOR_MAX_DIM)
		in->bad = true;
}

static void decode_meta_dims(struct in *in, struct tensor_meta *m, int64_t *dims)
{
	for (uint8_t i = 0; i < m->ndim && !(m->unknown & TENSOR_NO_SHAPE); i++)
		dims[i] = in_s(in);
	for (uint8_t i = 0; i < m->ndim && !(m->unknown & TENSOR_NO_STRIDE); i++)
		dims[m->ndim + i] = in_s(in);
	m->shape = dims;
	m->stride = dims + m->ndim;
}

static int decode_meta(struct trace_defs *d, struct in *in)
{
	struct tensor_meta head = {0};
	decode_meta_head(in, &head);
	if (in->bad)
		return -EBADMSG;
	struct tensor_meta *m = defs_alloc(d, sizeof(*m) + (size_t)head.ndim * 2 * sizeof(int64_t));
	if (!m || grow(&d->metas, d->nmetas))
		return -ENOMEM;
	*m = head;
	decode_meta_dims(in, m, (int64_t *)(m + 1));
	d->metas[d->nmetas++] = m;
	return in->bad ? -EBADMSG : 0;
}

static int decode_frame(struct trace_defs *d, struct in *in)
{
	struct py_frame *f = defs_alloc(d, sizeof(*f));
	if (!f || grow(&d->frames, d->nframes))
		return -ENOMEM;
	f->id = d->nframes;
	f->file = string_at(d, in);
	f->function = string_at(d, in);
	uint32_t text = in_below(in, (uint64_t)d->nstrings + 1);
	f->text = text ? d->strings[text - 1] : NULL;
	f->line = in_s32(in);
	f->column = in_s32(in);
	f->end_column = in_s32(in);
	f->end_line = in_s32(in);
	f->is_torch = in_b(in) != 0;
	d->frames[d->nframes++] = f;
	return in->bad ? -EBADMSG : 0;
}

static int decode_text(struct trace_defs *d, struct in *in)
{
	uint32_t frame = in_below(in, d->nframes);
	const char *text = string_at(d, in);
	if (in->bad)
		return -EBADMSG;
	d->frames[frame]->text = text;
	return 0;
}

static int decode_stack(struct trace_defs *d, struct in *in)
{
	uint32_t depth = in_below(in, UINT16_MAX + 1u);
	bool truncated = in_b(in) != 0;
	if (in->bad || depth > (size_t)(in->end - in->p))
		return -EBADMSG;
	struct py_stack *s = defs_alloc(d, sizeof(*s) + depth * sizeof(s->frames[0]));
	if (!s || grow(&d->stacks, d->nstacks))
		return -ENOMEM;
	s->id = d->nstacks;
	s->depth = (uint16_t)depth;
	s->truncated = truncated;
	for (uint32_t i = 0; i < depth; i++) {
		uint32_t frame = in_below(in, d->nframes);
		if (in->bad)
			return -EBADMSG;
		s->frames[i] = d->frames[frame];
	}
	uint32_t module = in->p < in->end ? in_below(in, (uint64_t)d->nstrings + 1) : 0;
	if (in->bad)
		return -EBADMSG;
	s->module = module ? d->strings[module - 1] : NULL;
	d->stacks[d->nstacks++] = s;
	return 0;
}

int trace_decode_definition(struct trace_defs *d, uint16_t type, struct in *in)
{
	switch (type) {
	case TRACE_STRING:
		return decode_string(d, in);
	case TRACE_OP:
		return decode_op(d, in);
	case TRACE_META:
		return decode_meta(d, in);
	case TRACE_FRAME:
		return decode_frame(d, in);
	case TRACE_TEXT:
		return decode_text(d, in);
	case TRACE_STACK:
		return decode_stack(d, in);
	}
	return 0;
}

int trace_decode_target(struct trace_defs *d, struct in *in, struct trace_target *out)
{
	out->pid = in_s32(in);
	out->start_ns = in_s(in);
	out->comm = defs_str(d, in);
	out->argv = defs_str(d, in);
	out->torch_version = defs_str(d, in);
	out->python_version = defs_str(d, in);
	out->engine = defs_str(d, in);
	out->torch_dir = defs_str(d, in);
	if (!out->comm || !out->argv || !out->torch_version || !out->python_version ||
	    !out->engine || !out->torch_dir)
		return -ENOMEM;
	return in->bad ? -EBADMSG : 1;
}

int trace_decode_thread(struct trace_defs *d, struct in *in, int32_t *pid, int32_t *tid,
			const char **name)
{
	uint32_t number = in_below(in, (uint64_t)d->nthreads + 1);
	*pid = in_s32(in);
	*tid = in_s32(in);
	*name = defs_str(d, in);
	if (in->bad)
		return -EBADMSG;
	if (!*name)
		return -ENOMEM;
	if (number < d->nthreads)
		return 1;
	struct trace_thread_def *t = defs_alloc(d, sizeof(*t));
	if (!t || grow(&d->threads, d->nthreads))
		return -ENOMEM;
	*t = (struct trace_thread_def){*pid, *tid};
	d->threads[d->nthreads++] = t;
	return 1;
}

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
		decode_meta_head(&v->in, &t->meta);
		int64_t *dims = v->in.bad ? NULL : value_alloc(v, t->meta.ndim * 2 * sizeof(*dims));
		if (!dims)
			return;
		decode_meta_dims(&v->in, &t->meta, dims);
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

static void decode_string_value(struct value_in *v, struct value *out)
{
	uint32_t len;
	const char *s = in_str(&v->in, &len);
	char *copy = value_alloc(v, (size_t)len + 1);
	if (!copy)
		return;
	memcpy(copy, s, len);
	out->str = copy;
	out->count = out->kind == VALUE_STRING ? len : 0;
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

static const struct py_stack *stack_at(const struct trace_defs *d, struct in *in)
{
	uint32_t id = in_below(in, d->nstacks);
	return in->bad ? NULL : d->stacks[id];
}

static void decode_event_head(const struct trace_defs *d, struct in *in,
			      const struct trace_raw_event *raw, struct op_event *ev)
{
	uint8_t flags = in_b(in);
	uint32_t op = in_below(in, d->nops), thread = in_below(in, d->nthreads);
	ev->id = raw->last_id + (uint64_t)in_s(in);
	ev->parent = flags & EVENT_HAS_PARENT ? ev->id - (uint64_t)in_s(in) : 0;
	ev->forward_id = flags & EVENT_HAS_FORWARD_ID ? ev->id - (uint64_t)in_s(in) : 0;
	ev->start_ns = raw->last_ns + (uint64_t)in_s(in);
	ev->end_ns = flags & EVENT_ENDED ? ev->start_ns + (uint64_t)in_s(in) : 0;
	ev->child_ns = in_u(in);
	ev->depth = (uint16_t)in_below(in, UINT16_MAX + 1u);
	ev->stack = flags & EVENT_HAS_STACK ? stack_at(d, in) : NULL;
	ev->where_stack = flags & EVENT_HAS_WHERE  ? stack_at(d, in)
			  : flags & EVENT_NO_WHERE ? NULL
						   : ev->stack;
	ev->nargs = (uint16_t)in_below(in, UINT16_MAX + 1u);
	ev->nresults = (uint16_t)in_below(in, UINT16_MAX + 1u);
	ev->phase = flags & EVENT_BACKWARD ? PHASE_BACKWARD : PHASE_FORWARD;
	ev->thrown = flags & EVENT_THROWN;
	if (in->bad)
		return;
	ev->op = d->ops[op];
	ev->pid = d->threads[thread]->pid;
	ev->tid = d->threads[thread]->tid;
}

static void skip_bytes(struct in *in, size_t n)
{
	if (n > (size_t)(in->end - in->p))
		in->bad = true;
	else
		in->p += n;
}

static void skip_tensor(struct in *in, const struct trace_defs *d)
{
	struct tensor_meta meta = {0};
	int64_t dims[2 * TENSOR_MAX_DIM];
	if (!in_below(in, (uint64_t)d->nmetas + 1) && !in->bad)
		decode_meta_head(in, &meta);
	if (!in->bad)
		decode_meta_dims(in, &meta, dims);
	for (int i = 0; i < 4; i++)
		in_u(in);
}

/* As decode_value. */
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
		in_u(in);
		break;
	case VALUE_SCALAR:
		if (held == 0)
			in_u(in);
		else
			skip_bytes(in, held == 1 ? sizeof(double) : 1);
		break;
	case VALUE_BOOL:
		skip_bytes(in, 1);
		break;
	case VALUE_FLOAT:
		skip_bytes(in, sizeof(double));
		break;
	case VALUE_COMPLEX:
		skip_bytes(in, 2 * sizeof(double));
		break;
	case VALUE_STRING:
	case VALUE_NOT_DECODED:
		in_str(in, &len);
		break;
	case VALUE_DEVICE:
		skip_bytes(in, 2);
		break;
	default:
		in->bad = true;
	}
}

static int skip_values(const struct trace_defs *d, struct in *in, size_t n, struct op_event *out)
{
	for (size_t i = 0; i < n && !in->bad; i++)
		skip_value(in, d, 0);
	bool measured = !in->bad && in->p < in->end && in_u(in);
	out->nargs = out->nresults = 0;
	return in->bad ? -EBADMSG : measured ? -EAGAIN : 0;
}

int trace_decode_event_payload(const struct trace_defs *d, const struct trace_raw_event *raw,
			       struct arena *values, struct op_event *out)
{
	struct value_in v = {
	    .in = {.p = raw->payload, .end = raw->payload + raw->size}, .defs = d, .arena = values};
	memset(out, 0, sizeof(*out));
	decode_event_head(d, &v.in, raw, out);
	size_t n = (size_t)out->nargs + out->nresults;
	if (v.in.bad || n > (size_t)(v.in.end - v.in.p))
		return -EBADMSG;
	if (!values)
		return skip_values(d, &v.in, n, out);
	struct value *all = value_alloc(&v, n * sizeof(*all));
	for (size_t i = 0; i < n && !v.in.bad; i++)
		decode_value(&v, &all[i], 0);
	out->stats = v.in.bad ? NULL : trace_decode_stats(&v.in, values);
	if (v.in.bad)
		return v.no_memory ? -ENOMEM : -EBADMSG;
	out->args = all;
	out->results = all + out->nargs;
	return 0;
}

int trace_decode_sample(const struct trace_defs *d, struct in *in, uint64_t last_ns,
			struct sample *out)
{
	uint8_t flags = in_b(in);
	uint32_t thread = in_below(in, d->nthreads);
	*out = (struct sample){.time_ns = last_ns + (uint64_t)in_s(in), .weight = in_u(in)};
	uint32_t op = flags & SAMPLE_HAS_OP ? in_below(in, d->nops) : 0;
	out->python = flags & SAMPLE_HAS_PYTHON ? stack_at(d, in) : NULL;
	out->native = flags & SAMPLE_HAS_NATIVE ? stack_at(d, in) : NULL;
	out->phase = flags & SAMPLE_BACKWARD ? PHASE_BACKWARD : PHASE_FORWARD;
	out->mismatched = flags & SAMPLE_MISMATCHED;
	out->in_kernel = flags & SAMPLE_IN_KERNEL;
	if (in->bad || out->weight > INT64_MAX)
		return -EBADMSG;
	out->op = flags & SAMPLE_HAS_OP ? d->ops[op] : NULL;
	out->pid = d->threads[thread]->pid;
	out->tid = d->threads[thread]->tid;
	return 1;
}

int trace_decode_sampling(struct trace_defs *d, struct in *in, struct sampling *out)
{
	out->frequency = in_u(in);
	out->event = defs_str(d, in);
	out->kernel = in_b(in) != 0;
	return in->bad ? -EBADMSG : out->event ? 1 : -ENOMEM;
}

int trace_decode_build(struct trace_defs *d, struct in *in, struct trace_build *out)
{
	out->file = string_at(d, in);
	struct in id = *in;
	in_str(&id, &out->len);
	out->id = (const uint8_t *)defs_str(d, in);
	return in->bad ? -EBADMSG : out->id ? 1 : -ENOMEM;
}

void trace_defs_free(struct trace_defs *d)
{
	arena_free(&d->arena);
	free(d->strings);
	free(d->ops);
	free(d->metas);
	free(d->frames);
	free(d->stacks);
	free(d->threads);
	*d = (struct trace_defs){0};
}
