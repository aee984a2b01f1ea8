#define _GNU_SOURCE

#include <stdint.h>
#include <string.h>

#include "base/system.h"
#include "tracer/shim/extension/modes.h"
#include "tracer/shim/shim.h"

static struct {
	object *whole, *made, *watch, *cpu, *float64, *to, *clone, *get_state, *set_state,
	    *state_bytes, *data_ptr, *autocast, *autocast_cpu, *dispatching, *grad, *set_grad;
	object *compare, *out, *inplace, *a_dtype, *a_floating, *a_complex, *a_requires_grad,
	    *a_version;
} own;

static size_t state_bytes; /* size of the CPU generator's state */

bool modes_compare_ready(void)
{
	const struct modes_wanted names[] = {{&own.whole, "compare.compare_call"},
					     {&own.made, "compare.compare_made"},
					     {&own.watch, "compare.watch_made"},
					     {&own.cpu, "names.CPU"},
					     {&own.float64, "names.FLOAT64"},
					     {&own.to, "names.TO"},
					     {&own.clone, "names.CLONE"},
					     {&own.data_ptr, "names.DATA_PTR"},
					     {&own.get_state, "names.GET_STATE"},
					     {&own.set_state, "names.SET_STATE"},
					     {&own.state_bytes, "names.STATE_BYTES"},
					     {&own.autocast, "names.AUTOCAST"},
					     {&own.autocast_cpu, "names.AUTOCAST_CPU"},
					     {&own.dispatching, "names.DISPATCHING"},
					     {&own.grad, "names.GRAD"},
					     {&own.set_grad, "names.SET_GRAD"}},
				  texts[] = {{&own.compare, "compare"},
					     {&own.out, "out"},
					     {&own.inplace, "inplace"},
					     {&own.a_dtype, "dtype"},
					     {&own.a_floating, "is_floating_point"},
					     {&own.a_complex, "is_complex"},
					     {&own.a_requires_grad, "requires_grad"},
					     {&own.a_version, "_version"}};
	bool good = modes_names(names, sizeof(names) / sizeof(names[0])) &&
		    modes_texts(texts, sizeof(texts) / sizeof(texts[0])) && lines_ready();
	state_bytes = good ? (size_t)py.PyLong_AsLong(own.state_bytes) : 0;
	return good && state_bytes;
}

/* --- one call */

struct call {
	object *plan, *func, *args, *kwargs, *at; /* borrowed */
	struct tensors tensors;
	struct stand copies;
	object *reference;
	object *written;   /* the tensor that the call writes; NULL: none */
	object *as_it_was; /* a copy of that from before the call, owned */
	long versions;	   /* of the others, see versions_of */
	double reach;
	bool wants_grads;
};

static bool says(object *function)
{
	object *r = py.PyObject_CallObject(function, NULL);
	bool yes = r && py.PyObject_IsTrue(r) == 1;
	python_drop(r);
	return yes;
}

/* The sum of the versions of all but the written one; -1: one has none, as under inference_mode. */
static long versions_of(const struct call *c)
{
	const struct tensors *t = &c->tensors;
	long sum = 0;
	for (size_t i = 0; i < t->n; i++) {
		if (t->list[i] == c->written)
			continue;
		object *version = py.PyObject_GetAttr(t->list[i], own.a_version);
		sum += version ? py.PyLong_AsLong(version) : 0;
		python_drop(version);
	}
	if (!py.PyErr_Occurred())
		return sum;
	python_forget();
	return -1;
}

static bool wants_grads(const struct tensors *t)
{
	bool any = false;
	for (size_t i = 0; i < t->n && !any; i++)
		any = python_has(t->list[i], own.a_requires_grad, py._Py_TrueStruct);
	return any && says(own.grad);
}

static bool writes(object *kwargs)
{
	return py.PyDict_Size(kwargs) && (py.PyDict_GetItemWithError(kwargs, own.out) ||
					  py.PyDict_GetItemWithError(kwargs, own.inplace));
}

/* The first argument, if it is a tensor that occurs only once. */
static bool take_written(struct call *c)
{
	size_t times = 0;
	c->written = py.PyTuple_Size(c->args) ? py.PyTuple_GetItem(c->args, 0) : NULL;
	for (size_t i = 0; i < c->tensors.n; i++)
		times += c->tensors.list[i] == c->written;
	return times == 1 && !c->wants_grads;
}

/* Whether the call can be compared here. */
static bool call_may_be_compared(struct call *c, const struct line *l)
{
	if (writes(c->kwargs) || !nest_is_known(c->args) || !nest_is_known(c->kwargs) ||
	    !nest_tensors(c->args, &c->tensors) || !nest_tensors(c->kwargs, &c->tensors) ||
	    !c->tensors.n || says(own.autocast) || says(own.autocast_cpu) || says(own.dispatching))
		return false;
	c->wants_grads = wants_grads(&c->tensors);
	if (l->in_place && !take_written(c))
		return false;
	c->versions = versions_of(c);
	c->reach = line_reach(l, c->args, c->kwargs);
	return c->versions >= 0;
}

static void set_grad(bool on)
{
	python_drop(py.PyObject_CallFunctionObjArgs(
	    own.set_grad, on ? py._Py_TrueStruct : py._Py_FalseStruct, PY_END));
}

static bool keep_written(struct call *c)
{
	bool was = c->written && says(own.grad);
	if (was)
		set_grad(false);
	if (c->written)
		c->as_it_was = py.PyObject_CallFunctionObjArgs(own.clone, c->written, PY_END);
	if (was)
		set_grad(true);
	return c->as_it_was || !c->written;
}

/* --- the CPU random generator, which must be left as the program had it when the reference is made
 */

static const void *bytes_of(object *state)
{
	object *at = state ? py.PyObject_CallFunctionObjArgs(own.data_ptr, state, PY_END) : NULL;
	const void *p = at ? py.PyLong_AsVoidPtr(at) : NULL;
	python_drop(at);
	return p;
}

/* Whether nothing was drawn since `before`; else the state is restored. */
static bool is_undrawn(object *before)
{
	object *now = py.PyObject_CallObject(own.get_state, NULL);
	const void *a = bytes_of(before), *b = bytes_of(now);
	bool same = a && b && !memcmp(a, b, state_bytes);
	python_drop(now);
	if (!same)
		python_drop(py.PyObject_CallFunctionObjArgs(own.set_state, before, PY_END));
	python_forget();
	return same;
}

/* The call with substitutes, under no_grad; NULL where it fails or draws random numbers. */
static object *called(const struct call *c, struct stand *s)
{
	bool was = says(own.grad);
	object *before = py.PyObject_CallObject(own.get_state, NULL), *r = NULL;
	if (was)
		set_grad(false);
	object *args = before ? stand_for(s, c->args) : NULL;
	object *kwargs = args ? stand_for(s, c->kwargs) : NULL;
	own_work_lock();
	if (kwargs)
		r = py.PyObject_Call(c->func, args, kwargs);
	own_work_unlock();
	python_forget();
	if (was)
		set_grad(true);
	if (before && !is_undrawn(before)) {
		python_drop(r);
		r = NULL;
	}
	python_drop(kwargs);
	python_drop(args);
	python_drop(before);
	return r;
}

/* --- the reference */

/* A copy on the CPU, floating-point ones as float64; NULL with an error for complex ones. */
static object *wide(object *tensor, void *context)
{
	(void)context;
	object *dtype = py.PyObject_GetAttr(tensor, own.a_dtype), *r = NULL;
	if (dtype && python_has(dtype, own.a_complex, py._Py_TrueStruct))
		modes_unchanged("is complex");
	else if (dtype)
		r = py.PyObject_CallFunctionObjArgs(
		    own.to, tensor, own.cpu,
		    python_has(dtype, own.a_floating, py._Py_TrueStruct) ? own.float64 : dtype,
		    py._Py_FalseStruct, py._Py_TrueStruct, PY_END);
	python_drop(dtype);
	return r;
}

/* A copy, writable by the call, of the tensor as the program's call got it. */
static object *on_cpu(object *tensor, void *context)
{
	const struct call *c = context;
	object *given = tensor == c->written ? c->as_it_was : tensor;
	object *dtype = py.PyObject_GetAttr(given, own.a_dtype);
	object *r =
	    dtype ? py.PyObject_CallFunctionObjArgs(own.to, given, own.cpu, dtype,
						    py._Py_FalseStruct, py._Py_TrueStruct, PY_END)
		  : NULL;
	python_drop(dtype);
	return r;
}

/* --- the verdict */

struct leaves {
	object *list[LINE_RESULTS]; /* tensors and numbers */
	int n;
};

static bool add_leaf(object *leaf, void *context)
{
	struct leaves *l = context;
	if (l->n == LINE_RESULTS)
		return false;
	l->list[l->n++] = leaf;
	return true;
}

static bool is_number_right(object *a, object *ref, struct told *found)
{
	*found = (struct told){LINE_PLAIN_NUMBER, 0};
	return python_type(a) == python_type(ref) && python_type(a) == py.PyFloat_Type &&
	       py.PyObject_RichCompareBool(a, ref, PY_EQUAL) == 1;
}

/* Whether the CPU gives the same in the same dtype. *cpu: its results, computed on first use. */
static bool is_as_cpu(const struct call *c, const struct leaves *a, int i, const struct numbers *n,
		      object **cpu)
{
	struct leaves l = {0};
	struct numbers of_cpu;
	if (!*cpu && versions_of(c) == c->versions) {
		struct stand s = {.made = on_cpu, .context = (void *)c};
		*cpu = called(c, &s);
		stand_drop(&s);
	}
	bool same = *cpu && nest_each(*cpu, add_leaf, &l) && l.n == a->n &&
		    nest_is_tensor(l.list[i]) && numbers_of(l.list[i], &of_cpu);
	if (!same)
		return false;
	same = judge_is_equal(n, &of_cpu);
	numbers_drop(&of_cpu);
	return same;
}

static bool is_surely_right(struct line *l, const struct call *c, const struct numbers n[2],
			    bool *sure, double *worst)
{
	struct err e = {0};
	if (l->dtype != n[0].dtype &&
	    tolerance_of(py.PyBytes_AsString(l->op), n[0].dtype, &l->by.tolerance, &e))
		return false;
	l->dtype = n[0].dtype;
	l->by.reach = c->reach;
	return judge_is_sure(&l->by, &n[0], &n[1], sure, worst);
}

static bool is_right(struct line *l, const struct call *c, const struct leaves *a, object *ref,
		     int i, object **cpu, struct told *found)
{
	struct numbers n[2] = {0};
	bool sure = false;
	if (!nest_is_tensor(a->list[i]) || !nest_is_tensor(ref))
		return is_number_right(a->list[i], ref, found);
	bool good = numbers_of(a->list[i], &n[0]) && numbers_of(ref, &n[1]) &&
		    is_surely_right(l, c, n, &sure, &found->bad);
	found->dtype = n[0].dtype;
	sure = good && (sure || is_as_cpu(c, a, i, &n[0], cpu));
	numbers_drop(&n[0]);
	numbers_drop(&n[1]);
	return sure;
}

/* Whether all results are right. *was_told: and none is further off than one already reported; else
 * l->told is updated. */
static bool are_right(struct line *l, const struct call *c, object *result, bool *was_told)
{
	struct leaves a = {0}, ref = {0};
	struct told found[LINE_RESULTS] = {{0}};
	object *cpu = NULL;
	bool right = nest_each(result, add_leaf, &a) && nest_each(c->reference, add_leaf, &ref) &&
		     a.n == ref.n && a.n;
	for (int i = 0; i < a.n && right; i++)
		right = is_right(l, c, &a, ref.list[i], i, &cpu, &found[i]);
	python_forget();
	python_drop(cpu);
	*was_told = right;
	for (int i = 0; i < a.n && right; i++) {
		struct told *t = &l->told[i];
		if (found[i].dtype == t->dtype && found[i].bad <= t->bad)
			continue;
		*was_told = false;
		*t = found[i];
	}
	l->tensors += (unsigned long)a.n;
	return right;
}

/* The arguments as the call got them; a new reference. */
static object *given(const struct call *c)
{
	ssize_t n = py.PyTuple_Size(c->args);
	object *args = c->as_it_was ? py.PyTuple_New(n) : python_kept(c->args);
	for (ssize_t i = 0; c->as_it_was && args && i < n; i++) {
		object *x = i ? py.PyTuple_GetItem(c->args, i) : c->as_it_was;
		if (py.PyTuple_SetItem(args, i, python_kept(x)))
			break;
	}
	return args;
}

static void call_report(object *function, const struct call *c, object *result)
{
	object *args = given(c);
	python_drop(args ? py.PyObject_CallFunctionObjArgs(function, c->plan, args, c->kwargs,
							   c->at, result, PY_END)
			 : NULL);
	python_drop(args);
	python_forget();
}

static void count_changed(struct line *l, object *plan)
{
	object *why =
	    py.PyUnicode_FromString("has changed an argument; its next calls are compared");
	l->whole = true;
	if (why)
		modes_tally(own.compare, plan, why);
	python_drop(why);
	python_forget();
}

/* Judge the call after it was made. Works on a copy of the line, since other threads may forget all
 * lines while PyTorch computes. */
static void judge(const struct call *c, object *result)
{
	struct line *l = line_find(c->plan, c->at), known = *l;
	bool was_told = false;
	if (!l->plan)
		return;
	python_kept(known.op);
	known.tensors = 0;
	bool right = are_right(&known, c, result, &was_told);
	bool same = versions_of(c) == c->versions;
	python_drop(known.op);
	l = line_find(c->plan, c->at);
	if (!l->plan)
		return;
	memcpy(l->told, known.told, sizeof(l->told));
	l->by = known.by;
	l->dtype = known.dtype;
	if (right && was_told) {
		l->calls++;
		l->tensors += known.tensors;
		modes_counted();
		if (c->wants_grads && same)
			call_report(own.watch, c, result);
	} else if (same) {
		judge_reach(); /* reset */
		call_report(own.made, c, result);
		line_learn_reach(c->plan, c->at, c->args, c->kwargs);
	} else {
		count_changed(l, c->plan);
	}
}

static object *own_call(struct call *c, uint64_t began)
{
	uint64_t called_at = clock_ns(CLOCK_MONOTONIC), number = budget_number();
	object *r = modes_own_call(c->func, c->args, c->kwargs);
	uint64_t took = clock_ns(CLOCK_MONOTONIC) - called_at;
	budget_set_number(number);
	if (r)
		judge(c, r);
	else
		modes_raised();
	budget_spent(number, clock_ns(CLOCK_MONOTONIC) - began - took);
	return r;
}

static object *whole_call(const struct call *c, object *args)
{
	judge_reach(); /* reset */
	object *r = py.PyObject_Call(own.whole, args, NULL);
	line_learn_reach(c->plan, c->at, c->args, c->kwargs);
	return r;
}

object *modes_compare(object *self, object *args)
{
	struct call c = {.plan = py.PyTuple_GetItem(args, 0),
			 .func = py.PyTuple_GetItem(args, 1),
			 .args = py.PyTuple_GetItem(args, 2),
			 .kwargs = py.PyTuple_GetItem(args, 3),
			 .at = py.PyTuple_GetItem(args, 4),
			 .copies = {.made = wide}};
	struct line *l = line_find(c.plan, c.at);
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	(void)self;
	if (!l->plan)
		line_begin(l, c.plan, c.at);
	else if (!l->whole && call_may_be_compared(&c, l) && keep_written(&c))
		c.reference = called(&c, &c.copies);
	python_forget();
	if (!c.reference)
		budget_spent(budget_number(), clock_ns(CLOCK_MONOTONIC) - began);
	object *r = c.reference ? own_call(&c, began) : whole_call(&c, args);
	python_drop(c.reference);
	python_drop(c.as_it_was);
	stand_drop(&c.copies);
	tensors_drop(&c.tensors);
	return r;
}
