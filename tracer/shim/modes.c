/* Brings what is in modes/ beside this file into the Python of the process, so that what functions
 * of PyTorch do can be changed. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tracer/shim/modes_call.h"
#include "tracer/shim/python.h"
#include "tracer/shim/shim.h"

extern const char _binary_start_py_start[], _binary_start_py_end[];
extern const char _binary_modes_py_start[], _binary_modes_py_end[];

static object *module;	  /* a dict: the names of modes/ */
static _Atomic bool left; /* nothing of modes/ is left on the main thread */

/* On the main thread: stop() of modes/ says whether nothing is left of them there. */
static int take_out(void *unused)
{
	(void)unused;
	object *stop = left ? NULL : py.PyDict_GetItemString(module, "stop"),
	       *r = stop ? py.PyObject_CallObject(stop, NULL) : NULL;
	if (!stop || (r && py.PyLong_AsLong(r)))
		left = true;
	python_drop(r);
	py.PyErr_Clear();
	return 0;
}

/* Waits until ditrace is gone. */
static void *keeper(void *arg)
{
	enum { AGAIN_MS = 20, SELDOM_MS = 1000, SOON = 500 };
	struct pollfd p = {.fd = (int)(intptr_t)arg};
	while (poll(&p, 1, -1) <= 0)
		;
	for (int i = 0; !left && py.Py_IsInitialized(); i++) {
		py.Py_AddPendingCall(take_out, NULL);
		poll(NULL, 0, i < SOON ? AGAIN_MS : SELDOM_MS);
	}
	return NULL;
}

/* keep(fd): the modes are taken out when this connection ends. */
static object *keep(object *self, object *fd)
{
	sigset_t all, was;
	pthread_t thread;
	(void)self;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &was);
	int r = pthread_create(&thread, NULL, keeper, (void *)(intptr_t)py.PyLong_AsLong(fd));
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (!r)
		pthread_detach(thread);
	return py.PyLong_FromLong(r);
}

static size_t length(const char *start, const char *end)
{
	return (size_t)(end - start);
}

static object *bytes(const char *start, const char *end)
{
	return py.PyBytes_FromStringAndSize(start, (ssize_t)length(start, end));
}

/* fill(dict): the functions of the library for modes/. */
static object *fill(object *self, object *into)
{
	static struct method keep_method = {"keep", keep, METH_O, NULL};
	(void)self;
	bool good = modes_set(into, "keep", py.PyCFunction_NewEx(&keep_method, NULL, NULL)) &&
		    modes_call_fill(into);
	return good ? python_none() : NULL;
}

static bool fill_module(void)
{
	static struct method fill_method = {"fill", fill, METH_O, NULL};
	object *builtins = py.PyEval_GetBuiltins();
	module = py.PyDict_New();
	return module && builtins && !py.PyDict_SetItemString(module, "__builtins__", builtins) &&
	       modes_set(module, "__name__", py.PyUnicode_DecodeFSDefault("ditrace")) &&
	       modes_set(module, "SOURCE", bytes(_binary_modes_py_start, _binary_modes_py_end)) &&
	       modes_set(module, "SOCKET", py.PyUnicode_DecodeFSDefault(getenv(MODES_SOCKET))) &&
	       modes_set(module, "fill", py.PyCFunction_NewEx(&fill_method, NULL, NULL));
}

static void run_start(void)
{
	char *text =
	    strndup(_binary_start_py_start, length(_binary_start_py_start, _binary_start_py_end));
	object *code = text ? py.Py_CompileString(text, "ditrace/start.py", FILE_INPUT) : NULL;
	object *r = code ? py.PyEval_EvalCode(code, module, module) : NULL;
	python_drop(r);
	python_drop(code);
	free(text);
}

/* On the main thread, between two instructions of Python. */
static int begin(void *unused)
{
	(void)unused;
	if (!module && getenv(MODES_SOCKET) && fill_module())
		run_start();
	py.PyErr_Clear();
	return 0;
}

void modes_start(void)
{
	if (getenv(MODES_SOCKET) && python_find() && py.Py_IsInitialized())
		py.Py_AddPendingCall(begin, NULL);
}
