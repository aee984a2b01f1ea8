#include "replay/replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/event/names.h"
#include "symbolizer/ops/schema.h"

enum { DEVICE_TYPES = 64 };

static const char *text_in(json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

/* "cuda:1" */
static int device(const char *text, int8_t *type, int8_t *index)
{
	size_t n = text ? strcspn(text, ":") : 0;
	for (int i = 0; n && i < DEVICE_TYPES; i++) {
		const char *name = names_device_type(i);
		if (!name || strlen(name) != n || memcmp(name, text, n) != 0)
			continue;
		*type = (int8_t)i;
		*index = text[n] ? (int8_t)atoi(text + n + 1) : -1;
		return 0;
	}
	return -EPROTO;
}

static int64_t *numbers(json_t *list, struct arena *a)
{
	int64_t *out = arena_alloc(a, (json_array_size(list) + 1) * sizeof(*out));
	for (size_t i = 0; out && i < json_array_size(list); i++)
		out[i] = json_integer_value(json_array_get(list, i));
	return out;
}

static void fill_shape(struct tensor_meta *m, json_t *o, struct arena *a)
{
	m->shape = numbers(json_object_get(o, "shape"), a);
	m->numel = 1;
	for (unsigned i = 0; m->shape && i < m->ndim; i++)
		if (__builtin_mul_overflow(m->numel, m->shape[i], &m->numel))
			m->unknown |= TENSOR_NO_SHAPE;
	if (m->unknown & TENSOR_NO_SHAPE)
		m->numel = 0;
	if (json_array_size(json_object_get(o, "stride")) == m->ndim)
		m->stride = numbers(json_object_get(o, "stride"), a);
	else
		m->unknown |= TENSOR_NO_STRIDE;
}

static void fill_codes(struct tensor_meta *m, json_t *o)
{
	const char *dtype = text_in(o, "dtype"), *layout = text_in(o, "layout");
	int code = dtype ? names_dtype_code(dtype) : -1;
	if (code < 0)
		m->unknown |= TENSOR_NO_DTYPE;
	m->dtype = code < 0 ? 0 : (uint16_t)code;
	code = layout ? names_layout_code(layout) : -1;
	if (code < 0)
		m->unknown |= TENSOR_NO_LAYOUT;
	m->layout = code < 0 ? 0 : (int8_t)code;
	if (device(text_in(o, "device"), &m->device_type, &m->device_index))
		m->unknown |= TENSOR_NO_DEVICE;
	m->requires_grad = json_is_true(json_object_get(o, "requires_grad"));
}

static int tensor(json_t *o, struct arena *a, struct value *out)
{
	size_t ndim = json_array_size(json_object_get(o, "shape"));
	json_t *offset = json_object_get(o, "offset"), *piece = json_object_get(o, "piece");
	struct tensor *t = arena_alloc(a, sizeof(*t));
	if (!t)
		return -ENOMEM;
	if (ndim > TENSOR_MAX_DIM)
		return -EPROTO;
	t->meta.ndim = (uint8_t)ndim;
	t->meta.unknown = TENSOR_NO_DATA_PTR | (offset ? 0 : TENSOR_NO_OFFSET);
	t->storage_offset = json_integer_value(offset);
	if (piece) {
		t->meta.unknown &= (uint8_t)~TENSOR_NO_DATA_PTR;
		t->data_ptr = t->storage = described_piece(json_integer_value(piece));
	}
	fill_codes(&t->meta, o);
	fill_shape(&t->meta, o, a);
	*out = (struct value){.kind = VALUE_TENSOR, .tensor = t};
	return t->meta.shape ? 0 : -ENOMEM;
}

static int coded(struct value *out, enum value_kind kind, int code)
{
	*out = (struct value){.kind = (uint8_t)kind, .i = code};
	return code < 0 ? -EPROTO : 0;
}

static double number(json_t *text)
{
	const char *s = json_string_value(text);
	return s ? strtod(s, NULL) : 0;
}

static int object(json_t *o, struct arena *a, struct value *out)
{
	const char *s;
	json_t *x = json_object_get(o, "tensor");
	if (x)
		return tensor(x, a, out);
	if ((x = json_object_get(o, "float"))) {
		*out = (struct value){.kind = VALUE_FLOAT, .f = number(x)};
		return 0;
	}
	if ((x = json_object_get(o, "complex"))) {
		*out = (struct value){
		    .kind = VALUE_COMPLEX,
		    .c = {number(json_array_get(x, 0)), number(json_array_get(x, 1))}};
		return 0;
	}
	if ((s = text_in(o, "dtype")))
		return coded(out, VALUE_DTYPE, names_dtype_code(s));
	if ((s = text_in(o, "layout")))
		return coded(out, VALUE_LAYOUT, names_layout_code(s));
	if ((s = text_in(o, "memory_format")))
		return coded(out, VALUE_MEMORY_FORMAT, names_memory_format_code(s));
	if ((s = text_in(o, "device"))) {
		*out = (struct value){.kind = VALUE_DEVICE};
		return device(s, &out->device.type, &out->device.index);
	}
	*out = (struct value){.kind = VALUE_NOT_DECODED, .str = "a Python object"};
	return 0;
}

static int value(json_t *x, struct arena *a, unsigned depth, struct value *out);

static int list(json_t *x, struct arena *a, unsigned depth, struct value *out)
{
	size_t n = json_array_size(x);
	struct value *items = arena_alloc(a, (n + 1) * sizeof(*items));
	int r = items ? 0 : -ENOMEM;
	if (depth >= VALUE_DEPTH_MAX) {
		*out = (struct value){.kind = VALUE_NOT_DECODED, .str = "too deep a list"};
		return r;
	}
	for (size_t i = 0; i < n && !r; i++)
		r = value(json_array_get(x, i), a, depth + 1, &items[i]);
	*out = (struct value){.kind = VALUE_LIST, .count = (uint32_t)n, .items = items};
	return r;
}

static int value(json_t *x, struct arena *a, unsigned depth, struct value *out)
{
	if (json_is_array(x))
		return list(x, a, depth, out);
	if (json_is_object(x))
		return object(x, a, out);
	*out = (struct value){.kind = VALUE_NONE};
	if (json_is_boolean(x))
		*out = (struct value){.kind = VALUE_BOOL, .i = json_is_true(x)};
	if (json_is_integer(x))
		*out = (struct value){.kind = VALUE_INT, .i = json_integer_value(x)};
	if (!json_is_string(x))
		return 0;
	size_t n = json_string_length(x);
	*out = (struct value){.kind = VALUE_STRING,
			      .count = (uint32_t)n,
			      .str = arena_strndup(a, json_string_value(x), n)};
	return out->str ? 0 : -ENOMEM;
}

int described_values(json_t *list_of_values, struct arena *a, struct value **out, size_t *n)
{
	*n = json_array_size(list_of_values);
	*out = arena_alloc(a, (*n + 1) * sizeof(**out));
	int r = *out ? 0 : -ENOMEM;
	for (size_t i = 0; i < *n && !r; i++)
		r = value(json_array_get(list_of_values, i), a, 0, &(*out)[i]);
	return r;
}

/* Schemas write defaults of dtypes, layouts and memory formats as numbers. */
static void as_type(const struct schema_arg *arg, struct value *v)
{
	if (v->kind != VALUE_INT || arg->is_list)
		return;
	if (arg->base == SCHEMA_DTYPE)
		v->kind = VALUE_DTYPE;
	else if (arg->base == SCHEMA_LAYOUT)
		v->kind = VALUE_LAYOUT;
	else if (arg->base == SCHEMA_MEMORY_FORMAT)
		v->kind = VALUE_MEMORY_FORMAT;
}

static int by_schema(const char *text, struct arena *a, struct op_desc *op, struct value *args,
		     size_t nargs)
{
	struct schema s;
	int r = schema_parse(text, strlen(text), "aten", a, &s);
	if (!r && s.nargs != nargs)
		r = -EINVAL;
	if (r)
		return r == -ENOMEM ? r : -EPROTO;
	for (size_t i = 0; i < nargs; i++)
		as_type(&s.args[i], &args[i]);
	return schema_to_desc(&s, a, op);
}

static int by_names(json_t *m, struct arena *a, struct op_desc *op, size_t nargs)
{
	json_t *names = json_object_get(m, "names");
	const char *name = text_in(m, "name");
	struct op_arg *args = arena_alloc(a, (nargs + 1) * sizeof(*args));
	if (!name || json_array_size(names) != nargs)
		return -EPROTO;
	for (size_t i = 0; args && i < nargs; i++) {
		const char *s = json_string_value(json_array_get(names, i));
		args[i] = (struct op_arg){arena_strndup(a, s ? s : "", s ? strlen(s) : 0), ""};
	}
	*op = (struct op_desc){.kind = OP_DISPATCHED,
			       .name = arena_strndup(a, name, strlen(name)),
			       .schema = "",
			       .nargs = (uint16_t)nargs,
			       .args = args};
	return args && op->name ? 0 : -ENOMEM;
}

static const struct py_stack *stack(const struct capture_place *p, struct arena *a)
{
	struct py_stack *s = arena_alloc(a, sizeof(*s) + sizeof(s->frames[0]));
	struct py_frame *f = arena_alloc(a, sizeof(*f));
	if (!s || !f)
		return NULL;
	*f = (struct py_frame){.file = p->file,
			       .function = p->function ? p->function : "",
			       .line = (int32_t)p->line,
			       .column = -1,
			       .end_column = -1};
	s->depth = 1;
	s->frames[0] = f;
	return s;
}

int described_event(json_t *message, const struct capture_place *p, struct arena *a,
		    struct op_event *out)
{
	json_t *list_of_args = json_object_get(message, "args");
	const char *schema = text_in(message, "schema");
	size_t nargs = 0;
	struct value *args = NULL;
	struct op_desc *op = arena_alloc(a, sizeof(*op));
	int r = op ? described_values(list_of_args, a, &args, &nargs) : -ENOMEM;
	if (!r && (!json_is_array(list_of_args) || nargs > UINT16_MAX))
		r = -EPROTO;
	if (!r)
		r = schema ? by_schema(schema, a, op, args, nargs)
			   : by_names(message, a, op, nargs);
	*out = (struct op_event){.id = p->id > 0 ? (uint64_t)p->id : 0,
				 .pid = (int32_t)p->pid,
				 .op = op,
				 .args = args,
				 .nargs = (uint16_t)nargs};
	if (!r && p->file) {
		out->where_stack = out->stack = stack(p, a);
		r = out->stack ? 0 : -ENOMEM;
	}
	return r;
}
