#define _GNU_SOURCE

#include <stdlib.h>

#include "tracer/shim/extension/modes.h"

static struct {
	object *tensor, *parameter, *size, *ordered_dict;
} own;

bool nest_ready(void)
{
	const struct modes_wanted names[] = {{&own.tensor, "names.TENSOR"},
					     {&own.parameter, "names.PARAMETER"},
					     {&own.size, "names.SIZE"},
					     {&own.ordered_dict, "values.ORDERED_DICT"}};
	return modes_names(names, sizeof(names) / sizeof(names[0]));
}

bool nest_is_tensor(object *o)
{
	object *type = python_type(o);
	return type == own.tensor || type == own.parameter || py.PyType_IsSubtype(type, own.tensor);
}

/* LIST_SUBCLASS, TUPLE_SUBCLASS or DICT_SUBCLASS; 0 for a leaf. */
static unsigned long kind_of(object *o)
{
	object *type = python_type(o);
	if (type == own.tensor || type == own.parameter || type == own.size)
		return 0;
	return py.PyType_GetFlags(type) & (LIST_SUBCLASS | TUPLE_SUBCLASS | DICT_SUBCLASS);
}

static ssize_t length(object *x, unsigned long kind)
{
	return kind == LIST_SUBCLASS ? py.PyList_Size(x) : py.PyTuple_Size(x);
}

static object *item(object *x, unsigned long kind, ssize_t i)
{
	return kind == LIST_SUBCLASS ? py.PyList_GetItem(x, i) : py.PyTuple_GetItem(x, i);
}

static bool each_value(object *dict, bool (*fn)(object *, void *), void *context)
{
	ssize_t at = 0;
	object *key, *value;
	while (py.PyDict_Next(dict, &at, &key, &value))
		if (!nest_each(value, fn, context))
			return false;
	return true;
}

bool nest_each(object *x, bool (*fn)(object *leaf, void *context), void *context)
{
	unsigned long kind = kind_of(x);
	if (!kind)
		return fn(x, context);
	if (kind == DICT_SUBCLASS)
		return each_value(x, fn, context);
	for (ssize_t i = 0; i < length(x, kind); i++)
		if (!nest_each(item(x, kind, i), fn, context))
			return false;
	return true;
}

static bool is_known_leaf(object *leaf)
{
	object *type = python_type(leaf);
	return nest_is_tensor(leaf) || leaf == py._Py_NoneStruct || type == py.PyFloat_Type ||
	       py.PyType_GetFlags(type) & (LONG_SUBCLASS | TEXT_SUBCLASS);
}

static bool has_known_values(object *dict)
{
	ssize_t at = 0;
	object *key, *value;
	bool good = python_type(dict) == py.PyDict_Type;
	while (good && py.PyDict_Next(dict, &at, &key, &value))
		good = nest_is_known(value);
	return good;
}

bool nest_is_known(object *x)
{
	unsigned long kind = kind_of(x);
	if (kind == DICT_SUBCLASS)
		return has_known_values(x);
	for (ssize_t i = 0; kind && i < length(x, kind); i++)
		if (!nest_is_known(item(x, kind, i)))
			return false;
	return kind || is_known_leaf(x);
}

static bool add_tensor(object *leaf, void *context)
{
	struct tensors *t = context;
	if (!nest_is_tensor(leaf))
		return true;
	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 8;
		object **list = realloc(t->list, room * sizeof(*list));
		if (!list)
			return false;
		t->list = list;
		t->room = room;
	}
	t->list[t->n++] = leaf;
	return true;
}

bool nest_tensors(object *x, struct tensors *out)
{
	return nest_each(x, add_tensor, out);
}

void tensors_drop(struct tensors *t)
{
	free(t->list);
	*t = (struct tensors){0};
}

static bool append_tensor(object *leaf, void *list)
{
	return !nest_is_tensor(leaf) || !py.PyList_Append(list, leaf);
}

object *modes_tensors_in(object *self, object *nests)
{
	object *list = py.PyList_New(0);
	(void)self;
	if (list && !nest_each(nests, append_tensor, list)) {
		python_drop(list);
		list = NULL;
	}
	return list;
}

static object *rebuilt_dict(object *x, object *(*fn)(object *, void *), void *context)
{
	ssize_t at = 0;
	object *key, *value, *items = py.PyList_New(0);
	bool good = items;
	while (good && py.PyDict_Next(x, &at, &key, &value)) {
		object *v = nest_rebuilt(value, fn, context);
		object *pair = v ? py.PyTuple_Pack(2, key, v) : NULL;
		good = pair && !py.PyList_Append(items, pair);
		python_drop(pair);
		python_drop(v);
	}
	object *made = good ? py.PyObject_CallFunctionObjArgs(python_type(x), items, PY_END) : NULL;
	python_drop(items);
	return made;
}

static object *rebuilt_tuple(object *x, unsigned long kind, object *(*fn)(object *, void *),
			     void *context)
{
	ssize_t n = length(x, kind);
	object *made = py.PyTuple_New(n);
	for (ssize_t i = 0; made && i < n; i++) {
		object *v = nest_rebuilt(item(x, kind, i), fn, context);
		if (!v || py.PyTuple_SetItem(made, i, v)) {
			python_drop(made);
			made = NULL;
		}
	}
	return made;
}

/* A named tuple takes its elements one by one, PyTorch's structseq results take one sequence. */
static object *of_type(object *type, object *elements)
{
	object *fields = py.PyObject_GetAttrString(type, "_fields");
	object *r = fields ? py.PyObject_Call(type, elements, NULL) : NULL;
	if (!fields) {
		py.PyErr_Clear();
		r = py.PyObject_CallFunctionObjArgs(type, elements, PY_END);
	}
	python_drop(fields);
	return r;
}

object *nest_rebuilt(object *x, object *(*fn)(object *leaf, void *context), void *context)
{
	unsigned long kind = kind_of(x);
	object *type = python_type(x);
	if (!kind || (kind == DICT_SUBCLASS && type != py.PyDict_Type && type != own.ordered_dict))
		return fn(x, context);
	if (kind == DICT_SUBCLASS)
		return rebuilt_dict(x, fn, context);
	object *made = rebuilt_tuple(x, kind, fn, context);
	if (!made || type == py.PyTuple_Type)
		return made;
	object *r = of_type(type, made);
	python_drop(made);
	return r;
}
