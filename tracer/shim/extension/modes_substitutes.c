#define _GNU_SOURCE

#include <stdint.h>
#include <stdlib.h>

#include "tracer/shim/extension/modes.h"

static struct {
	object *write_back, *may_write, *why_opaque;
	object *a_written, *a_version, *a_base, *a_is_cpu, *address_of, *a_data_ptr,
	    *a_storage_offset, *a_element_size;
} own;

/* Fetch what is needed from modes/. False with Python's error set: a name is missing. */
static bool stand_ready(void)
{
	const struct modes_wanted names[] = {{&own.write_back, "arguments.write_back"},
					     {&own.may_write, "arguments.may_write"},
					     {&own.why_opaque, "values.why_opaque"},
					     {&own.address_of, "values.address_of"},
					     {&own.a_data_ptr, "names.DATA_PTR"},
					     {&own.a_storage_offset, "names.STORAGE_OFFSET"},
					     {&own.a_element_size, "names.ELEMENT_SIZE"}},
				  texts[] = {{&own.a_written, "written"},
					     {&own.a_version, "_version"},
					     {&own.a_base, "_base"},
					     {&own.a_is_cpu, "is_cpu"}};
	return modes_names(names, sizeof(names) / sizeof(names[0])) &&
	       modes_texts(texts, sizeof(texts) / sizeof(texts[0]));
}

/* STAND_UNVERSIONED for tensors made under inference_mode, which have no version. */
static long version_of(object *tensor)
{
	object *number = py.PyObject_GetAttr(tensor, own.a_version);
	long version = number ? py.PyLong_AsLong(number) : STAND_UNVERSIONED;
	python_drop(number);
	if (!number)
		python_forget();
	return version;
}

/* Steals the reference to the copy. */
static bool stand_add(struct stand *s, object *x, object *copy)
{
	if (s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 8;
		struct stand_pair *pairs = realloc(s->pairs, room * sizeof(*pairs));
		if (!pairs) {
			python_drop(copy);
			py.PyErr_SetString(*(object **)py.PyExc_RuntimeError, "no memory");
			return false;
		}
		s->pairs = pairs;
		s->room = room;
	}
	s->pairs[s->n++] = (struct stand_pair){x, copy, version_of(copy)};
	return true;
}

static object *replaced(object *leaf, void *context)
{
	struct stand *s = context;
	if (!nest_is_tensor(leaf))
		return s->other ? s->other(leaf, s->context) : python_kept(leaf);
	for (size_t i = 0; i < s->n; i++)
		if (s->pairs[i].x == leaf)
			return python_kept(s->pairs[i].copy);
	object *copy = s->made(leaf, s->context);
	if (!copy)
		return py.PyErr_Occurred() ? NULL : python_kept(leaf);
	return stand_add(s, leaf, copy) ? python_kept(copy) : NULL;
}

object *stand_for(struct stand *s, object *nest)
{
	return nest_rebuilt(nest, replaced, s);
}

object *stand_original(const struct stand *s, object *copy)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->pairs[i].copy == copy)
			return s->pairs[i].x;
	return NULL;
}

/* The number that a method of Tensor returns; 0 where it cannot be had, as on devices without
 * addresses. */
static uintptr_t asked(object *method, object *tensor)
{
	object *r = py.PyObject_CallFunctionObjArgs(method, tensor, PY_END);
	uintptr_t number = r ? (uintptr_t)py.PyLong_AsVoidPtr(r) : 0;
	python_drop(r);
	if (py.PyErr_Occurred())
		python_forget();
	return number;
}

static uintptr_t address(object *tensor)
{
	object *is_cpu = py.PyObject_GetAttr(tensor, own.a_is_cpu);
	python_drop(is_cpu);
	return asked(is_cpu == py._Py_TrueStruct ? own.a_data_ptr : own.address_of, tensor);
}

/* Whether the result is in a copy's memory. A copy has its storage to itself, from its first
 * element on. */
static bool shows(const struct stand *s, object *result)
{
	object *base = py.PyObject_GetAttr(result, own.a_base);
	bool is_view = base && stand_original(s, base);
	python_drop(base);
	uintptr_t first = is_view ? 0 : address(result);
	if (!first)
		return is_view;
	uintptr_t begin =
	    first - asked(own.a_storage_offset, result) * asked(own.a_element_size, result);
	for (size_t i = 0; i < s->n && !is_view; i++)
		is_view = address(s->pairs[i].copy) == begin;
	return is_view;
}

static bool check_leaf(object *leaf, void *context)
{
	const struct stand *s = context;
	if (nest_is_tensor(leaf)) {
		if (stand_original(s, leaf) || !shows(s, leaf))
			return true;
		modes_unchanged("gives a view");
		return false;
	}
	return true;
}

/* The result must hold no reference to a copy where it cannot be replaced. */
static bool is_transparent(object *result)
{
	object *why = nest_is_known(result)
			  ? python_none()
			  : py.PyObject_CallFunctionObjArgs(own.why_opaque, result, PY_END);
	bool good = why == py._Py_NoneStruct;
	object *text = why && !good ? py.PyUnicode_AsUTF8String(why) : NULL;
	if (text)
		modes_unchanged(py.PyBytes_AsString(text));
	python_drop(text);
	python_drop(why);
	return good;
}

bool stand_check(const struct stand *s, object *result)
{
	return is_transparent(result) && nest_each(result, check_leaf, (void *)s);
}

static bool is_in(object *list, object *x)
{
	for (ssize_t i = 0; i < py.PyList_Size(list); i++)
		if (py.PyList_GetItem(list, i) == x)
			return true;
	return false;
}

static bool append_pair(object *list, const struct stand_pair *p)
{
	object *pair = py.PyTuple_Pack(2, p->x, p->copy);
	bool good = pair && !py.PyList_Append(list, pair);
	python_drop(pair);
	return good;
}

/* Versions do not show every write, below autograd none, so the plan names written tensors, too. A
 * list of (program's tensor, copy); NULL with an error. */
static object *written(const struct stand *s, object *named)
{
	object *list = py.PyList_New(0);
	bool good = list;
	for (size_t i = 0; i < s->n && good; i++) {
		const struct stand_pair *p = &s->pairs[i];
		bool wrote = p->version != STAND_UNVERSIONED && version_of(p->copy) != p->version;
		wrote = wrote || (named != py._Py_NoneStruct && is_in(named, p->x));
		good = !wrote || append_pair(list, p);
	}
	if (!good) {
		python_drop(list);
		list = NULL;
	}
	return list;
}

static bool is_unversioned(const struct stand *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->pairs[i].version == STAND_UNVERSIONED)
			return true;
	return false;
}

bool stand_write_back(const struct stand *s, object *plan, object *args, object *kwargs)
{
	object *how = py.PyObject_GetAttr(plan, own.a_written);
	object *named = how && how != py._Py_NoneStruct
			    ? py.PyObject_CallFunctionObjArgs(how, plan, args, kwargs, PY_END)
			    : python_kept(how);
	python_drop(how);
	if (named == py._Py_NoneStruct && is_unversioned(s)) {
		object *may =
		    py.PyObject_CallFunctionObjArgs(own.may_write, plan, args, kwargs, PY_END);
		bool harmless = may == py._Py_FalseStruct;
		if (may && !harmless)
			modes_unchanged("may change an argument, under inference_mode");
		python_drop(may);
		python_drop(named);
		return harmless;
	}
	object *list = named ? written(s, named) : NULL;
	bool good = list && !py.PyList_Size(list);
	if (list && !good) {
		object *r = py.PyObject_CallFunctionObjArgs(own.write_back, list, PY_END);
		good = r;
		python_drop(r);
	}
	python_drop(list);
	python_drop(named);
	return good;
}

void stand_drop(struct stand *s)
{
	for (size_t i = 0; i < s->n; i++)
		python_drop(s->pairs[i].copy);
	free(s->pairs);
	s->pairs = NULL;
	s->n = s->room = 0;
}

static struct {
	object *to, *promoted;
	object *a_dtype, *a_is_cpu, *a_floating, *a_complex, *a_refused;
} copying;

bool modes_copies_ready(void)
{
	const struct modes_wanted names[] = {{&copying.to, "names.TO"},
					     {&copying.promoted, "cast.promoted"}},
				  texts[] = {{&copying.a_dtype, "dtype"},
					     {&copying.a_is_cpu, "is_cpu"},
					     {&copying.a_floating, "is_floating_point"},
					     {&copying.a_complex, "is_complex"},
					     {&copying.a_refused, "refused"}};
	return stand_ready() && modes_names(names, sizeof(names) / sizeof(names[0])) &&
	       modes_texts(texts, sizeof(texts) / sizeof(texts[0]));
}

bool copies_take(struct copies *c, object *args, object *feature)
{
	*c = (struct copies){.plan = py.PyTuple_GetItem(args, 0),
			     .call = py.PyTuple_GetItem(args, 1),
			     .args = py.PyTuple_GetItem(args, 2),
			     .kwargs = py.PyTuple_GetItem(args, 3),
			     .at = py.PyTuple_GetItem(args, 4)};
	object *refused = py.PyObject_GetAttr(c->plan, copying.a_refused);
	object *why = refused ? py.PyDict_GetItemWithError(refused, feature) : NULL;
	object *text = why ? py.PyUnicode_AsUTF8String(why) : NULL;
	if (text)
		modes_unchanged(py.PyBytes_AsString(text));
	python_drop(text);
	python_drop(refused);
	return !py.PyErr_Occurred() && nest_tensors(c->args, &c->tensors) &&
	       nest_tensors(c->kwargs, &c->tensors);
}

bool copies_make(struct copies *c)
{
	c->new_args = stand_for(&c->stand, c->args);
	c->new_kwargs = c->new_args ? stand_for(&c->stand, c->kwargs) : NULL;
	return c->new_kwargs;
}

bool copies_call(struct copies *c)
{
	c->result = modes_own_call(c->call, c->new_args, c->new_kwargs);
	return c->result;
}

/* Fast path: all floating-point tensors have one dtype, there is at least one, and none is complex.
 */
object *copies_promoted(const struct copies *c, bool of_new)
{
	object *args = of_new ? c->new_args : c->args, *found = NULL;
	object *kwargs = of_new ? c->new_kwargs : c->kwargs;
	struct tensors t = {0};
	bool one = nest_tensors(args, &t) && nest_tensors(kwargs, &t);
	for (size_t i = 0; i < t.n && one; i++) {
		object *d = py.PyObject_GetAttr(t.list[i], copying.a_dtype);
		bool floating = d && python_has(d, copying.a_floating, py._Py_TrueStruct);
		one = d && (floating ? !found || d == found
				     : !python_has(d, copying.a_complex, py._Py_TrueStruct));
		found = floating ? d : found;
		python_drop(d); /* torch holds a reference */
	}
	tensors_drop(&t);
	if (one && found)
		return python_kept(found);
	return py.PyErr_Occurred()
		   ? NULL
		   : py.PyObject_CallFunctionObjArgs(copying.promoted, c->plan, args, kwargs,
						     c->result, PY_END);
}

void copies_tell(const struct copies *c, object *function, object *rows, object *given)
{
	bool was = modes_work_begins();
	object *r = py.PyObject_CallFunctionObjArgs(function, c->plan, c->at, rows, given,
						    c->result, PY_END);
	modes_work_ends(was);
	if (!r)
		python_forget();
	python_drop(r);
}

void copies_forget(struct copies *c)
{
	python_drop(c->new_args);
	python_drop(c->new_kwargs);
	python_drop(c->result);
	stand_drop(&c->stand);
	c->new_args = c->new_kwargs = c->result = NULL;
}

void copies_drop(struct copies *c)
{
	copies_forget(c);
	tensors_drop(&c->tensors);
}

/* Without an explicit device PyTorch first tries to parse the dtype as one, which costs more. */
object *copies_to(object *tensor, object *dtype)
{
	return py.PyObject_CallFunctionObjArgs(copying.to, tensor, py._Py_NoneStruct, dtype,
					       PY_END);
}

bool copies_is_on_cpu(object *tensor)
{
	return python_has(tensor, copying.a_is_cpu, py._Py_TrueStruct);
}

bool copies_is_dtype(object *tensor, object *dtype)
{
	return python_has(tensor, copying.a_dtype, dtype);
}
