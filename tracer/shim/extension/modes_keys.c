/* What PyTorch leaves out of the dispatcher while it asks a mode of operators. */
#define _GNU_SOURCE
#include "tracer/shim/extension/modes.h"

static struct {
	object *names;	      /* a tuple of names of dispatch keys */
	object *is_excluded;  /* function of a name, or None: this PyTorch has none */
	object *set_excluded; /* (name, bool) */
} own;

bool modes_keys_ready(void)
{
	const struct modes_wanted names[] = {{&own.names, "names.KEYS"},
					     {&own.is_excluded, "names.IS_EXCLUDED"},
					     {&own.set_excluded, "names.SET_EXCLUDED"}};
	return modes_names(names, sizeof(names) / sizeof(names[0]));
}

static bool is_excluded(object *name)
{
	object *r = py.PyObject_CallFunctionObjArgs(own.is_excluded, name, PY_END);
	bool yes = r && py.PyObject_IsTrue(r) == 1;
	if (!r)
		python_forget();
	python_drop(r);
	return yes;
}

static bool set_excluded(object *name, bool to)
{
	object *value = py.PyBool_FromLong(to);
	object *r =
	    value ? py.PyObject_CallFunctionObjArgs(own.set_excluded, name, value, PY_END) : NULL;
	bool done = r != NULL;
	if (!r)
		python_forget();
	python_drop(value);
	python_drop(r);
	return done;
}

unsigned modes_keys_include(void)
{
	unsigned included = 0;
	if (!own.names || own.is_excluded == py._Py_NoneStruct)
		return 0;
	for (ssize_t i = 0; i < py.PyTuple_Size(own.names); i++) {
		object *name = py.PyTuple_GetItem(own.names, i);
		if (is_excluded(name) && set_excluded(name, false))
			included |= 1U << i;
	}
	return included;
}

void modes_keys_exclude(unsigned included)
{
	object *error[3] = {0};
	if (!included)
		return;
	py.PyErr_Fetch(&error[0], &error[1], &error[2]);
	for (ssize_t i = 0; included >> i; i++)
		if (included >> i & 1)
			set_excluded(py.PyTuple_GetItem(own.names, i), true);
	py.PyErr_Restore(error[0], error[1], error[2]);
}
