#define _GNU_SOURCE

#include <stdint.h>

#include "tracer/shim/extension/modes.h"

static struct {
	object *cpu, *float16, *bfloat16, *float32, *dtype, *device, *generator, *to, *copy;
	object *no_half, *has_no_half, *lacks_half_backward, *rows_of_fallback, *tell_fallback,
	    *fallbacks_is_new;
	object *fallback, *a_device, *a_dtype, *a_name;
} own;
static struct seen fallbacks;

bool modes_fallback_ready(void)
{
	const struct modes_wanted names[] = {{&own.cpu, "names.CPU"},
					     {&own.float16, "names.FLOAT16"},
					     {&own.bfloat16, "names.BFLOAT16"},
					     {&own.float32, "names.FLOAT32"},
					     {&own.dtype, "names.DTYPE"},
					     {&own.device, "names.DEVICE"},
					     {&own.generator, "names.GENERATOR"},
					     {&own.to, "names.TO"},
					     {&own.copy, "names.COPY"},
					     {&own.no_half, "fallback.NO_HALF"},
					     {&own.has_no_half, "fallback.has_no_half"},
					     {&own.lacks_half_backward,
					      "fallback.lacks_half_backward"},
					     {&own.rows_of_fallback, "fallback.rows_of_fallback"},
					     {&own.tell_fallback, "fallback.tell_fallback"},
					     {&own.fallbacks_is_new, "fallback.FALLBACKS_IS_NEW"}},
				  texts[] = {{&own.fallback, "fallback"},
					     {&own.a_device, "device"},
					     {&own.a_dtype, "dtype"},
					     {&own.a_name, "name"}};
	bool good = modes_names(names, sizeof(names) / sizeof(names[0])) &&
		    modes_texts(texts, sizeof(texts) / sizeof(texts[0]));
	seen_forget(&fallbacks);
	return good;
}

/* float16 or bfloat16, if a tensor has it; borrowed from torch. */
static object *half_of(const struct tensors *t)
{
	for (size_t i = 0; i < t->n; i++) {
		object *d = py.PyObject_GetAttr(t->list[i], own.a_dtype);
		python_drop(d); /* torch holds a reference */
		if (d && (d == own.float16 || d == own.bfloat16))
			return d;
	}
	return NULL;
}

struct fallback {
	struct copies call;
	object *device, *half;
	object *told;	   /* a dtype among the arguments; borrowed */
	object *narrow;	   /* dtype that a float32 result is narrowed to */
	bool widened;	   /* half precision is computed in float32 */
	struct stand back; /* results, each moved to the device once */
};

static object *to_cpu(object *tensor, void *context)
{
	struct fallback *f = context;
	bool wide = f->widened &&
		    (copies_is_dtype(tensor, own.float16) || copies_is_dtype(tensor, own.bfloat16));
	object *args = wide ? py.PyTuple_Pack(3, tensor, own.cpu, own.float32)
			    : py.PyTuple_Pack(2, tensor, own.cpu);
	/* A tensor from another device is copied in any case. */
	object *r = args
			? py.PyObject_Call(own.to, args, copies_is_on_cpu(tensor) ? own.copy : NULL)
			: NULL;
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
	if (type == own.dtype)
		f->told = leaf;
	if (type == own.dtype && f->widened && (leaf == own.float16 || leaf == own.bfloat16))
		return python_kept(own.float32);
	if (type == own.generator && !is_of_cpu(leaf))
		return modes_unchanged("has a generator of the device");
	return python_kept(leaf);
}

static bool compute(struct fallback *f, bool widened)
{
	f->widened = widened;
	f->call.stand = (struct stand){.made = to_cpu, .other = other_for_cpu, .context = f};
	return copies_make(&f->call) && copies_call(&f->call);
}

/* Whether the error that is set says that the CPU lacks a half-precision kernel; it is cleared
 * then. */
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

static bool lacks_half_backward(const struct copies *c)
{
	object *r = py.PyObject_CallFunctionObjArgs(own.lacks_half_backward, c->plan, c->args,
						    c->kwargs, PY_END);
	bool lacks = r == py._Py_TrueStruct;
	python_drop(r);
	if (!r)
		python_forget();
	return lacks;
}

static bool compute_half(struct fallback *f)
{
	object *name = py.PyObject_GetAttr(f->call.plan, own.a_name);
	object *key = name ? py.PyTuple_Pack(2, name, f->half) : NULL;
	int known = key ? py.PySequence_Contains(own.no_half, key) : -1;
	bool half = !known && !lacks_half_backward(&f->call), good = half && compute(f, false);
	if (!good && (known == 1 || (!known && (!half || lacks_half())))) {
		copies_forget(&f->call);
		good = compute(f, true);
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
	object *original = stand_original(&f->call.stand, tensor);
	if (original)
		return python_kept(original);
	return f->widened && copies_is_dtype(tensor, own.float32)
		   ? py.PyObject_CallFunctionObjArgs(own.to, tensor, f->device, f->narrow, PY_END)
		   : py.PyObject_CallFunctionObjArgs(own.to, tensor, f->device, PY_END);
}

/* The device of all tensors that are not on the CPU, a new reference; NULL: Unchanged, or an error.
 */
static object *device_of(const struct tensors *t)
{
	object *device = NULL;
	for (size_t i = 0; i < t->n; i++) {
		if (copies_is_on_cpu(t->list[i]))
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

/* What the program gets, a new reference; NULL with an error. */
static object *finish(struct fallback *f)
{
	struct copies *c = &f->call;
	object *rows = NULL, *given = NULL;
	f->back = (struct stand){.made = to_device, .context = f};
	if (f->widened)
		f->narrow = f->told ? python_kept(f->told) : copies_promoted(c, false);
	if ((!f->widened || f->narrow) && stand_check(&c->stand, c->result))
		given = stand_for(&f->back, c->result);
	if (given &&
	    seen_is_new(&fallbacks, own.fallbacks_is_new, c->plan, c->at, c->args, c->kwargs)) {
		rows =
		    py.PyObject_CallFunctionObjArgs(own.rows_of_fallback, c->plan, c->args,
						    c->kwargs, c->new_args, c->new_kwargs, PY_END);
		if (!rows)
			python_forget();
	}
	if (given && !stand_write_back(&c->stand, c->plan, c->args, c->kwargs)) {
		python_drop(given);
		given = NULL;
	}
	if (given)
		modes_tally(own.fallback, c->plan, py._Py_NoneStruct);
	if (given && rows)
		copies_tell(c, own.tell_fallback, rows, given);
	python_drop(rows);
	return given;
}

object *modes_fallback(object *self, object *args)
{
	struct fallback f = {0};
	struct copies *c = &f.call;
	object *given = NULL;
	(void)self;
	if (copies_take(c, args, own.fallback)) {
		f.device = c->tensors.n ? device_of(&c->tensors)
					: modes_unchanged("makes a tensor of none");
		f.half = f.device ? half_of(&c->tensors) : NULL;
		if (f.device && (f.half ? compute_half(&f) : compute(&f, false)))
			given = finish(&f);
	}
	stand_drop(&f.back);
	copies_drop(c);
	python_drop(f.device);
	python_drop(f.narrow);
	return given;
}
