#define _GNU_SOURCE
#include "tracer/shim/extension/modes.h"

#include <string.h>
#include <sys/mman.h>

#include "tracer/engine/shim/shim_share.h"
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

/* Of the rules that plans and settings are by; in the child of a fork at first what the parent had
 * met. */
static uint32_t generation;
static bool has_met;

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

/* A plan that another thread is making by the rules before goes where it is not looked for. */
static void forget_plans(void)
{
	object *old = own.plans, *none = py.PyDict_New();
	if (!none) {
		python_forget();
		py.PyDict_Clear(old);
		return;
	}
	own.plans = none;
	python_drop(old);
}

/* The rules have changed: forget all that was derived from them. */
static void look_again(void)
{
	generation = atomic_load(&control->generation);
	forget_plans();
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
	object *plans = python_kept(own.plans);
	found = modes_ask(own.plan_of, func);
	if (found && !modes_out && py.PyDict_Size(plans) < PLANS_MOST &&
	    py.PyDict_SetItem(plans, func, found))
		python_forget();
	python_drop(plans);
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

/* The modes of both levels. Never freed: a thread may still have one on its stack after it is out
 * of use. */
static struct kind {
	const char *attribute; /* under which PyTorch looks up mode_call */
	object *mode, *call;
} kinds[] = {{"__torch_function__", NULL, NULL}, {"__torch_dispatch__", NULL, NULL}};

static object *mode_call(object *mode, object *args, object *keywords)
{
	struct asked a;
	if (!asked_parse(&a, args, keywords))
		return NULL;
	unsigned included = mode == kinds[1].mode ? modes_keys_include() : 0;
	inside++;
	object *r = asked_for(mode, &a);
	inside--;
	modes_keys_exclude(included);
	python_drop(a.args);
	return r;
}

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

static bool make_mode(struct kind *k, struct method *method, object *base, object *bound)
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

object *modes_made(object *self, object *args)
{
	static struct method methods[2] = {{NULL, NULL, METH_VARARGS | METH_KEYWORDS, NULL},
					   {NULL, NULL, METH_VARARGS | METH_KEYWORDS, NULL}};
	int i = py.PyObject_IsTrue(py.PyTuple_GetItem(args, 1)) == 1;
	(void)self;
	if (!kinds[i].mode && !make_mode(&kinds[i], &methods[i], py.PyTuple_GetItem(args, 0),
					 py.PyTuple_GetItem(args, 2)))
		return NULL;
	own.mode = kinds[i].mode;
	return python_kept(own.mode);
}

object *modes_is_busy(object *self, object *arg)
{
	(void)self, (void)arg;
	return py.PyBool_FromLong(is_resting());
}

object *modes_refresh(object *self, object *arg)
{
	(void)self, (void)arg;
	if (control && control->generation != generation)
		look_again();
	return python_none();
}

object *modes_is_inside(object *self, object *arg)
{
	(void)self, (void)arg;
	return py.PyBool_FromLong(inside);
}

object *modes_watch(object *self, object *number)
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
		if (!has_met)
			generation = control->generation;
		has_met = true;
	}
	return py.PyBool_FromLong(p != MAP_FAILED);
}

object *modes_look_up(object *self, object *args)
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
	    modes_keys_ready() && modes_fallback_ready() && modes_cast_ready() &&
	    modes_compare_ready())
		return python_none();
	if (!py.PyErr_Occurred())
		py.PyErr_SetString(*(object **)py.PyExc_TypeError,
				   "this PyTorch lacks what is needed");
	return NULL;
}

bool modes_call_begin(void)
{
	object **asked[] = {&own.plan_of, &own.look_again, &own.leave_thread};
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		python_drop(*asked[i]); /* of a ditrace before */
		*asked[i] = NULL;
	}
	python_drop(own.plans);
	modes_out = modes_ready = has_met = false;
	budget_forget();
	modes_threads_forget();
	own.plans = py.PyDict_New();
	return own.plans && modes_counts_begin();
}
