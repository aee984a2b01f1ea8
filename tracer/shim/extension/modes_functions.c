/* The functions of the library that modes/ calls. */
#define _GNU_SOURCE
#include "tracer/shim/extension/modes.h"

#include "tracer/engine/shim/shim_share.h"
#include "tracer/shim/shim.h"

/* How often modes/ was loaded: its functions have that number as self. What an earlier one has left
 * in the program, as hooks of a graph, is out for good, and says nothing of the present one. */
static long loaded;

static bool is_present(object *self)
{
	return py.PyLong_AsLong(self) == loaded;
}

static object *is_out(object *self, object *arg)
{
	(void)arg;
	return py.PyBool_FromLong(modes_out || !is_present(self));
}

static object *take_out(object *self, object *arg)
{
	(void)arg;
	if (is_present(self))
		modes_out = true;
	return python_none();
}

/* enter(): this thread works for ditrace until leave(), which gets what enter() returned. */
static object *enter(object *self, object *arg)
{
	(void)self, (void)arg;
	return py.PyBool_FromLong(modes_work_begins());
}

static object *leave(object *self, object *was)
{
	(void)self;
	modes_work_ends(was == py._Py_TrueStruct);
	return python_none();
}

/* program_call(func, args, kwargs): modes_own_call */
static object *program_call(object *self, object *args)
{
	(void)self;
	return modes_own_call(py.PyTuple_GetItem(args, 0), py.PyTuple_GetItem(args, 1),
			      py.PyTuple_GetItem(args, 2));
}

static object *lacks_memory(object *self, object *tensor)
{
	(void)self;
	return python_kept(numbers_lack_memory(tensor) ? py._Py_TrueStruct : py._Py_FalseStruct);
}

/* pause_busy(): what follows is the program's own code again; returns what resume_busy() takes. */
static object *pause_busy(object *self, object *arg)
{
	object *was = py.PyLong_FromLong(modes_busy);
	(void)self, (void)arg;
	if (was)
		modes_busy = 0;
	own_work(false);
	return was;
}

static object *resume_busy(object *self, object *was)
{
	(void)self;
	modes_busy = (int)py.PyLong_AsLong(was);
	own_work(modes_busy);
	return python_none();
}

/* forget(), in the child of a fork: reset all counts; the next ones are reported at once. */
static object *forget(object *self, object *arg)
{
	(void)self, (void)arg;
	modes_counts_forget();
	budget_forget();
	modes_threads_forget();
	lines_forget();
	own_work_forked();
	return python_none();
}

/* ready(): modes_ready */
static object *ready(object *self, object *arg)
{
	(void)self, (void)arg;
	modes_ready = true;
	return python_none();
}

/* stands_still(fd): answer_is_stopped */
static object *stands_still(object *self, object *fd)
{
	(void)self;
	return py.PyBool_FromLong(answer_is_stopped((int)py.PyLong_AsLong(fd)));
}

/* is_trusted(fd): answer_is_trusted */
static object *is_trusted(object *self, object *fd)
{
	(void)self;
	return py.PyBool_FromLong(answer_is_trusted((int)py.PyLong_AsLong(fd), NULL));
}

bool modes_set(object *module, const char *name, object *value)
{
	bool good = value && !py.PyDict_SetItemString(module, name, value);
	python_drop(value);
	return good;
}

bool modes_functions_fill(object *module)
{
	static struct method methods[] = {
	    {"made", modes_made, METH_VARARGS, NULL},
	    {"is_out", is_out, METH_NOARGS, NULL},
	    {"end", take_out, METH_NOARGS, NULL},
	    {"enter", enter, METH_NOARGS, NULL},
	    {"leave", leave, METH_O, NULL},
	    {"program_call", program_call, METH_VARARGS, NULL},
	    {"is_busy", modes_is_busy, METH_NOARGS, NULL},
	    {"pause_busy", pause_busy, METH_NOARGS, NULL},
	    {"resume_busy", resume_busy, METH_O, NULL},
	    {"refresh", modes_refresh, METH_NOARGS, NULL},
	    {"is_inside", modes_is_inside, METH_NOARGS, NULL},
	    {"count", modes_count, METH_O, NULL},
	    {"statistics", modes_measure, METH_O, NULL},
	    {"judged", modes_judged, METH_VARARGS, NULL},
	    {"surely_right", modes_surely_right, METH_VARARGS, NULL},
	    {"perturbed", modes_perturbed, METH_VARARGS, NULL},
	    {"probed", modes_probed, METH_VARARGS, NULL},
	    {"extent", modes_extent, METH_O, NULL},
	    {"budget", modes_budget, METH_O, NULL},
	    {"takes", modes_takes, METH_O, NULL},
	    {"number_taken", modes_budget_number, METH_NOARGS, NULL},
	    {"spend", modes_spend, METH_VARARGS, NULL},
	    {"backward_comes", modes_comes, METH_O, NULL},
	    {"backward_came", modes_came, METH_VARARGS, NULL},
	    {"spent", modes_spent, METH_NOARGS, NULL},
	    {"lacks_memory", lacks_memory, METH_O, NULL},
	    {"tensors_in", modes_tensors_in, METH_VARARGS, NULL},
	    {"changed", modes_changed, METH_VARARGS, NULL},
	    {"call_number", modes_call_number, METH_NOARGS, NULL},
	    {"place", modes_place, METH_VARARGS, NULL},
	    {"fallback", modes_fallback, METH_VARARGS, NULL},
	    {"cast", modes_cast, METH_VARARGS, NULL},
	    {"compare", modes_compare, METH_VARARGS, NULL},
	    {"settled_calls", modes_settled, METH_NOARGS, NULL},
	    {"forget", forget, METH_NOARGS, NULL},
	    {"counts", modes_counts, METH_NOARGS, NULL},
	    {"threads", modes_threads, METH_NOARGS, NULL},
	    {"no_more_threads", modes_threads_end, METH_NOARGS, NULL},
	    {"watch", modes_watch, METH_O, NULL},
	    {"is_trusted", is_trusted, METH_O, NULL},
	    {"stands_still", stands_still, METH_O, NULL},
	    {"look_up", modes_look_up, METH_VARARGS, NULL},
	    {"ready", ready, METH_NOARGS, NULL},
	};
	object *number = py.PyLong_FromLong(++loaded);
	bool good = number && modes_call_begin();
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		good = good && modes_set(module, methods[i].name,
					 py.PyCFunction_NewEx(&methods[i], number, NULL));
	python_drop(number);
	return good;
}
