#define _GNU_SOURCE
#include "tracer/shim/extension/python.h"

#include <dlfcn.h>
#include <stddef.h>

struct python py;

static const struct {
	const char *name;
	size_t at;
} needed[] = {
#define PYTHON_NAME(type, name, arguments) {#name, offsetof(struct python, name)},
#define PYTHON_NAME_OF_DATA(name) {#name, offsetof(struct python, name)},
    PYTHON_FUNCTIONS(PYTHON_NAME) PYTHON_DATA(PYTHON_NAME_OF_DATA)};

bool python_find(void)
{
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		void *found = dlsym(RTLD_DEFAULT, needed[i].name);
		if (!found)
			return false;
		*(void **)((char *)&py + needed[i].at) = found;
	}
	return true;
}

void python_forget(void)
{
	object *error = py.PyErr_Occurred();
	bool interrupted =
	    error && !py.PyErr_GivenExceptionMatches(error, *(object **)py.PyExc_Exception);
	py.PyErr_Clear();
	if (interrupted)
		py.PyErr_SetInterrupt();
}
