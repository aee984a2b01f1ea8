#define _GNU_SOURCE

#include <stdint.h>

#include "tracer/shim/extension/modes.h"

static struct {
	object *dtype, *to, *copy, *dtypes, *may_write, *narrow, *check_call, *check_kernels,
	    *check_integers, *counterpart, *tell_casts, *castings_is_new;
	object *cast, *a_dtype, *a_floating, *a_complex, *a_dtypes;
} own;
static struct seen castings;

bool modes_cast_ready(void)
{
	const struct modes_wanted names[] = {{&own.dtype, "names.DTYPE"},
					     {&own.to, "names.TO"},
					     {&own.copy, "names.COPY"},
					     {&own.dtypes, "cast.DTYPES"},
					     {&own.may_write, "arguments.may_write"},
					     {&own.narrow, "kernels.NARROW"},
					     {&own.check_call, "cast.check_call"},
					     {&own.check_kernels, "cast.check_kernels"},
					     {&own.check_integers, "cast.check_integers"},
					     {&own.counterpart, "cast.counterpart"},
					     {&own.tell_casts, "cast.tell_casts"},
					     {&own.castings_is_new, "cast.CASTINGS_IS_NEW"}},
				  texts[] = {{&own.cast, "cast"},
					     {&own.a_dtype, "dtype"},
					     {&own.a_floating, "is_floating_point"},
					     {&own.a_complex, "is_complex"},
					     {&own.a_dtypes, "dtypes"}};
	bool good = modes_names(names, sizeof(names) / sizeof(names[0])) &&
		    modes_texts(texts, sizeof(texts) / sizeof(texts[0]));
	seen_forget(&castings);
	return good;
}

struct cast {
	struct copies call;
	object *dtypes;
	object *before, *after; /* dtypes of results */
	object *writes; /* borrowed True or False: may_write() of modes/; NULL: not asked yet */
	/* Some tensor is cast; some are integers; some go to a dtype that not all functions
	 * support. */
	bool some, integers, narrow;
};

/* False also with an error: it is not known. */
static bool may_write(struct cast *c)
{
	const struct copies *call = &c->call;
	if (!c->writes) {
		c->writes = py.PyObject_CallFunctionObjArgs(own.may_write, call->plan, call->args,
							    call->kwargs, PY_END);
		python_drop(c->writes); /* True and False are immortal */
	}
	return c->writes == py._Py_TrueStruct;
}

/* A tensor that keeps its dtype is copied, too, if the call may write: the program must not see
 * what a failing call wrote. */
static object *to_dtype(object *tensor, void *context)
{
	struct cast *c = context;
	object *d = py.PyObject_GetAttr(tensor, own.a_dtype);
	object *wanted = d ? py.PyDict_GetItemWithError(c->dtypes, d) : NULL;
	python_drop(d);
	if (wanted == py._Py_NoneStruct)
		return modes_unchanged("is to be cast to a dtype that this PyTorch lacks");
	if (!wanted && may_write(c)) {
		object *args = py.PyTuple_Pack(2, tensor, d);
		object *r = args ? py.PyObject_Call(own.to, args, own.copy) : NULL;
		python_drop(args);
		return r;
	}
	if (!wanted)
		return NULL;
	c->some = true;
	if (py.PySequence_Contains(own.narrow, wanted) == 1)
		c->narrow = true;
	else if (!python_has(wanted, own.a_floating, py._Py_TrueStruct))
		c->integers = c->integers || !python_has(wanted, own.a_complex, py._Py_TrueStruct);
	return copies_to(tensor, wanted);
}

static bool is_no_dtype(object *leaf, void *context)
{
	(void)context;
	if (python_type(leaf) != own.dtype)
		return true;
	modes_unchanged("is told a dtype");
	return false;
}

static bool is_of_call(const struct copies *c, object *tensor)
{
	for (size_t i = 0; i < c->tensors.n; i++)
		if (c->tensors.list[i] == tensor)
			return true;
	return false;
}

static object *back_to_dtype(object *leaf, void *context)
{
	struct cast *c = context;
	const struct copies *call = &c->call;
	object *original = stand_original(&call->stand, leaf);
	if (original)
		return python_kept(original);
	if (!nest_is_tensor(leaf) || is_of_call(call, leaf))
		return python_kept(leaf);
	object *d = py.PyObject_GetAttr(leaf, own.a_dtype), *r = NULL;
	object *wanted =
	    !d ? NULL
	    : d == c->after
		? python_kept(c->before)
		: py.PyObject_CallFunctionObjArgs(own.counterpart, d, c->before, c->after,
						  c->dtypes, call->args, call->kwargs, PY_END);
	if (wanted)
		r = wanted == d ? python_kept(leaf) : copies_to(leaf, wanted);
	python_drop(wanted);
	python_drop(d);
	return r;
}

static object *finish(struct cast *c)
{
	struct copies *call = &c->call;
	object *given = NULL;
	c->before = copies_promoted(call, false);
	c->after = c->before ? copies_promoted(call, true) : NULL;
	if (c->after)
		given = nest_rebuilt(call->result, back_to_dtype, c);
	if (given && !stand_write_back(&call->stand, call->plan, call->args, call->kwargs)) {
		python_drop(given);
		given = NULL;
	}
	if (!given)
		return NULL;
	modes_tally(own.cast, call->plan, py._Py_NoneStruct);
	if (seen_is_new(&castings, own.castings_is_new, call->plan, call->at, call->args,
			call->kwargs)) {
		object *called = py.PyTuple_Pack(3, c->dtypes, call->args, call->kwargs);
		if (called)
			copies_tell(call, own.tell_casts, called, given);
		python_drop(called);
	}
	return given;
}

static bool is_on_device(const struct copies *c)
{
	for (size_t i = 0; i < c->tensors.n; i++)
		if (!copies_is_on_cpu(c->tensors.list[i]))
			return true;
	return false;
}

static bool checked(object *r)
{
	python_drop(r);
	return r;
}

static bool may_cast(const struct cast *c)
{
	const struct copies *call = &c->call;
	if (!c->some)
		return modes_unchanged("has no tensor of such a dtype");
	if (!checked(py.PyObject_CallFunctionObjArgs(own.check_call, call->plan, call->args,
						     call->kwargs, PY_END)))
		return false;
	if (c->integers && !checked(py.PyObject_CallFunctionObjArgs(own.check_integers, call->args,
								    call->kwargs, PY_END)))
		return false;
	return (!c->narrow && !is_on_device(call)) ||
	       checked(py.PyObject_CallFunctionObjArgs(own.check_kernels, call->plan, call->args,
						       call->kwargs, c->dtypes, PY_END));
}

static bool call_cast(struct cast *c)
{
	struct copies *call = &c->call;
	call->stand = (struct stand){.made = to_dtype, .context = c};
	return nest_each(call->args, is_no_dtype, NULL) &&
	       nest_each(call->kwargs, is_no_dtype, NULL) && copies_make(call) && may_cast(c) &&
	       copies_call(call) && stand_check(&call->stand, call->result);
}

object *modes_cast(object *self, object *args)
{
	struct cast c = {0};
	object *given = NULL;
	(void)self;
	if (copies_take(&c.call, args, own.cast)) {
		object *of_plan = py.PyObject_GetAttr(c.call.plan, own.a_dtypes);
		c.dtypes = of_plan == py._Py_NoneStruct ? own.dtypes : of_plan;
		if (of_plan && call_cast(&c))
			given = finish(&c);
		python_drop(of_plan);
	}
	python_drop(c.before);
	python_drop(c.after);
	copies_drop(&c.call);
	return given;
}
