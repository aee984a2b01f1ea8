#define _GNU_SOURCE
#include "tracer/shim/extension/modes.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static struct {
	object *features, *unchanged, *raised, *check_condition, *why_unfit, *why_failed, *line_of;
	object *strided, *tensor, *parameter, *tracing_state, *is_wrapped, *is_capturing,
	    *torch_names;
	/* Names of attributes. */
	object *a_layout, *a_quantized, *a_meta, *a_cpu, *a_device, *a_type, *a_features, *a_name,
	    *a_when, *a_code, *a_back, *a_lasti, *a_error;
} own;

bool modes_change_ready(void)
{
	const struct modes_wanted
	    names[] = {{&own.features, "plan.FEATURES"},
		       {&own.unchanged, "calls.Unchanged"},
		       {&own.raised, "calls.Raised"},
		       {&own.check_condition, "plan.check_condition"},
		       {&own.why_unfit, "calls.why_unfit"},
		       {&own.why_failed, "calls.why_failed"},
		       {&own.line_of, "values.line_of"},
		       {&own.strided, "names.STRIDED"},
		       {&own.tensor, "names.TENSOR"},
		       {&own.parameter, "names.PARAMETER"},
		       {&own.tracing_state, "names.TRACING_STATE"},
		       {&own.is_wrapped, "names.IS_WRAPPED"},
		       {&own.is_capturing, "calls.is_capturing"},
		       {&own.torch_names, "names.TORCH_NAMES"}},
	    attributes[] = {{&own.a_layout, "layout"},	   {&own.a_quantized, "is_quantized"},
			    {&own.a_meta, "is_meta"},	   {&own.a_cpu, "is_cpu"},
			    {&own.a_device, "device"},	   {&own.a_type, "type"},
			    {&own.a_features, "features"}, {&own.a_name, "name"},
			    {&own.a_when, "when"},	   {&own.a_code, "f_code"},
			    {&own.a_back, "f_back"},	   {&own.a_lasti, "f_lasti"},
			    {&own.a_error, "error"}};
	return modes_names(names, sizeof(names) / sizeof(names[0])) &&
	       modes_texts(attributes, sizeof(attributes) / sizeof(attributes[0]));
}

object *modes_unchanged(const char *reason)
{
	py.PyErr_SetString(own.unchanged, reason);
	return NULL;
}

void modes_raised(void)
{
	object *error[3];
	py.PyErr_Fetch(&error[0], &error[1], &error[2]);
	py.PyErr_NormalizeException(&error[0], &error[1], &error[2]);
	if (error[2])
		py.PyException_SetTraceback(error[1], error[2]);
	object *raised = py.PyObject_CallFunctionObjArgs(own.raised, error[1], PY_END);
	if (raised)
		py.PyErr_SetObject(own.raised, raised);
	python_drop(raised);
	for (int i = 0; i < 3; i++)
		python_drop(error[i]);
}

/* --- where a call comes from */

enum { PLACES = 1024 };

/* A direct-mapped cache by (code, instruction). `at`: NULL for code that is not the program's. Owns
 * its references. */
static struct {
	object *code, *at;
	long lasti;
} places[PLACES];

static size_t place_slot(object *code, long lasti)
{
	uint64_t x = ((uint64_t)(uintptr_t)code >> 4) + (uint64_t)lasti * 0x9e3779b97f4a7c15;
	return (x * 0xbf58476d1ce4e5b9) >> 54;
}

/* line_of(frame) of modes/: (file, line, function), or None for code that is not the program's. */
static object *look_at(object *frame)
{
	return py.PyObject_CallFunctionObjArgs(own.line_of, frame, PY_END);
}

static void place_keep(size_t slot, object *code, long lasti, object *at)
{
	object *old[] = {places[slot].code, places[slot].at};
	places[slot].code = python_kept(code);
	places[slot].at = at ? python_kept(at) : NULL;
	places[slot].lasti = lasti;
	python_drop(old[0]);
	python_drop(old[1]);
}

/* Whether this frame is the program's: *at, a new reference. Code that is not is cached under
 * instruction -1. False with an error: not known. */
static bool is_place(object *frame, object *code, object **at)
{
	size_t slot = place_slot(code, -1);
	if (places[slot].code == code && places[slot].lasti == -1)
		return false;
	object *number = py.PyObject_GetAttr(frame, own.a_lasti);
	long lasti = number ? py.PyLong_AsLong(number) : 0;
	python_drop(number);
	size_t here = place_slot(code, lasti);
	if (number && places[here].code == code && places[here].lasti == lasti) {
		*at = python_kept(places[here].at);
		return true;
	}
	object *found = number ? look_at(frame) : NULL;
	if (!found)
		return false;
	bool is_own = found != py._Py_NoneStruct;
	place_keep(is_own ? here : slot, code, is_own ? lasti : -1, is_own ? found : NULL);
	if (is_own)
		*at = found;
	else
		python_drop(found);
	return is_own;
}

/* The place of the call, a new reference; None where no frame is the program's; NULL with an error.
 */
static object *place(void)
{
	object *frame = py.PyEval_GetFrame(), *at = NULL;
	frame = frame ? python_kept(frame) : python_none();
	while (frame != py._Py_NoneStruct) {
		object *code = py.PyObject_GetAttr(frame, own.a_code);
		bool found = code && is_place(frame, code, &at);
		python_drop(code);
		object *back =
		    found || py.PyErr_Occurred() ? NULL : py.PyObject_GetAttr(frame, own.a_back);
		python_drop(frame);
		if (!back)
			return at;
		frame = back;
	}
	return frame;
}

object *modes_place(object *self, object *args)
{
	(void)self, (void)args;
	return place();
}

/* --- which calls may be changed */

static bool is_plain(object *t)
{
	object *type = python_type(t), *no = py._Py_FalseStruct;
	if ((type != own.tensor && type != own.parameter) ||
	    !python_has(t, own.a_layout, own.strided) || !python_has(t, own.a_quantized, no) ||
	    !python_has(t, own.a_meta, no) || numbers_lack_memory(t))
		return false;
	if (own.is_wrapped == py._Py_NoneStruct)
		return true;
	object *wrapped = py.PyObject_CallFunctionObjArgs(own.is_wrapped, t, PY_END);
	python_drop(wrapped);
	return wrapped == no;
}

static bool says(object *function, object *wanted)
{
	object *r = py.PyObject_CallObject(function, NULL);
	python_drop(r);
	return r == wanted;
}

/* The device type of a tensor, borrowed and cached: PyTorch makes a new string each time. */
static object *device_type(object *tensor)
{
	static object *known, *type; /* of the device met last */
	object *device = py.PyObject_GetAttr(tensor, own.a_device);
	if (device && (!known || py.PyObject_RichCompareBool(device, known, PY_EQUAL) != 1)) {
		python_drop(type);
		type = py.PyObject_GetAttr(device, own.a_type);
		python_drop(known);
		known = type ? python_kept(device) : NULL;
	}
	python_drop(device);
	return device ? type : NULL;
}

/* Whether a graph is being captured on the device (torch.cuda.graph), or that is not known. A call
 * has tensors of one device, and perhaps of the CPU. A device without a torch module, such as
 * torch.cuda, captures none. */
static bool is_captured(const struct tensors *t)
{
	size_t i = 0;
	while (i < t->n && python_has(t->list[i], own.a_cpu, py._Py_TrueStruct))
		i++;
	if (i == t->n)
		return false;
	object *type = device_type(t->list[i]);
	if (type && !py.PyDict_GetItemWithError(own.torch_names, type))
		return py.PyErr_Occurred();
	object *r = type ? py.PyObject_CallFunctionObjArgs(own.is_capturing, type, PY_END) : NULL;
	python_drop(r);
	return r != py._Py_FalseStruct;
}

/* Certainly fit; if not, why_unfit() of modes/ decides. */
static bool is_fit(object *args, object *kwargs)
{
	struct tensors t = {0};
	bool fit = says(own.tracing_state, py._Py_NoneStruct) && nest_tensors(args, &t) &&
		   nest_tensors(kwargs, &t) && !is_captured(&t);
	for (size_t i = 0; i < t.n && fit; i++)
		fit = is_plain(t.list[i]);
	tensors_drop(&t);
	python_forget();
	return fit;
}

/* Why the call may not be changed, a new reference to a string; or NULL, with *at where it comes
 * from. */
static object *reason_of(object *args, object *kwargs, object **at)
{
	object *why = NULL;
	bool was = modes_work_begins();
	if (!is_fit(args, kwargs))
		why = py.PyObject_CallFunctionObjArgs(own.why_unfit, args, kwargs, PY_END);
	if (why == py._Py_NoneStruct) {
		python_drop(why);
		why = NULL;
	}
	*at = py.PyErr_Occurred() || why ? NULL : place();
	if (!why && !*at) {
		python_forget();
		why = py.PyUnicode_FromString("cannot be looked at");
	}
	modes_work_ends(was);
	return why;
}

/* --- the features of a call */

void modes_tally(object *feature, object *plan, object *reason)
{
	object *type, *value, *traceback;
	py.PyErr_Fetch(&type, &value, &traceback);
	object *name = py.PyObject_GetAttr(plan, own.a_name);
	object *key = name ? py.PyTuple_Pack(3, feature, name, reason) : NULL;
	bool was = modes_work_begins();
	object *r = key ? modes_count(NULL, key) : NULL;
	modes_work_ends(was);
	if (!r)
		python_forget();
	python_drop(r);
	python_drop(key);
	python_drop(name);
	py.PyErr_Restore(type, value, traceback);
}

/* Make a call that all features up to `last` leave alone. */
static object *left_alone(object *plan, object *features, ssize_t last, object *call, object *args,
			  object *kwargs, object *reason)
{
	object *r = py.PyObject_Call(call, args, kwargs);
	for (ssize_t i = 0; r && i <= last; i++)
		modes_tally(py.PyList_GetItem(features, i), plan, reason);
	return r;
}

struct call {
	object *plan, *features, *func, *at; /* borrowed */
};

static uint64_t calls;		 /* so far, on all threads; protected by the GIL */
static __thread uint64_t number; /* of the call that this thread is changing */

object *modes_call_number(object *self, object *unused)
{
	(void)self, (void)unused;
	return py.PyLong_FromLong((long)number);
}

static object *run(const struct call *c, ssize_t i, object *args, object *kwargs);

/* The features below one, as a function that it calls: self is (plan, features, func, at, which).
 */
static object *inner(object *self, object *args, object *kwargs)
{
	struct call c = {py.PyTuple_GetItem(self, 0), py.PyTuple_GetItem(self, 1),
			 py.PyTuple_GetItem(self, 2), py.PyTuple_GetItem(self, 3)};
	object *none = kwargs ? NULL : py.PyDict_New();
	object *r = kwargs || none ? run(&c, py.PyLong_AsLong(py.PyTuple_GetItem(self, 4)), args,
					 kwargs ? kwargs : none)
				   : NULL;
	python_drop(none);
	return r;
}

static object *function_of(const struct call *c, ssize_t i)
{
	static struct method method = {"call", NULL, METH_VARARGS | METH_KEYWORDS, NULL};
	method_with_keywords *f = inner;
	if (i < 0)
		return python_kept(c->func);
	memcpy(&method.call, &f, sizeof(f));
	object *which = py.PyLong_FromLong(i);
	object *self =
	    which ? py.PyTuple_Pack(5, c->plan, c->features, c->func, c->at, which) : NULL;
	object *made = self ? py.PyCFunction_NewEx(&method, self, NULL) : NULL;
	python_drop(self);
	python_drop(which);
	return made;
}

/* False with an error: its condition does not hold. */
static bool does_hold(const struct call *c, object *feature, object *args, object *kwargs)
{
	object *when = py.PyObject_GetAttr(c->plan, own.a_when);
	bool good = when && !py.PyObject_IsTrue(when);
	if (when && !good) {
		object *r = py.PyObject_CallFunctionObjArgs(own.check_condition, feature, c->plan,
							    args, kwargs, PY_END);
		good = r;
		python_drop(r);
	}
	python_drop(when);
	return good;
}

/* Why a feature failed, a new reference to a string. NULL: the error is the program's own, and set.
 */
static object *taken_for(object *type, object *value, object *traceback)
{
	py.PyErr_NormalizeException(&type, &value, &traceback);
	object *why = NULL, *error;
	if (py.PyErr_GivenExceptionMatches(type, own.unchanged)) {
		why = py.PyObject_Str(value);
	} else if (py.PyErr_GivenExceptionMatches(type, own.raised)) {
		error = py.PyObject_GetAttr(value, own.a_error);
		if (error)
			py.PyErr_SetObject(python_type(error), error);
		python_drop(error);
	} else if (!py.PyErr_GivenExceptionMatches(type, *(object **)py.PyExc_Exception)) {
		py.PyErr_Restore(type, value, traceback);
		return NULL;
	} else {
		why = py.PyObject_CallFunctionObjArgs(own.why_failed, value, PY_END);
		if (why == py._Py_NoneStruct) {
			python_drop(why);
			py.PyErr_Restore(type, value, traceback);
			return NULL;
		}
	}
	python_drop(type);
	python_drop(value);
	python_drop(traceback);
	return why;
}

static object *run(const struct call *c, ssize_t i, object *args, object *kwargs)
{
	object *feature = py.PyList_GetItem(c->features, i), *type, *value, *traceback;
	object *f = feature ? py.PyDict_GetItemWithError(own.features, feature) : NULL;
	object *call = f ? function_of(c, i - 1) : NULL, *r = NULL;
	if (!call)
		return NULL;
	bool was = modes_work_begins();
	if (does_hold(c, feature, args, kwargs))
		r = py.PyObject_CallFunctionObjArgs(f, c->plan, call, args, kwargs, c->at, PY_END);
	modes_work_ends(was);
	if (!r) {
		py.PyErr_Fetch(&type, &value, &traceback);
		object *why = taken_for(type, value, traceback);
		if (why) {
			r = py.PyObject_Call(call, args, kwargs);
			if (r)
				modes_tally(feature, c->plan, why);
			python_drop(why);
		}
	}
	python_drop(call);
	return r;
}

object *modes_change(object *plan, object *func, object *args, object *kwargs)
{
	object *at = NULL, *features = py.PyObject_GetAttr(plan, own.a_features), *r;
	ssize_t last = features ? py.PyList_Size(features) - 1 : -1;
	if (last < 0) {
		python_forget();
		python_drop(features);
		return py.PyObject_Call(func, args, kwargs);
	}
	object *reason = reason_of(args, kwargs, &at);
	struct call c = {plan, features, func, at};
	if (reason) {
		r = left_alone(plan, features, last, func, args, kwargs, reason);
	} else {
		uint64_t outer = number;
		number = ++calls;
		r = run(&c, last, args, kwargs);
		number = outer;
	}
	python_drop(reason);
	python_drop(at);
	python_drop(features);
	return r;
}

object *modes_changed(object *self, object *args)
{
	(void)self;
	return modes_change(py.PyTuple_GetItem(args, 0), py.PyTuple_GetItem(args, 1),
			    py.PyTuple_GetItem(args, 2), py.PyTuple_GetItem(args, 3));
}
