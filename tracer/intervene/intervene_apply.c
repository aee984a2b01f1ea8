#define _GNU_SOURCE

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/event/names.h"
#include "tracer/intervene/internal.h"
#include "tracer/intervene/intervene.h"

#define OPTION "--apply"

static const char *feature_of(const char *s, size_t len)
{
	static const char *const names[][2] = {
	    {"fallback", "fallback"},  {"cast_dtype", "cast"},
	    {"cast", "cast"},	       {"autocompare", "compare"},
	    {"compare", "compare"},    {"overflow_check", "overflow"},
	    {"overflow", "overflow"},  {"dump_op_args", "print"},
	    {"op_capture", "capture"}, {"capture", "capture"},
	    {"print", "print"},	       {"measure_op_time", "time"},
	    {"time", "time"}};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i][0]) == len && !strncmp(names[i][0], s, len))
			return names[i][1];
	return NULL;
}

static int wrong(const char *text, const char *why, size_t at, size_t len, struct err *e)
{
	err_set(e, -EINVAL, OPTION ": %s", why);
	err_hint(e, "write OP:FEATURE or OP:FEATURE:CONDITION, as in "
		    "'torch.add:fallback:self.dtype == float16'; features are fallback, "
		    "cast_dtype, autocompare, overflow_check, op_capture, dump_op_args and "
		    "measure_op_time");
	return err_quote(e, text, at, len);
}

/* A condition may use only what is known before the call: its arguments. */
static int read_condition(const char *text, struct when **out, struct err *e)
{
	static const char *const later[] = {
	    "op",   "overload", "phase",    "id",     "forward_id", "depth",   "pid",	  "tid",
	    "file", "line",	"function", "thrown", "elapsed",    "results", "outputs", NULL};
	int r = when_compile(OPTION, text, out, e);
	return r ? r
		 : when_refuse(*out, later, "a condition of " OPTION " has no",
			       "it is asked before the call, of its arguments: self.dtype, args[1]",
			       e);
}

/* Length of the operator's name; "::" is part of it. */
static size_t name_length(const char *text)
{
	size_t n = strcspn(text, ":");
	return n && !strncmp(text + n, "::", 2) ? n + 2 + strcspn(text + n + 2, ":") : n;
}

int intervene_apply_read(const char *text, struct intervene_apply *out, struct err *e)
{
	*out = (struct intervene_apply){0};
	size_t op = name_length(text), at = op + 1;
	if (!op || !text[op] || text[at] == ':')
		return wrong(text, "there is no feature", op, 1, e);
	size_t len = strcspn(text + at, ":");
	const char *feature = feature_of(text + at, len);
	if (!feature)
		return wrong(text, "unknown feature", at, len, e);
	char *name = strndup(text, op);
	out->feature = strdup(feature);
	int r = name && out->feature ? oplist_compile(OPTION, name, &out->ops, e) : -ENOMEM;
	free(name);
	return r || !text[at + len] ? r : read_condition(text + at + len + 1, &out->when, e);
}

void intervene_apply_free(struct intervene_apply *a)
{
	oplist_free(&a->ops);
	free(a->feature);
	when_free(a->when);
	*a = (struct intervene_apply){0};
}

bool intervene_apply_is_of(const struct intervene_apply *a, const char *feature, const char *name,
			   const char *base)
{
	return !strcmp(a->feature, feature) &&
	       (oplist_has_name(&a->ops, name) || oplist_has_name(&a->ops, base));
}

enum when_result intervene_apply_holds(const struct intervene_apply *a, const char *name,
				       const json_t *args)
{
	struct arena arena = {0};
	struct op_event ev;
	enum when_result r = WHEN_TRUE;
	if (a->when)
		r = intervene_facts(name, args, &arena, &ev)
			? WHEN_UNKNOWN
			: when_eval(a->when, &ev, WHEN_AT_EXIT);
	arena_free(&arena);
	return r;
}

/* "cuda:1" to type and index. */
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
		if (__builtin_mul_overflow(t->meta.numel, sizes[i], &t->meta.numel))
			return -EPROTO;
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
