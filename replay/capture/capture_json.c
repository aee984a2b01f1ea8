#include "replay/capture/capture_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "symbolizer/event/names.h"
#include "symbolizer/event/value_text.h"

static json_t *named(const char *prefix, const char *name)
{
	return name ? json_sprintf("%s%s", prefix, name) : NULL;
}

/* A member that is not known, NULL, is left out. */
static void set(json_t *o, const char *key, json_t *value)
{
	if (value)
		json_object_set_new(o, key, value);
}

static json_t *strides(const struct tensor_meta *m)
{
	json_t *list = json_array();
	for (unsigned i = 0; i < m->ndim; i++)
		json_array_append_new(list, json_integer(m->stride[i]));
	return list;
}

static json_t *tensor(const struct tensor *t, bool addresses)
{
	const struct tensor_meta *m = &t->meta;
	char text[TENSOR_MAX_DIM * 22 + 8];
	json_t *o = json_object();

	if (!(m->unknown & TENSOR_NO_DEVICE))
		set(o, "device",
		    json_string(names_device(text, sizeof(text), m->device_type, m->device_index)));
	if (!(m->unknown & TENSOR_NO_DTYPE))
		set(o, "dtype", named("", names_dtype(m->dtype)));
	if (!(m->unknown & TENSOR_NO_SHAPE)) {
		set(o, "numel", json_integer(m->numel));
		set(o, "shape", json_string(value_dims(text, sizeof(text), m->shape, m->ndim)));
	}
	if (!(m->unknown & TENSOR_NO_STRIDE))
		set(o, "stride", strides(m));
	if (!(m->unknown & TENSOR_NO_REQUIRES_GRAD))
		set(o, "requires_grad", json_boolean(m->requires_grad));
	if (!(m->unknown & TENSOR_NO_LAYOUT))
		set(o, "layout", named("torch.", names_layout(m->layout)));
	if (addresses && !(m->unknown & TENSOR_NO_DATA_PTR))
		set(o, "data_ptr", json_integer((json_int_t)t->data_ptr));
	return o;
}

static json_t *value(const struct value *v, bool addresses);

static json_t *values(const struct value *v, unsigned n, bool addresses)
{
	json_t *list = json_array();
	for (unsigned i = 0; i < n; i++)
		json_array_append_new(list, value(&v[i], addresses));
	return list;
}

static json_t *value(const struct value *v, bool addresses)
{
	char text[512];
	if (v->kind == VALUE_TENSOR)
		return tensor(v->tensor, addresses);
	if (v->kind == VALUE_LIST)
		return values(v->items, v->count, addresses);
	if (v->kind == VALUE_STRING)
		return json_stringn(v->str, v->count);
	return json_string(value_text(text, sizeof(text), v));
}

static void add_place(json_t *o, const struct py_frame *where)
{
	if (!where)
		return;
	json_object_set_new(o, "file", json_string(where->file));
	json_object_set_new(o, "function", json_string(where->function));
	if (where->line)
		json_object_set_new(o, "line", json_integer(where->line));
}

static void add_text(json_t *o, const char *key, const char *text)
{
	if (text && *text)
		set(o, key, json_string(text));
}

char *capture_json(const struct pth_content *c, const struct capture_about *about)
{
	bool addresses = !about->no_addresses;
	json_t *o = json_object(), *args = values(c->args, c->nargs, addresses);

	if (c->args_in_one) {
		json_t *one = json_array();
		json_array_append_new(one, args);
		args = one;
	}
	json_object_set_new(o, "args", args);
	if (c->nkwargs) {
		json_t *kwargs = json_object();
		for (unsigned i = 0; i < c->nkwargs; i++)
			json_object_set_new(kwargs, c->kwargs[i].name,
					    value(c->kwargs[i].value, addresses));
		json_object_set_new(o, "kwargs", kwargs);
	}
	if (c->of) {
		json_t *of = json_array();
		for (unsigned i = 0; i < c->nargs; i++)
			json_array_append_new(of, json_string(c->of[i]));
		json_object_set_new(o, "of", of);
	}
	json_object_set_new(o, "op", json_string(c->name));
	add_place(o, about->where);
	add_text(o, "node", about->node);
	add_text(o, "python", about->python);
	add_text(o, "python_changed", about->changed);
	char *text = json_dumps(o, JSON_INDENT(4) | JSON_ENSURE_ASCII);
	json_decref(o);
	return text;
}
