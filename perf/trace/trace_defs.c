#include "perf/trace/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const size_t DEFS_MAX = (size_t)512 << 20;

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

/* Make room for one more pointer in an array of n; the size doubles when n reaches a power of two.
 */
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

static const char *string_or_none(const struct trace_defs *d, struct in *in)
{
	uint32_t n = in->p < in->end ? in_below(in, (uint64_t)d->nstrings + 1) : 0;
	return in->bad || !n ? NULL : d->strings[n - 1];
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

static uint32_t id_of(const struct trace_defs *d, uint32_t number)
{
	return d->first_id + number * (d->id_step ? d->id_step : 1);
}

static int decode_op(struct trace_defs *d, struct in *in)
{
	struct op_desc *op = defs_alloc(d, sizeof(*op));
	if (!op)
		return -ENOMEM;
	op->id = id_of(d, d->nops);
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

void trace_meta_head(struct in *in, struct tensor_meta *m)
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

void trace_meta_dims(struct in *in, struct tensor_meta *m, int64_t *dims)
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
	trace_meta_head(in, &head);
	if (in->bad)
		return -EBADMSG;
	struct tensor_meta *m = defs_alloc(d, sizeof(*m) + (size_t)head.ndim * 2 * sizeof(int64_t));
	if (!m || grow(&d->metas, d->nmetas))
		return -ENOMEM;
	*m = head;
	trace_meta_dims(in, m, (int64_t *)(m + 1));
	d->metas[d->nmetas++] = m;
	return in->bad ? -EBADMSG : 0;
}

static int decode_frame(struct trace_defs *d, struct in *in)
{
	struct py_frame *f = defs_alloc(d, sizeof(*f));
	if (!f || grow(&d->frames, d->nframes))
		return -ENOMEM;
	f->id = id_of(d, d->nframes);
	f->file = string_at(d, in);
	f->function = string_at(d, in);
	f->text = string_or_none(d, in);
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

/* Of files written before stacks had parameters; see STACK in trace_format.h. */
static void take_parameter_frame(struct py_stack *s)
{
	static const char prefix[] = "gradient accumulation of ";
	const struct py_frame *f = s->depth == 1 ? s->frames[0] : NULL;
	if (!f || f->line || strcmp(f->function, "(gradient accumulation)") != 0 ||
	    strncmp(f->file, prefix, sizeof(prefix) - 1) != 0)
		return;
	s->parameter = f->file + sizeof(prefix) - 1;
	s->depth = 0;
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
	s->id = id_of(d, d->nstacks);
	s->depth = (uint16_t)depth;
	s->truncated = truncated;
	for (uint32_t i = 0; i < depth; i++) {
		uint32_t frame = in_below(in, d->nframes);
		if (in->bad)
			return -EBADMSG;
		s->frames[i] = d->frames[frame];
	}
	s->module = string_or_none(d, in);
	s->parameter = string_or_none(d, in);
	s->left_out = in->p < in->end && in_b(in);
	if (in->bad || ((s->parameter || s->left_out) && depth))
		return -EBADMSG;
	take_parameter_frame(s);
	d->stacks[d->nstacks++] = s;
	return 0;
}

static int decode_group(struct trace_defs *d, struct in *in)
{
	const char *name = string_at(d, in);
	uint32_t n = in_below(in, (uint64_t)UINT32_MAX + 1);
	if (in->bad || n > (size_t)(in->end - in->p))
		return -EBADMSG;
	struct group_desc *g = defs_alloc(d, sizeof(*g) + n * sizeof(*g->ranks));
	if (!g || grow(&d->groups, d->ngroups))
		return -ENOMEM;
	int32_t *ranks = (int32_t *)(g + 1);
	for (uint32_t i = 0; i < n; i++)
		ranks[i] = in_s32(in);
	*g = (struct group_desc){.name = name, .ranks = ranks, .n = n};
	d->groups[d->ngroups++] = g;
	return in->bad ? -EBADMSG : 0;
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
	case TRACE_GROUP:
		return decode_group(d, in);
	}
	return 0;
}

int trace_decode_target(struct trace_defs *d, struct in *in, struct trace_target *out)
{
	out->pid = in_s32(in);
	out->rank1 = 0;
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

int trace_decode_sampling(struct trace_defs *d, struct in *in, struct sampling *out)
{
	out->frequency = in_u(in);
	out->event = defs_str(d, in);
	out->kernel = in_b(in) != 0;
	return in->bad ? -EBADMSG : out->event ? 1 : -ENOMEM;
}

int trace_decode_chosen(struct trace_defs *d, struct in *in, const char **out)
{
	*out = defs_str(d, in);
	return in->bad ? -EBADMSG : *out ? 1 : -ENOMEM;
}

/* A number + 1 that is not negative; -1: not known. */
static int32_t known_number(struct in *in)
{
	return (int32_t)in_below(in, (uint64_t)INT32_MAX + 1) - 1;
}

int trace_decode_process(struct in *in, struct trace_process *out)
{
	uint32_t len;
	struct process_rank *r = &out->rank;
	*out = (struct trace_process){.pid = in_s32(in)};
	uint8_t flags = in_b(in);
	out->worker = flags & PROCESS_WORKER;
	out->whole = flags & PROCESS_WHOLE;
	r->rank = known_number(in);
	r->world_size = known_number(in);
	r->local_rank = known_number(in);
	r->node = known_number(in);
	r->restarts = known_number(in);
	const char *host = in_str(in, &len);
	if (in->bad || len >= sizeof(r->host))
		return -EBADMSG;
	memcpy(r->host, host, len);
	return 1;
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
	free(d->groups);
	*d = (struct trace_defs){0};
}
