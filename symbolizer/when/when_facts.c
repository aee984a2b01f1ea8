#include <string.h>

#include "symbolizer/event/names.h"
#include "symbolizer/when/internal.h"

static struct when_value string_value(const char *s)
{
	return s ? when_string(s, strlen(s)) : when_none(WHEN_V_ABSENT);
}

static struct when_value overload_of(const char *name)
{
	const char *base = strstr(name, "::");
	const char *dot = base ? strchr(base, '.') : NULL;
	return string_value(dot ? dot + 1 : "");
}

/* file, line and function, as shown for the event. */
static struct when_value where_value(const struct op_event *ev, enum when_word word)
{
	const struct py_frame *f = py_stack_where(ev->where_stack);
	if (!f || (word == WHEN_LINE && f->line <= 0))
		return when_none(WHEN_V_ABSENT);
	return word == WHEN_LINE ? when_int(f->line)
				 : string_value(word == WHEN_FILE ? f->file : f->function);
}

static struct when_value forward_id(const struct op_event *ev)
{
	uint64_t id = ev->phase == PHASE_FORWARD ? ev->id : ev->forward_id;
	return id ? when_int(id) : when_none(WHEN_V_NONE);
}

/* Facts known from the end of the call; UNKNOWN if the op did not end. */
static struct when_value ending_value(const struct when_ctx *c, enum when_word word)
{
	const struct op_event *ev = c->ev;
	if (c->at_entry)
		return when_none(WHEN_V_LATER);
	if (!ev->end_ns)
		return when_none(WHEN_V_UNKNOWN);
	if (word == WHEN_THROWN)
		return when_int(ev->thrown);
	return (struct when_value){
	    .kind = WHEN_V_FLOAT,
	    .f = ev->end_ns > ev->start_ns ? (double)(ev->end_ns - ev->start_ns) / 1e9 : 0};
}

/* A special value that says why the results are missing; any other value if they are present. */
static struct when_value results_missing(const struct when_ctx *c)
{
	if (c->at_entry)
		return when_none(WHEN_V_LATER);
	if (c->ev->thrown)
		return when_none(WHEN_V_ABSENT);
	return when_none(c->ev->nresults < c->ev->op->nresults ? WHEN_V_UNKNOWN : WHEN_V_NONE);
}

static struct when_value all_values(const struct when_ctx *c, bool results, enum when_kind kind)
{
	const struct op_event *ev = c->ev;
	struct when_value missing = results ? results_missing(c) : when_none(WHEN_V_NONE);
	if (when_is_special(missing))
		return missing;
	if (!results && ev->nargs < ev->op->nargs)
		return when_none(WHEN_V_UNKNOWN);
	uint16_t n = results ? ev->nresults : ev->nargs;
	uint16_t described = results ? ev->op->nresults : ev->op->nargs;
	return (struct when_value){.kind = (uint8_t)kind,
				   .count = n,
				   .values = results ? ev->results : ev->args,
				   .types = n > described ? NULL
					    : results	  ? ev->op->results
							  : ev->op->args};
}

struct when_value when_word_eval(const struct when_ctx *c, enum when_word word)
{
	const struct op_event *ev = c->ev;
	switch (word) {
	case WHEN_OP:
		return string_value(ev->op->name);
	case WHEN_OVERLOAD:
		return overload_of(ev->op->name);
	case WHEN_PHASE:
		return (struct when_value){.kind = WHEN_V_PHASE, .i = ev->phase};
	case WHEN_ID:
		return when_int(ev->id);
	case WHEN_FORWARD_ID:
		return forward_id(ev);
	case WHEN_DEPTH:
		return when_int(ev->depth);
	case WHEN_PID:
		return when_int(ev->pid);
	case WHEN_TID:
		return when_int(ev->tid);
	case WHEN_FILE:
	case WHEN_LINE:
	case WHEN_FUNCTION:
		return where_value(ev, word);
	case WHEN_PARAMETER:
		return string_value(py_stack_parameter(ev->where_stack));
	case WHEN_ARGS:
	case WHEN_RESULTS:
		return all_values(c, word == WHEN_RESULTS, WHEN_V_VALUES);
	case WHEN_INPUTS:
	case WHEN_OUTPUTS:
		return all_values(c, word == WHEN_OUTPUTS, WHEN_V_TENSORS);
	default:
		return ending_value(c, word);
	}
}

struct when_value when_name_eval(const struct when_ctx *c, const char *name)
{
	const struct op_event *ev = c->ev;
	struct when_place p = when_find_name(ev->op, name);
	if (!p.found) {
		/* An op known by name only may have it. */
		bool bare = !ev->op->nargs && !ev->op->nresults && !ev->op->schema[0];
		return when_none(bare ? WHEN_V_UNKNOWN : WHEN_V_ABSENT);
	}
	struct when_value all = all_values(c, p.is_result, WHEN_V_VALUES);
	if (when_is_special(all))
		return all;
	return when_of(&all.values[p.index], c->at_entry);
}

static struct when_value dims_value(const struct tensor_meta *m, const int64_t *d)
{
	return (struct when_value){.kind = WHEN_V_DIMS, .count = m->ndim, .dims = d};
}

/* As compute_contiguous (c10/core/TensorImpl.cpp): row-major without gaps; dimensions of size 1 do
 * not count. */
static bool is_contiguous(const struct tensor_meta *m)
{
	int64_t next = 1;
	if (m->numel == 0)
		return true;
	for (unsigned i = m->ndim; i-- > 0;) {
		if (m->shape[i] == 1)
			continue;
		if (m->stride[i] != next || __builtin_mul_overflow(next, m->shape[i], &next))
			return false;
	}
	return true;
}

static struct when_value bytes_value(const struct tensor_meta *m, bool all)
{
	int size = names_itemsize(m->dtype);
	if (!size)
		return when_none(WHEN_V_UNKNOWN);
	return when_int(all ? (__int128)size * m->numel : size);
}

static struct when_value tensor_attribute(const struct tensor *t, enum when_attribute attribute)
{
	static const uint8_t needs[] = {
	    [WHEN_SHAPE] = TENSOR_NO_SHAPE,
	    [WHEN_STRIDE] = TENSOR_NO_STRIDE,
	    [WHEN_DIM] = TENSOR_NO_SHAPE,
	    [WHEN_NUMEL] = TENSOR_NO_SHAPE,
	    [WHEN_ITEMSIZE] = TENSOR_NO_DTYPE,
	    [WHEN_NBYTES] = TENSOR_NO_SHAPE | TENSOR_NO_DTYPE,
	    [WHEN_STORAGE_OFFSET] = TENSOR_NO_OFFSET,
	    [WHEN_DATA_PTR] = TENSOR_NO_DATA_PTR,
	    [WHEN_DTYPE] = TENSOR_NO_DTYPE,
	    [WHEN_DEVICE] = TENSOR_NO_DEVICE,
	    [WHEN_LAYOUT] = TENSOR_NO_LAYOUT,
	    [WHEN_REQUIRES_GRAD] = TENSOR_NO_REQUIRES_GRAD,
	    [WHEN_IS_CONTIGUOUS] = TENSOR_NO_SHAPE | TENSOR_NO_STRIDE,
	};
	const struct tensor_meta *m = &t->meta;
	if (attribute >= sizeof(needs))
		return when_none(WHEN_V_ABSENT);
	if (m->unknown & needs[attribute])
		return when_none(WHEN_V_UNKNOWN);
	switch (attribute) {
	case WHEN_SHAPE:
		return dims_value(m, m->shape);
	case WHEN_STRIDE:
		return dims_value(m, m->stride);
	case WHEN_DIM:
		return when_int(m->ndim);
	case WHEN_NUMEL:
		return when_int(m->numel);
	case WHEN_ITEMSIZE:
	case WHEN_NBYTES:
		return bytes_value(m, attribute == WHEN_NBYTES);
	case WHEN_STORAGE_OFFSET:
		return when_int(t->storage_offset);
	case WHEN_DATA_PTR:
		return when_int(t->data_ptr);
	case WHEN_DTYPE:
		return (struct when_value){.kind = WHEN_V_DTYPE, .i = m->dtype};
	case WHEN_DEVICE:
		return (struct when_value){.kind = WHEN_V_DEVICE,
					   .device = {m->device_type, m->device_index}};
	case WHEN_LAYOUT:
		return (struct when_value){.kind = WHEN_V_LAYOUT, .i = m->layout};
	case WHEN_REQUIRES_GRAD:
		return when_int(m->requires_grad);
	default:
		return when_int(is_contiguous(m));
	}
}

struct when_value when_attribute_eval(struct when_value v, enum when_attribute attribute)
{
	if (when_is_special(v))
		return v;
	if (v.kind == WHEN_V_TENSOR)
		return tensor_attribute(v.tensor, attribute);
	if (v.kind != WHEN_V_DEVICE)
		return when_none(WHEN_V_ABSENT);
	const char *type = names_device_type(v.device.type);
	if (attribute == WHEN_TYPE)
		return type ? string_value(type) : when_none(WHEN_V_UNKNOWN);
	if (attribute != WHEN_INDEX)
		return when_none(WHEN_V_ABSENT);
	return v.device.index < 0 ? when_none(WHEN_V_NONE) : when_int(v.device.index);
}
