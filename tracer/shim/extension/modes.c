#define _GNU_SOURCE
#include "tracer/shim/extension/python.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tracer/shim/extension/modes.h"
#include "tracer/shim/shim.h"

struct python py;

static const struct {
	const char *name;
	size_t at;
} needed[] = {
#define PYTHON_NAME(type, name, arguments) {#name, offsetof(struct python, name)},
#define PYTHON_NAME_OF_DATA(name) {#name, offsetof(struct python, name)},
    PYTHON_FUNCTIONS(PYTHON_NAME) PYTHON_DATA(PYTHON_NAME_OF_DATA)};

/* Fill `py`. False: the process has no usable CPython. */
static bool python_find(void)
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

/* Loads modes/, beside this file, into the process's Python, so that functions of PyTorch can be
 * changed. */

extern const char _binary_modes_py_start[], _binary_modes_py_end[];

static object *module;	/* a dict: the globals of modes/; NULL: not loaded */
static bool entered;	/* injected by way of a thread, not preloaded */
static bool was_in;	/* loaded at least once before */
static uint32_t coming; /* how often it was loaded: a keeper minds its own alone */

/* Call function() of modes/; its result as a number, 0 when it fails. With the GIL. */
static long ask(const char *function)
{
	object *f = module ? py.PyDict_GetItemString(module, function) : NULL,
	       *r = f ? py.PyObject_CallObject(f, NULL) : NULL;
	long n = r ? py.PyLong_AsLong(r) : 0;
	python_drop(r);
	python_forget();
	return n;
}

static bool enter_thread(void)
{
	object *type, *value, *traceback; /* keep an exception that the program has raised */
	py.PyErr_Fetch(&type, &value, &traceback);
	bool is_on = ask("enter_thread");
	py.PyErr_Restore(type, value, traceback);
	return is_on;
}

static void set_phase(enum shim_phase phase)
{
	ditrace_shim_state.modes = phase;
}

static void end(void)
{
	python_drop(module);
	module = NULL;
	set_phase(SHIM_OUT);
}

static bool is_going(uint32_t number)
{
	return number == coming && ditrace_shim_state.modes == SHIM_GOING;
}

/* Runs on the main thread; stop() of modes/ says whether everything is removed from it. */
static int take_out(void *number)
{
	if (module && !modes_busy && is_going((uint32_t)(uintptr_t)number) && ask("stop"))
		end();
	return 0;
}

/* Unless they could not be installed, as ditrace ended meanwhile. */
static void leave(uint32_t number)
{
	int state = py.PyGILState_Ensure();
	const bool is_in = number == coming && ditrace_shim_state.modes == SHIM_IN;
	if (is_in) {
		set_phase(SHIM_GOING);
		ask("leave_all");
	}
	py.PyGILState_Release(state);
	if (number != coming)
		return;
	modes_threads_stop();
	if (entered)
		answer_tidy(ditrace_shim_state.modes_socket);
}

/* A thread that waits until ditrace ends the connection. */
static void *keeper(void *arg)
{
	enum { AGAIN_MS = 20, SELDOM_MS = 1000, SOON = 500 };
	const uint32_t number = (uint32_t)((uintptr_t)arg >> 32);
	struct pollfd p = {.fd = (int)(uint32_t)(uintptr_t)arg, .events = POLLRDHUP};
	prctl(PR_SET_NAME, SHIM_THREAD);
	modes_threads_start(enter_thread);
	while (poll(&p, 1, -1) <= 0)
		;
	if (py.Py_IsInitialized())
		leave(number);
	for (int i = 0; is_going(number) && py.Py_IsInitialized(); i++) {
		py.Py_AddPendingCall(take_out, (void *)(uintptr_t)number);
		poll(NULL, 0, i < SOON ? AGAIN_MS : SELDOM_MS);
	}
	return NULL;
}

static int start_thread(void *(*fn)(void *), void *arg)
{
	sigset_t all, was;
	pthread_t thread;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &was);
	int r = pthread_create(&thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (!r)
		pthread_detach(thread);
	return r;
}

/* modes_keep(fd): remove the modes when this connection ends; -1: they could not be installed. */
static object *modes_keep(object *self, object *fd)
{
	int sock = (int)py.PyLong_AsLong(fd);
	(void)self;
	set_phase(sock < 0 ? SHIM_OUT : SHIM_IN);
	if (sock < 0)
		return py.PyLong_FromLong(0);
	const uintptr_t what = (uintptr_t)coming << 32 | (uint32_t)sock; /* keeper */
	return py.PyLong_FromLong(start_thread(keeper, (void *)what));
}

/* fill(dict): the functions of the library for modes/. */
static object *fill(object *self, object *into)
{
	(void)self;
	return modes_functions_fill(into) ? python_none() : NULL;
}

static bool fill_module(void)
{
	static struct method keep_method = {"keep", modes_keep, METH_O, NULL},
			     fill_method = {"fill", fill, METH_O, NULL};
	object *builtins = py.PyEval_GetBuiltins();
	module = py.PyDict_New();
	return module && builtins && !py.PyDict_SetItemString(module, "__builtins__", builtins) &&
	       modes_set(module, "__name__", py.PyUnicode_DecodeFSDefault("ditrace")) &&
	       modes_set(module, "SOCKET",
			 py.PyUnicode_DecodeFSDefault(ditrace_shim_state.modes_socket)) &&
	       modes_set(module, "AGAIN", py.PyLong_FromLong(was_in)) &&
	       modes_set(module, "keep", py.PyCFunction_NewEx(&keep_method, NULL, NULL)) &&
	       modes_set(module, "fill", py.PyCFunction_NewEx(&fill_method, NULL, NULL));
}

static void run_start(void)
{
	/* cppcheck-suppress comparePointers; the linker puts both around the same bytes */
	size_t size = (size_t)(_binary_modes_py_end - _binary_modes_py_start);
	char *text = strndup(_binary_modes_py_start, size);
	object *code = text ? py.Py_CompileString(text, "ditrace/start.py", FILE_INPUT) : NULL;
	object *r = code ? py.PyEval_EvalCode(code, module, module) : NULL;
	python_drop(r);
	python_drop(code);
	free(text);
}

/* Runs on the main thread, between two bytecodes, or on a thread of the library. */
static int begin(void *unused)
{
	(void)unused;
	python_drop(module); /* inherited from the parent of a fork */
	module = NULL;
	coming++;
	if (fill_module()) {
		was_in = true;
		run_start();
	}
	py.PyErr_Clear();
	if (ditrace_shim_state.modes == SHIM_OUT)
		end();
	return 0;
}

static bool may_come(const char *path)
{
	int32_t out = SHIM_OUT;
	if (!path || strlen(path) >= sizeof(ditrace_shim_state.modes_socket) ||
	    !atomic_compare_exchange_strong(&ditrace_shim_state.modes, &out, SHIM_COMING))
		return false;
	strcpy(ditrace_shim_state.modes_socket, path);
	if (python_find() && py.Py_IsInitialized())
		return true;
	set_phase(SHIM_OUT);
	return false;
}

void modes_start(const char *socket)
{
	if (may_come(socket))
		py.Py_AddPendingCall(begin, NULL);
}

static void *come_main(void *arg)
{
	prctl(PR_SET_NAME, SHIM_THREAD);
	int state = py.PyGILState_Ensure();
	begin(arg);
	py.PyGILState_Release(state);
	return NULL;
}

/* SHIM_MODES_COME */
__attribute__((visibility("default"))) void ditrace_modes_come(const char *path);

void ditrace_modes_come(const char *path)
{
	int saved = errno;
	if (may_come(path)) {
		entered = true;
		if (start_thread(come_main, NULL))
			set_phase(SHIM_OUT);
	}
	errno = saved;
}
