#define _GNU_SOURCE
#include "tracer/shim/extension/modes_args.h"

#include "tracer/shim/extension/modes.h"

static struct {
	object *to, *promoted;
	object *a_dtype, *a_is_cpu, *a_floating, *a_complex, *a_refused;
} own;

bool modes_copies_ready(void)
{
	const struct modes_wanted names[] = {{&own.to, "names.TO"},
					     {&own.promoted, "cast.promoted"}},
				  texts[] = {{&own.a_dtype, "dtype"},
					     {&own.a_is_cpu, "is_cpu"},
					     {&own.a_floating, "is_floating_point"},
					     {&own.a_complex, "is_complex"},
					     {&own.a_refused, "refused"}};
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
	object *refused = py.PyObject_GetAttr(c->plan, own.a_refused);
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
		object *d = py.PyObject_GetAttr(t.list[i], own.a_dtype);
		bool floating = d && python_has(d, own.a_floating, py._Py_TrueStruct);
		one = d && (floating ? !found || d == found
				     : !python_has(d, own.a_complex, py._Py_TrueStruct));
		found = floating ? d : found;
		python_drop(d); /* torch holds a reference */
	}
	tensors_drop(&t);
	if (one && found)
		return python_kept(found);
	return py.PyErr_Occurred() ? NULL
				   : py.PyObject_CallFunctionObjArgs(own.promoted, c->plan, args,
								     kwargs, c->result, PY_END);
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
	return py.PyObject_CallFunctionObjArgs(own.to, tensor, py._Py_NoneStruct, dtype, PY_END);
}

bool copies_is_on_cpu(object *tensor)
{
	return python_has(tensor, own.a_is_cpu, py._Py_TrueStruct);
}

bool copies_is_dtype(object *tensor, object *dtype)
{
	return python_has(tensor, own.a_dtype, dtype);
}
