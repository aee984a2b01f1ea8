/* Brings Python into the process, so that what its functions of PyTorch do can be changed
 * (modes/ beside this file). All of CPython that is used has been the same from 3.8 on, and is
 * found by name: no libpython is linked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tracer/shim/shim.h"

extern const char _binary_start_py_start[], _binary_start_py_end[];
extern const char _binary_modes_py_start[], _binary_modes_py_end[];

typedef void object;

enum { FILE_INPUT = 257 /* Py_file_input, Include/compile.h */, METH_O = 8 };

/* PyMethodDef (Include/methodobject.h), part of the stable ABI. */
struct method {
	const char *name;
	object *(*call)(object *self, object *arg);
	int flags;
	const char *doc;
};

static struct {
	int (*add_pending_call)(int (*)(void *), void *);
	int (*is_initialized)(void);
	object *(*compile)(const char *, const char *, int);
	object *(*eval)(object *, object *, object *);
	object *(*builtins)(void);
	object *(*new_dict)(void);
	int (*set)(object *, const char *, object *);
	object *(*get)(object *, const char *);
	object *(*new_function)(struct method *, object *, object *);
	object *(*call)(object *, object *);
	object *(*new_bytes)(const char *, ssize_t);
	object *(*new_text)(const char *);
	object *(*new_int)(long);
	long (*as_int)(object *);
	void (*clear)(void);
	void (*drop)(object *);
} py;

static const struct {
	const char *name;
	void **at;
} needed[] = {
    {"Py_AddPendingCall", (void **)&py.add_pending_call},
    {"Py_IsInitialized", (void **)&py.is_initialized},
    {"Py_CompileString", (void **)&py.compile},
    {"PyEval_EvalCode", (void **)&py.eval},
    {"PyEval_GetBuiltins", (void **)&py.builtins},
    {"PyDict_New", (void **)&py.new_dict},
    {"PyDict_SetItemString", (void **)&py.set},
    {"PyDict_GetItemString", (void **)&py.get},
    {"PyCFunction_NewEx", (void **)&py.new_function},
    {"PyObject_CallObject", (void **)&py.call},
    {"PyBytes_FromStringAndSize", (void **)&py.new_bytes},
    {"PyUnicode_DecodeFSDefault", (void **)&py.new_text},
    {"PyLong_FromLong", (void **)&py.new_int},
    {"PyLong_AsLong", (void **)&py.as_int},
    {"PyErr_Clear", (void **)&py.clear},
    {"Py_DecRef", (void **)&py.drop},
};

static object *module; /* a dict: the names of modes/ */
static _Atomic bool out;

static bool find_python(void)
{
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		void *f = dlsym(RTLD_DEFAULT, needed[i].name);
		if (!f)
			return false;
		*needed[i].at = f;
	}
	return true;
}

/* On the main thread: stop() of modes/ says whether nothing is left of them there. */
static int take_out(void *unused)
{
	(void)unused;
	object *stop = out ? NULL : py.get(module, "stop"), *r = stop ? py.call(stop, NULL) : NULL;
	if (!stop || (r && py.as_int(r)))
		out = true;
	if (r)
		py.drop(r);
	else
		py.clear();
	return 0;
}

/* Waits until ditrace is gone. */
static void *keeper(void *arg)
{
	enum { AGAIN_MS = 20, SELDOM_MS = 1000, SOON = 500 };
	struct pollfd p = {.fd = (int)(intptr_t)arg};
	while (poll(&p, 1, -1) <= 0)
		;
	for (int i = 0; !out && py.is_initialized(); i++) {
		py.add_pending_call(take_out, NULL);
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
	int r = pthread_create(&thread, NULL, keeper, (void *)(intptr_t)py.as_int(fd));
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (!r)
		pthread_detach(thread);
	return py.new_int(r);
}

static bool set(const char *name, object *value)
{
	bool good = value && !py.set(module, name, value);
	if (value)
		py.drop(value);
	return good;
}

static size_t length(const char *start, const char *end)
{
	return (size_t)(end - start);
}

static object *bytes(const char *start, const char *end)
{
	return py.new_bytes(start, (ssize_t)length(start, end));
}

static bool fill_module(void)
{
	static struct method keep_method = {"keep", keep, METH_O, NULL};
	object *builtins = py.builtins();
	module = py.new_dict();
	return module && builtins && !py.set(module, "__builtins__", builtins) &&
	       set("__name__", py.new_text("ditrace")) &&
	       set("SOURCE", bytes(_binary_modes_py_start, _binary_modes_py_end)) &&
	       set("SOCKET", py.new_text(getenv(MODES_SOCKET))) &&
	       set("keep", py.new_function(&keep_method, NULL, NULL));
}

static void run_start(void)
{
	char *text =
	    strndup(_binary_start_py_start, length(_binary_start_py_start, _binary_start_py_end));
	object *code = text ? py.compile(text, "ditrace/start.py", FILE_INPUT) : NULL;
	object *r = code ? py.eval(code, module, module) : NULL;
	if (r)
		py.drop(r);
	if (code)
		py.drop(code);
	free(text);
}

/* On the main thread, between two instructions of Python. */
static int begin(void *unused)
{
	(void)unused;
	if (!module && getenv(MODES_SOCKET) && fill_module())
		run_start();
	py.clear();
	return 0;
}

void modes_start(void)
{
	if (getenv(MODES_SOCKET) && find_python() && py.is_initialized())
		py.add_pending_call(begin, NULL);
}
