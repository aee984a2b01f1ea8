#include "tracer/intervene/intervene_facts.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/event/names.h"

/* "cuda:1": type and index. */
static int read_device(const char *text, int8_t *type, int8_t *index)
{
	const char *colon = text ? strchr(text, ':') : NULL;
	size_t len = colon ? (size_t)(colon - text) : text ? strlen(text) : 0;
	*index = colon ? (int8_t)atoi(colon + 1) : -1;
	for (int code = 0; len && code < INT8_MAX; code++) {
		const char *name = names_device_type(code);
		if (name && strlen(name) == len && !strncmp(name, text, len)) {
			*type = (int8_t)code;
			return 0;
		}
	}
	return -EPROTO;
}

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static int64_t *read_numbers(const json_t *list, struct arena *a)
{
	size_t n = json_array_size(list);
	int64_t *out = arena_alloc(a, (n + 1) * sizeof(*out));
	for (size_t i = 0; out && i < n; i++)
		out[i] = json_integer_value(json_array_get(list, i));
	return out;
}

static int read_tensor(const json_t *o, struct arena *a, struct value *out)
{
	struct tensor *t = arena_alloc(a, sizeof(*t));
	const json_t *shape = json_object_get(o, "shape"), *stride = json_object_get(o, "stride");
	int64_t *sizes = read_numbers(shape, a), *strides = read_numbers(stride, a);
	const char *dtype = text_of(o, "dtype"), *layout = text_of(o, "layout");
	size_t n = json_array_size(shape);
	if (!t || !sizes || !strides)
		return -ENOMEM;
	int type = dtype ? names_dtype_code(dtype) : -1;
	int order = layout ? names_layout_code(layout) : -1;
	if (n > TENSOR_MAX_DIM || type < 0 || order < 0 ||
	    read_device(text_of(o, "device"), &t->meta.device_type, &t->meta.device_index))
		return -EPROTO;
	t->meta.dtype = (uint16_t)type;
	t->meta.layout = (int8_t)order;
	t->meta.requires_grad = json_is_true(json_object_get(o, "requires_grad"));
	t->meta.ndim = (uint8_t)n;
	t->meta.unknown = TENSOR_NO_DATA_PTR;
	if (json_array_size(stride) != n)
		t->meta.unknown |= TENSOR_NO_STRIDE;
	t->meta.shape = sizes;
	t->meta.stride = strides;
	t->meta.numel = 1;
	for (size_t i = 0; i < n; i++)
		t->meta.numel *= sizes[i];
	t->storage_offset = json_integer_value(json_object_get(o, "offset"));
	*out = (struct value){.kind = VALUE_TENSOR, .tensor = t};
	return 0;
}

static int read_code(enum value_kind kind, int code, struct value *out)
{
	*out = (struct value){.kind = (uint8_t)kind, .i = code};
	return code < 0 ? -EPROTO : 0;
}

static int read_object(const json_t *o, struct arena *a, struct value *out)
{
	const json_t *tensor = json_object_get(o, "tensor");
	const char *text = text_of(o, "text"), *s;
	if (tensor)
		return read_tensor(tensor, a, out);
	if (text) {
		*out = (struct value){
		    .kind = VALUE_STRING, .count = (uint32_t)strlen(text), .str = text};
		return 0;
	}
	if ((s = text_of(o, "dtype")))
		return read_code(VALUE_DTYPE, names_dtype_code(s), out);
	if ((s = text_of(o, "layout")))
		return read_code(VALUE_LAYOUT, names_layout_code(s), out);
	if ((s = text_of(o, "format")))
		return read_code(VALUE_MEMORY_FORMAT, names_memory_format_code(s), out);
	*out = (struct value){.kind = VALUE_DEVICE};
	s = text_of(o, "device");
	if (s && !read_device(s, &out->device.type, &out->device.index))
		return 0;
	*out = (struct value){.kind = VALUE_NOT_DECODED, .str = "not known to ditrace"};
	return 0;
}

static int read_value(const json_t *o, struct arena *a, unsigned depth, struct value *out);

static int read_list(const json_t *list, struct arena *a, unsigned depth, struct value *out)
{
	size_t n = json_array_size(list);
	struct value *items = arena_alloc(a, (n + 1) * sizeof(*items));
	if (!items || depth > VALUE_DEPTH_MAX)
		return items ? -EPROTO : -ENOMEM;
	*out = (struct value){.kind = VALUE_LIST, .count = (uint32_t)n, .items = items};
	int r = 0;
	for (size_t i = 0; i < n && !r; i++)
		r = read_value(json_array_get(list, i), a, depth + 1, &items[i]);
	return r;
}

static int read_value(const json_t *o, struct arena *a, unsigned depth, struct value *out)
{
	switch (json_typeof(o)) {
	case JSON_NULL:
		*out = (struct value){.kind = VALUE_NONE};
		return 0;
	case JSON_TRUE:
	case JSON_FALSE:
		*out = (struct value){.kind = VALUE_BOOL, .i = json_is_true(o)};
		return 0;
	case JSON_INTEGER:
		*out = (struct value){.kind = VALUE_INT, .i = json_integer_value(o)};
		return 0;
	case JSON_REAL:
		*out = (struct value){.kind = VALUE_FLOAT, .f = json_real_value(o)};
		return 0;
	case JSON_ARRAY:
		return read_list(o, a, depth, out);
	case JSON_OBJECT:
		return read_object(o, a, out);
	default:
		return -EPROTO;
	}
}

int intervene_facts(const char *name, const json_t *args, struct arena *a, struct op_event *out)
{
	size_t n = json_array_size(args);
	struct op_desc *op = arena_alloc(a, sizeof(*op));
	struct op_arg *names = arena_alloc(a, (n + 1) * sizeof(*names));
	struct value *values = arena_alloc(a, (n + 1) * sizeof(*values));
	if (!op || !names || !values)
		return -ENOMEM;
	if (n > UINT16_MAX)
		return -EPROTO;
	for (size_t i = 0; i < n; i++) {
		const json_t *pair = json_array_get(args, i), *value = json_array_get(pair, 1);
		const char *arg = json_string_value(json_array_get(pair, 0));
		int r = arg && value ? read_value(value, a, 0, &values[i]) : -EPROTO;
		if (r)
			return r;
		names[i] = (struct op_arg){arg, values[i].kind == VALUE_TENSOR ? "Tensor" : ""};
	}
	*op = (struct op_desc){
	    .kind = OP_DISPATCHED, .nargs = (uint16_t)n, .name = name, .schema = "", .args = names};
	*out = (struct op_event){.id = 1, .op = op, .args = values, .nargs = (uint16_t)n};
	return 0;
}
