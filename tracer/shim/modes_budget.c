#define _GNU_SOURCE
#include "tracer/shim/modes_budget.h"

#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "tracer/budget.h"

enum {
	CODES = 1 << 13, /* slots: code objects of Python */
	FRAMES = 64,	 /* looked at, to find the program's line */
};

struct code {
	object *code;
	bool is_program;
};

static struct budget budget;
static double spent; /* nanoseconds in all, whatever the budget was */
static uint64_t first;

static struct code codes[CODES];
static unsigned ncodes;
static char own_files[512];

static bool begins(const char *s, const char *with)
{
	return *with && !strncmp(s, with, strlen(with));
}

static bool is_program(object *code)
{
	object *name = py.PyObject_GetAttrString(code, "co_filename");
	object *bytes = name ? py.PyUnicode_AsUTF8String(name) : NULL;
	const char *file = bytes ? py.PyBytes_AsString(bytes) : NULL;
	bool yes = file && !begins(file, own_files) && !begins(file, "ditrace/") &&
		   !begins(file, "<frozen") && !strstr(file, "/contextlib.py");
	py.PyErr_Clear();
	python_drop(bytes);
	python_drop(name);
	return yes;
}

/* Of code that is known; it is kept, so that no other gets its address. */
static bool is_program_known(object *code)
{
	size_t i = ((uintptr_t)code >> 4) * 0x9e3779b97f4a7c15 >> 40 & (CODES - 1);
	while (codes[i].code && codes[i].code != code)
		i = (i + 1) & (CODES - 1);
	if (codes[i].code)
		return codes[i].is_program;
	bool yes = is_program(code);
	if (ncodes < CODES / 2) {
		ncodes++;
		codes[i] = (struct code){python_kept(code), yes};
	}
	return yes;
}

static long line_of(object *frame)
{
	object *line = py.PyObject_GetAttrString(frame, "f_lineno");
	long n = line && line != py._Py_NoneStruct ? py.PyLong_AsLong(line) : 0;
	py.PyErr_Clear();
	python_drop(line);
	return n;
}

/* The code and line of the innermost frame that is the program's own; NULL: there is none. */
static const void *place_of(long *line)
{
	object *frame = py.PyEval_GetFrame();
	const void *found = NULL;
	if (frame)
		python_kept(frame);
	for (int i = 0; i < FRAMES && frame && frame != py._Py_NoneStruct && !found; i++) {
		object *code = py.PyObject_GetAttrString(frame, "f_code");
		if (code && is_program_known(code)) {
			found = code;
			*line = line_of(frame);
		}
		python_drop(code);
		object *back = found ? NULL : py.PyObject_GetAttrString(frame, "f_back");
		python_drop(frame);
		frame = back;
	}
	python_drop(frame);
	py.PyErr_Clear();
	return found;
}

static uint64_t passed(uint64_t now)
{
	if (!first)
		first = now;
	return now - first;
}

bool budget_takes(object *what)
{
	long line = 0;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	passed(now);
	if (budget.share <= 0)
		return true;
	const void *code = place_of(&line);
	return budget_decide(&budget, what, code, line, now);
}

object *modes_takes(object *self, object *what)
{
	(void)self;
	return py.PyBool_FromLong(budget_takes(what));
}

object *modes_budget(object *self, object *args)
{
	(void)self;
	budget_begin(&budget, py.PyFloat_AsDouble(py.PyTuple_GetItem(args, 0)));
	object *files = py.PyUnicode_AsUTF8String(py.PyTuple_GetItem(args, 1));
	const char *s = files ? py.PyBytes_AsString(files) : "";
	own_files[0] = '\0';
	if (strlen(s) < sizeof(own_files))
		strcpy(own_files, s);
	python_drop(files);
	py.PyErr_Clear();
	return python_none();
}

void budget_forget(void)
{
	spent = 0;
	first = 0;
}

object *modes_spend(object *self, object *ns)
{
	uint64_t n = (uint64_t)py.PyLong_AsLong(ns);
	(void)self;
	passed(clock_ns(CLOCK_MONOTONIC));
	spent += (double)n;
	budget_spend(&budget, n);
	return python_none();
}

object *modes_spent(object *self, object *unused)
{
	(void)self, (void)unused;
	uint64_t all = first ? passed(clock_ns(CLOCK_MONOTONIC)) : 0;
	object *a = py.PyFloat_FromDouble(spent), *b = py.PyFloat_FromDouble((double)all);
	object *r = a && b ? py.PyTuple_Pack(2, a, b) : NULL;
	python_drop(a);
	python_drop(b);
	return r;
}
