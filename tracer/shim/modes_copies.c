#define _GNU_SOURCE
#include "tracer/shim/modes_copies.h"

#include <stdint.h>

#include "tracer/shim/modes_call.h"
#include "tracer/shim/modes_change.h"
#include "tracer/shim/modes_seen.h"
#include "tracer/shim/modes_stand.h"

static struct {
	object *cpu, *float16, *bfloat16, *float32, *dtype, *device, *generator, *to, *copy,
	    *dtypes;
	object *no_half, *has_no_half, *promoted, *rows_of_fallback, *tell_fallback, *tell_casts,
	    *fallbacks_is_new, *castings_is_new;
	object *fallback, *cast, *a_device, *a_dtype, *a_is_cpu, *a_floating, *a_refused, *a_dtypes,
	    *a_name;
} own;
static struct seen fallbacks, castings;

bool modes_copies_ready(void)
{
	const struct {
		object **place;
		const char *name;
	} names[] = {{&own.cpu, "CPU"},
		     {&own.float16, "FLOAT16"},
		     {&own.bfloat16, "BFLOAT16"},
		     {&own.float32, "FLOAT32"},
		     {&own.dtype, "DTYPE"},
		     {&own.device, "DEVICE"},
		     {&own.generator, "GENERATOR"},
		     {&own.to, "TO"},
		     {&own.copy, "COPY"},
		     {&own.dtypes, "DTYPES"},
		     {&own.no_half, "NO_HALF"},
		     {&own.has_no_half, "has_no_half"},
		     {&own.promoted, "promoted"},
		     {&own.rows_of_fallback, "rows_of_fallback"},
		     {&own.tell_fallback, "tell_fallback"},
		     {&own.tell_casts, "tell_casts"},
		     {&own.fallbacks_is_new, "FALLBACKS_IS_NEW"},
		     {&own.castings_is_new, "CASTINGS_IS_NEW"}},
	  texts[] = {{&own.fallback, "fallback"}, {&own.cast, "cast"},
		     {&own.a_device, "device"},	  {&own.a_dtype, "dtype"},
		     {&own.a_is_cpu, "is_cpu"},	  {&own.a_floating, "is_floating_point"},
		     {&own.a_refused, "refused"}, {&own.a_dtypes, "dtypes"},
		     {&own.a_name, "name"}};
	bool good = stand_ready();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*names[i].place = modes_name(names[i].name);
		good = good && *names[i].place;
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (!*texts[i].place)
			*texts[i].place = py.PyUnicode_InternFromString(texts[i].name);
		good = good && *texts[i].place;
	}
	seen_forget(&fallbacks);
	seen_forget(&castings);
	return good;
}

/* (plan, call, args, kwargs, at), all borrowed. */
struct asked {
	object *plan, *call, *args, *kwargs, *at;
	struct tensors tensors;
};

/* False: there is an error, or the function is none that `feature` is for. asked_drop frees. */
static bool take(struct asked *a, object *args, object *feature)
{
	*a = (struct asked){py.PyTuple_GetItem(args, 0), py.PyTuple_GetItem(args, 1),
			    py.PyTuple_GetItem(args, 2), py.PyTuple_GetItem(args, 3),
			    py.PyTuple_GetItem(args, 4), {0}};
	object *refused = py.PyObject_GetAttr(a->plan, own.a_refused);
	object *why = refused ? py.PyDict_GetItemWithError(refused, feature) : NULL;
	object *text = why ? py.PyUnicode_AsUTF8String(why) : NULL;
	if (text)
		modes_unchanged(py.PyBytes_AsString(text));
	python_drop(text);
	python_drop(refused);
	return !py.PyErr_Occurred() && nest_tensors(a->args, &a->tensors) &&
	       nest_tensors(a->kwargs, &a->tensors);
}

/* The same call with other arguments. */
struct other_call {
	struct stand stand;
	object *args, *kwargs, *result;
};

static bool make(struct other_call *o, const struct asked *a)
{
	o->args = stand_for(&o->stand, a->args);
	o->kwargs = o->args ? stand_for(&o->stand, a->kwargs) : NULL;
	return o->kwargs;
}

static bool call_other(struct other_call *o, const struct asked *a)
{
	o->result = py.PyObject_Call(a->call, o->args, o->kwargs);
	return o->result;
}

static void drop_other(struct other_call *o)
{
	python_drop(o->args);
	python_drop(o->kwargs);
	python_drop(o->result);
	stand_drop(&o->stand);
	o->args = o->kwargs = o->result = NULL;
}

static bool is_dtype(object *tensor, object *dtype)
{
	object *d = py.PyObject_GetAttr(tensor, own.a_dtype);
	python_drop(d);
	return d == dtype;
}

/* float16 or bfloat16, if a tensor has that; borrowed from torch. */
static object *half_of(const struct tensors *t)
{
	for (size_t i = 0; i < t->n; i++) {
		object *d = py.PyObject_GetAttr(t->list[i], own.a_dtype);
		python_drop(d); /* torch keeps it */
		if (d && (d == own.float16 || d == own.bfloat16))
			return d;
	}
	return NULL;
}

/* --- on the CPU */

struct fallback {
	struct other_call on_cpu;
	object *device, *half;
	bool widened;	   /* half precision computed in float32 */
	struct stand back; /* results, each brought to the device once */
};

static object *to_cpu(object *tensor, void *context)
{
	struct fallback *f = context;
	bool wide = f->widened && (is_dtype(tensor, own.float16) || is_dtype(tensor, own.bfloat16));
	object *args = wide ? py.PyTuple_Pack(3, tensor, own.cpu, own.float32)
			    : py.PyTuple_Pack(2, tensor, own.cpu);
	object *r = args ? py.PyObject_Call(own.to, args, own.copy) : NULL;
	python_drop(args);
	return r;
}

static bool is_of_cpu(object *generator)
{
	object *device = py.PyObject_GetAttr(generator, own.a_device);
	bool same = device && py.PyObject_RichCompareBool(device, own.cpu, PY_EQUAL) == 1;
	python_drop(device);
	return same;
}

static object *other_for_cpu(object *leaf, void *context)
{
	struct fallback *f = context;
	object *type = python_type(leaf);
	if (type == own.device)
		return python_kept(own.cpu);
	if (type == own.dtype && f->widened && (leaf == own.float16 || leaf == own.bfloat16))
		return python_kept(own.float32);
	if (type == own.generator && !is_of_cpu(leaf))
		return modes_unchanged("has a generator of the device");
	return python_kept(leaf);
}

static bool compute(struct fallback *f, const struct asked *a, bool widened)
{
	f->widened = widened;
	f->on_cpu.stand = (struct stand){.made = to_cpu, .other = other_for_cpu, .context = f};
	return make(&f->on_cpu, a) && call_other(&f->on_cpu, a);
}

/* After an error: was it that the CPU cannot compute in half precision? Then there is none. */
static bool lacks_half(void)
{
	object *error[3];
	py.PyErr_Fetch(&error[0], &error[1], &error[2]);
	py.PyErr_NormalizeException(&error[0], &error[1], &error[2]);
	object *r = py.PyErr_GivenExceptionMatches(error[0], *(object **)py.PyExc_RuntimeError)
			? py.PyObject_CallFunctionObjArgs(own.has_no_half, error[1], PY_END)
			: NULL;
	bool lacks = r && py.PyObject_IsTrue(r) == 1;
	python_drop(r);
	if (!lacks) {
		py.PyErr_Restore(error[0], error[1], error[2]);
		return false;
	}
	for (int i = 0; i < 3; i++)
		python_drop(error[i]);
	return true;
}

static bool compute_half(struct fallback *f, const struct asked *a)
{
	object *name = py.PyObject_GetAttr(a->plan, own.a_name);
	object *key = name ? py.PyTuple_Pack(2, name, f->half) : NULL;
	int known = key ? py.PySequence_Contains(own.no_half, key) : -1;
	bool good = !known && compute(f, a, false);
	if (!good && (known == 1 || (!known && lacks_half()))) {
		drop_other(&f->on_cpu);
		good = compute(f, a, true);
		if (good && !known && py.PyDict_SetItem(own.no_half, key, py._Py_NoneStruct))
			python_forget();
	}
	python_drop(key);
	python_drop(name);
	return good;
}

static object *to_device(object *tensor, void *context)
{
	struct fallback *f = context;
	object *original = stand_original(&f->on_cpu.stand, tensor);
	if (original)
		return python_kept(original);
	return f->widened && is_dtype(tensor, own.float32)
		   ? py.PyObject_CallFunctionObjArgs(own.to, tensor, f->device, f->half, PY_END)
		   : py.PyObject_CallFunctionObjArgs(own.to, tensor, f->device, PY_END);
}

/* The device of all tensors that are not on the CPU; NULL: Unchanged, or an error. */
static object *device_of(const struct tensors *t)
{
	object *device = NULL;
	for (size_t i = 0; i < t->n; i++) {
		object *is_cpu = py.PyObject_GetAttr(t->list[i], own.a_is_cpu);
		python_drop(is_cpu);
		if (is_cpu == py._Py_TrueStruct)
			continue;
		object *d = py.PyObject_GetAttr(t->list[i], own.a_device);
		bool same = d && device && py.PyObject_RichCompareBool(d, device, PY_EQUAL) == 1;
		if (d && !device) {
			device = d;
			continue;
		}
		python_drop(d);
		if (same)
			continue;
		python_drop(device);
		return py.PyErr_Occurred() ? NULL : modes_unchanged("is on several devices");
	}
	return device ? device : modes_unchanged("is on the CPU");
}

static void tell(object *function, object *plan, object *at, object *rows, object *given,
		 object *result)
{
	modes_busy++;
	object *r =
	    py.PyObject_CallFunctionObjArgs(function, plan, at, rows, given, result, PY_END);
	modes_busy--;
	if (!r)
		python_forget();
	python_drop(r);
}

/* What the program gets; NULL with an error. */
static object *finish_fallback(struct fallback *f, const struct asked *a)
{
	struct other_call *o = &f->on_cpu;
	object *rows = NULL;
	f->back = (struct stand){.made = to_device, .context = f};
	object *given = stand_check(&o->stand, o->result) ? stand_for(&f->back, o->result) : NULL;
	if (given &&
	    seen_is_new(&fallbacks, own.fallbacks_is_new, a->plan, a->at, a->args, a->kwargs)) {
		rows = py.PyObject_CallFunctionObjArgs(own.rows_of_fallback, a->plan, a->args,
						       a->kwargs, o->args, o->kwargs, PY_END);
		if (!rows)
			python_forget();
	}
	if (given && !stand_write_back(&o->stand, a->plan, a->args, a->kwargs)) {
		python_drop(given);
		given = NULL;
	}
	if (given)
		modes_tally(own.fallback, a->plan, py._Py_NoneStruct);
	if (given && rows)
		tell(own.tell_fallback, a->plan, a->at, rows, given, o->result);
	python_drop(rows);
	return given;
}

object *modes_fallback(object *self, object *args)
{
	struct asked a;
	struct fallback f = {0};
	object *given = NULL;
	(void)self;
	if (take(&a, args, own.fallback)) {
		f.device =
		    a.tensors.n ? device_of(&a.tensors) : modes_unchanged("makes a tensor of none");
		f.half = f.device ? half_of(&a.tensors) : NULL;
		if (f.device && (f.half ? compute_half(&f, &a) : compute(&f, &a, false)))
			given = finish_fallback(&f, &a);
	}
	stand_drop(&f.back);
	drop_other(&f.on_cpu);
	python_drop(f.device);
	tensors_drop(&a.tensors);
	return given;
}

/* --- in another dtype */

struct cast {
	struct other_call other;
	object *dtypes;
	object *before, *after; /* dtypes of results; None: of neither is any tensor */
};

static object *to_dtype(object *tensor, void *context)
{
	struct cast *c = context;
	object *d = py.PyObject_GetAttr(tensor, own.a_dtype);
	object *wanted = d ? py.PyDict_GetItemWithError(c->dtypes, d) : NULL;
	python_drop(d);
	return wanted ? py.PyObject_CallFunctionObjArgs(own.to, tensor, wanted, PY_END) : NULL;
}

static bool is_no_dtype(object *leaf, void *context)
{
	(void)context;
	if (python_type(leaf) != own.dtype)
		return true;
	modes_unchanged("is told a dtype");
	return false;
}

/* promoted() of modes/, at once where all tensors that count have one dtype. A new reference; NULL
 * with an error. */
static object *promoted(object *args, object *kwargs)
{
	struct tensors t = {0};
	object *found = NULL;
	bool one = nest_tensors(args, &t) && nest_tensors(kwargs, &t);
	for (size_t i = 0; i < t.n && one; i++) {
		object *d = py.PyObject_GetAttr(t.list[i], own.a_dtype);
		object *floating = d ? py.PyObject_GetAttr(d, own.a_floating) : NULL;
		python_drop(floating);
		python_drop(d);
		if (d && floating == py._Py_FalseStruct)
			continue;
		one = d && floating && (!found || d == found);
		found = d;
	}
	tensors_drop(&t);
	if (one)
		return found ? python_kept(found) : python_none();
	return py.PyErr_Occurred()
		   ? NULL
		   : py.PyObject_CallFunctionObjArgs(own.promoted, args, kwargs, PY_END);
}

static object *back_to_dtype(object *leaf, void *context)
{
	struct cast *c = context;
	object *original = stand_original(&c->other.stand, leaf);
	if (original)
		return python_kept(original);
	if (!nest_is_tensor(leaf) || c->after == py._Py_NoneStruct ||
	    c->before == py._Py_NoneStruct || !is_dtype(leaf, c->after))
		return python_kept(leaf);
	return py.PyObject_CallFunctionObjArgs(own.to, leaf, c->before, PY_END);
}

static object *finish_cast(struct cast *c, const struct asked *a)
{
	struct other_call *o = &c->other;
	object *given = NULL;
	c->before = promoted(a->args, a->kwargs);
	c->after = c->before ? promoted(o->args, o->kwargs) : NULL;
	if (c->after)
		given = nest_rebuilt(o->result, back_to_dtype, c);
	if (given && !stand_write_back(&o->stand, a->plan, a->args, a->kwargs)) {
		python_drop(given);
		given = NULL;
	}
	if (!given)
		return NULL;
	modes_tally(own.cast, a->plan, py._Py_NoneStruct);
	if (seen_is_new(&castings, own.castings_is_new, a->plan, a->at, a->args, a->kwargs)) {
		object *call = py.PyTuple_Pack(3, c->dtypes, a->args, a->kwargs);
		if (call)
			tell(own.tell_casts, a->plan, a->at, call, given, o->result);
		python_drop(call);
	}
	return given;
}

static bool call_cast(struct cast *c, const struct asked *a)
{
	c->other.stand = (struct stand){.made = to_dtype, .context = c};
	if (!nest_each(a->args, is_no_dtype, NULL) || !nest_each(a->kwargs, is_no_dtype, NULL) ||
	    !make(&c->other, a))
		return false;
	if (!c->other.stand.n)
		return modes_unchanged("has no tensor of such a dtype");
	return call_other(&c->other, a) && stand_check(&c->other.stand, c->other.result);
}

object *modes_cast(object *self, object *args)
{
	struct asked a;
	struct cast c = {0};
	object *given = NULL;
	(void)self;
	if (take(&a, args, own.cast)) {
		object *of_plan = py.PyObject_GetAttr(a.plan, own.a_dtypes);
		c.dtypes = of_plan == py._Py_NoneStruct ? own.dtypes : of_plan;
		if (of_plan && call_cast(&c, &a))
			given = finish_cast(&c, &a);
		python_drop(of_plan);
	}
	python_drop(c.before);
	python_drop(c.after);
	drop_other(&c.other);
	tensors_drop(&a.tensors);
	return given;
}
