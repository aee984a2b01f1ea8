#define _GNU_SOURCE
#include "tracer/shim/extension/modes.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tracer/engine/shim/shim_share.h"
#include "tracer/shim/extension/modes_args.h"
#include "tracer/shim/shim.h"

enum { PLANS_MOST = 8192 };

static __thread int inside; /* calls of the mode that are open */

static struct {
	object *mode;	    /* the one in use */
	object *plans;	    /* a cache: function to what plan_of() of modes/ returned */
	object *push, *pop; /* of torch._C */
	object *plain;	    /* a tuple: tensor types without a __torch_function__ of their own */
	object *is_compiling;
	object *plan_of, *look_again, *leave_thread; /* of modes/ */
} own;

static const struct modes_control *control;
static uint32_t generation;

/* The arguments of one call of the mode; borrowed except args. */
struct asked {
	object *func, *types, *args, *kwargs;
};

/* (mode, func, types, args=(), kwargs=None): positional, as PyTorch calls it, or by keyword. */
static bool asked_parse(struct asked *a, object *args, object *keywords)
{
	static const char *const names[] = {"func", "types", "args", "kwargs"};
	object *got[4] = {0};
	ssize_t n = py.PyTuple_Size(args) - 1;
	for (ssize_t i = 0; i < 4; i++)
		if (i < n)
			got[i] = py.PyTuple_GetItem(args, i + 1);
		else if (keywords)
			got[i] = py.PyDict_GetItemString(keywords, names[i]);
	if (n > 4 || !got[0]) {
		py.PyErr_SetString(*(object **)py.PyExc_TypeError,
				   "__torch_function__ takes func, types, args and kwargs");
		return false;
	}
	if (got[3] == py._Py_NoneStruct || (got[3] && !py.PyDict_Size(got[3])))
		got[3] = NULL;
	*a = (struct asked){got[0], got[1], NULL, got[3]};
	a->args = got[2] ? py.PySequence_Tuple(got[2]) : py.PyTuple_New(0);
	return a->args != NULL;
}

static object *pass_on(const struct asked *a)
{
	return py.PyObject_Call(a->func, a->args, a->kwargs);
}

/* The rules have changed: forget all that was derived from them. */
static void look_again(void)
{
	generation = atomic_load(&control->generation);
	py.PyDict_Clear(own.plans);
	python_drop(modes_ask(own.look_again, NULL));
	lines_forget();
}

/* Whether calls of this thread are to be passed on for now. */
static bool is_resting(void)
{
	return modes_busy || (control && control->away);
}

/* What to do about a function, a new reference: a tuple, or None or NULL for nothing. */
static object *plan_of(object *func)
{
	object *found = py.PyDict_GetItemWithError(own.plans, func);
	if (found)
		return python_kept(found);
	if (py.PyErr_Occurred()) { /* it is unhashable */
		python_forget();
		return NULL;
	}
	found = modes_ask(own.plan_of, func);
	if (found && !modes_out && py.PyDict_Size(own.plans) < PLANS_MOST &&
	    py.PyDict_SetItem(own.plans, func, found))
		python_forget();
	return found;
}

enum { BODIES_MAX = 16 };

/* Functions written in Python whose bodies this thread is running. Only compared: with greenlets,
 * it may be another's. */
static __thread object *bodies[BODIES_MAX];
static __thread unsigned nbodies;

/* A body may ask for its own function again, through a function that has the question of its own:
 * torch.meshgrid does. */
static bool may_run(object *func)
{
	unsigned i = 0;
	while (i < nbodies && bodies[i] != func)
		i++;
	return i == nbodies && nbodies < BODIES_MAX;
}

/* Run the body of a function written in Python with the mode pushed again, so that functions it
 * calls come here, too. */
static object *call_body(object *mode, object *body, const struct asked *a)
{
	object *error[3] = {0};
	object *pushed = py.PyObject_CallFunctionObjArgs(own.push, mode, PY_END);
	if (!pushed) {
		python_forget();
		return pass_on(a);
	}
	python_drop(pushed);
	bodies[nbodies++] = a->func;
	object *r = py.PyObject_Call(body, a->args, a->kwargs);
	nbodies--;
	if (!r)
		py.PyErr_Fetch(&error[0], &error[1], &error[2]);
	object *popped = py.PyObject_CallFunctionObjArgs(own.pop, PY_END);
	if (!popped)
		python_forget();
	python_drop(popped);
	if (!r)
		py.PyErr_Restore(error[0], error[1], error[2]);
	return r;
}

static object *call_changed(object *plan, const struct asked *a)
{
	object *kwargs = a->kwargs ? python_kept(a->kwargs) : py.PyDict_New();
	object *r = kwargs ? modes_change(plan, a->func, a->args, kwargs) : NULL;
	python_drop(kwargs);
	return r;
}

static bool is_compiling(void)
{
	modes_busy++;
	object *r = py.PyObject_CallObject(own.is_compiling, NULL);
	modes_busy--;
	bool yes = r && py.PyObject_IsTrue(r) == 1;
	if (!r)
		python_forget();
	python_drop(r);
	return yes;
}

/* Whether all tensor types are plain; other subclasses have a __torch_function__ to be honoured. */
static bool are_plain(object *types)
{
	object *all = py.PySequence_Tuple(types);
	bool good = all != NULL;
	for (ssize_t i = 0; good && i < py.PyTuple_Size(all); i++)
		good = py.PySequence_Contains(own.plain, py.PyTuple_GetItem(all, i)) == 1;
	if (!all)
		py.PyErr_Clear();
	python_drop(all);
	return good;
}

/* Whether the call can be passed on without looking at its arguments. */
static bool is_left_out(object *what, object *plan)
{
	object *key = py.PyTuple_GetItem(what, 3);
	bool always = py.PyObject_IsTrue(py.PyTuple_GetItem(what, 4)) == 1;
	if (key == py._Py_NoneStruct || (!always && budget_takes(plan)))
		return false;
	object *counted = modes_count(NULL, key);
	if (!counted)
		python_forget();
	python_drop(counted);
	return true;
}

static object *act(object *mode, object *what, struct asked *a)
{
	object *plan = py.PyTuple_GetItem(what, 0), *body = py.PyTuple_GetItem(what, 1);
	object *call = py.PyTuple_GetItem(what, 2);
	if (call != py._Py_NoneStruct)
		a->func = call;
	if (is_compiling() || (plan == py._Py_NoneStruct && body == py._Py_NoneStruct))
		return pass_on(a);
	if (plan != py._Py_NoneStruct)
		return is_left_out(what, plan) ? pass_on(a) : call_changed(plan, a);
	return are_plain(a->types) && may_run(a->func) ? call_body(mode, body, a) : pass_on(a);
}

static object *asked_for(object *mode, struct asked *a)
{
	if (modes_out && !modes_busy)
		python_drop(modes_ask(own.leave_thread, NULL));
	if (modes_out || is_resting() || mode != own.mode)
		return pass_on(a);
	if (control && control->generation != generation)
		look_again();
	object *what = plan_of(a->func), *r;
	if (!what || what == py._Py_NoneStruct) {
		r = pass_on(a);
	} else {
		r = act(mode, what, a);
	}
	python_drop(what);
	return r;
}

static object *mode_call(object *mode, object *args, object *keywords)
{
	struct asked a;
	if (!asked_parse(&a, args, keywords))
		return NULL;
	inside++;
	object *r = asked_for(mode, &a);
	inside--;
	python_drop(a.args);
	return r;
}

/* The modes of both levels. Never freed: a thread may still have one on its stack after it is out
 * of use. */
static struct kind {
	const char *attribute; /* under which PyTorch looks up mode_call */
	object *mode, *call;
} kinds[] = {{"__torch_function__", NULL, NULL}, {"__torch_dispatch__", NULL, NULL}};

/* PyTorch's dispatcher gets mode_call from the instance; torch.compile looks at the class, and uses
 * the Python method there, if what the instance gives is a bound method, too. */
static object *get_attribute(object *mode, object *name)
{
	for (int i = 0; i < 2; i++)
		if (mode == kinds[i].mode &&
		    !py.PyUnicode_CompareWithASCIIString(name, kinds[i].attribute))
			return python_kept(kinds[i].call);
	return py.PyObject_GenericGetAttr(mode, name);
}

static bool make(struct kind *k, struct method *method, object *base, object *bound)
{
	static struct type_slot slots[] = {{TP_GETATTRO, NULL}, {0, NULL}};
	static struct type_spec spec = {"ditrace_modes.Mode", 0, 0, 0, slots};
	method_with_keywords *call = mode_call;
	object *(*get)(object *, object *) = get_attribute;
	memcpy(&method->call, &call, sizeof(call));
	memcpy(&slots[0].value, &get, sizeof(get));
	method->name = k->attribute;
	object *bases = py.PyTuple_Pack(1, base);
	object *type = bases ? py.PyType_FromSpecWithBases(&spec, bases) : NULL;
	python_drop(bases);
	object *mode = type ? py.PyObject_CallObject(type, NULL) : NULL;
	object *function = mode ? py.PyCFunction_NewEx(method, mode, NULL) : NULL;
	k->call = function ? py.PyObject_CallFunctionObjArgs(bound, function, mode, PY_END) : NULL;
	python_drop(function);
	k->mode = k->call ? mode : NULL;
	if (k->mode)
		modes_is_ours(k->mode);
	return k->mode;
}

/* made(base, is_aten, types.MethodType): the mode, an instance of a new class with that base. */
static object *made(object *self, object *args)
{
	static struct method methods[2] = {{NULL, NULL, METH_VARARGS | METH_KEYWORDS, NULL},
					   {NULL, NULL, METH_VARARGS | METH_KEYWORDS, NULL}};
	int i = py.PyObject_IsTrue(py.PyTuple_GetItem(args, 1)) == 1;
	(void)self;
	if (!kinds[i].mode &&
	    !make(&kinds[i], &methods[i], py.PyTuple_GetItem(args, 0), py.PyTuple_GetItem(args, 2)))
		return NULL;
	own.mode = kinds[i].mode;
	return python_kept(own.mode);
}

static object *is_out(object *self, object *arg)
{
	(void)self, (void)arg;
	return py.PyBool_FromLong(modes_out);
}

static object *end(object *self, object *arg)
{
	(void)self, (void)arg;
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

static object *is_busy(object *self, object *arg)
{
	(void)self, (void)arg;
	return py.PyBool_FromLong(is_resting());
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

/* refresh(): take over the present rules. */
static object *refresh(object *self, object *arg)
{
	(void)self, (void)arg;
	if (control && control->generation != generation)
		look_again();
	return python_none();
}

static object *is_inside(object *self, object *arg)
{
	(void)self, (void)arg;
	return py.PyBool_FromLong(inside);
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

/* watch(fd): map struct modes_control, which ditrace writes; False if the memory is another. */
static object *watch(object *self, object *number)
{
	(void)self;
	int fd = (int)py.PyLong_AsLong(number);
	void *p = answer_is_whole(fd, sizeof(*control))
		      ? mmap(NULL, sizeof(*control), PROT_READ, MAP_SHARED, fd, 0)
		      : MAP_FAILED;
	if (p != MAP_FAILED) {
		if (control)
			munmap((void *)control, sizeof(*control));
		control = p;
		generation = control->generation;
	}
	return py.PyBool_FromLong(p != MAP_FAILED);
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

/* ready(push, pop): look up the objects of Python that are used here. */
static object *ready(object *self, object *args)
{
	const struct modes_wanted names[] = {{&own.plan_of, "mode.plan_of"},
					     {&own.look_again, "session.look_again"},
					     {&own.leave_thread, "install.leave_thread"},
					     {&own.plain, "names.PLAIN"},
					     {&own.is_compiling, "names.is_compiling"}};
	(void)self;
	own.push = python_kept(py.PyTuple_GetItem(args, 0));
	own.pop = python_kept(py.PyTuple_GetItem(args, 1));
	if (modes_names(names, sizeof(names) / sizeof(names[0])) && modes_counts_ready() &&
	    nest_ready() && numbers_ready() && modes_change_ready() && modes_copies_ready() &&
	    modes_fallback_ready() && modes_cast_ready() && modes_compare_ready()) {
		modes_ready = true;
		return python_none();
	}
	if (!py.PyErr_Occurred())
		py.PyErr_SetString(*(object **)py.PyExc_TypeError,
				   "this PyTorch lacks what is needed");
	return NULL;
}

bool modes_call_fill(object *module)
{
	static struct method methods[] = {
	    {"made", made, METH_VARARGS, NULL},
	    {"is_out", is_out, METH_NOARGS, NULL},
	    {"end", end, METH_NOARGS, NULL},
	    {"enter", enter, METH_NOARGS, NULL},
	    {"leave", leave, METH_O, NULL},
	    {"program_call", program_call, METH_VARARGS, NULL},
	    {"is_busy", is_busy, METH_NOARGS, NULL},
	    {"pause_busy", pause_busy, METH_NOARGS, NULL},
	    {"resume_busy", resume_busy, METH_O, NULL},
	    {"refresh", refresh, METH_NOARGS, NULL},
	    {"is_inside", is_inside, METH_NOARGS, NULL},
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
	    {"watch", watch, METH_O, NULL},
	    {"is_trusted", is_trusted, METH_O, NULL},
	    {"stands_still", stands_still, METH_O, NULL},
	    {"ready", ready, METH_VARARGS, NULL},
	};
	object **asked[] = {&own.plan_of, &own.look_again, &own.leave_thread};
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		python_drop(*asked[i]); /* of a ditrace before */
		*asked[i] = NULL;
	}
	python_drop(own.plans);
	modes_out = modes_ready = false;
	budget_forget();
	modes_threads_forget();
	own.plans = py.PyDict_New();
	bool good = own.plans && modes_counts_begin();
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		good = good && modes_set(module, methods[i].name,
					 py.PyCFunction_NewEx(&methods[i], NULL, NULL));
	return good;
}
