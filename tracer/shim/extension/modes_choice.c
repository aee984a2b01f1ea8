/* Which calls are examined: those of a kind that was not yet (dedup), within --budget. */
#define _GNU_SOURCE
#include "tracer/shim/extension/modes.h"

#include <stdint.h>
#include <string.h>

#include "base/system.h"
#include "tracer/shim/shim.h"

enum { SEEN_MOST = SEEN_SLOTS / 2 };

/* Dedup. */

static struct {
	object *shape, *dtype, *device, *name;
} seen_names;

static uint64_t seen_mix(uint64_t key, uint64_t more)
{
	uint64_t x = (key ^ more) * 0x9e3779b97f4a7c15;
	return x ^ x >> 29;
}

static uint64_t hash_of(object *o)
{
	ssize_t h = o ? py.PyObject_Hash(o) : 0;
	if (!o || h == -1)
		python_forget();
	return (uint64_t)h;
}

static uint64_t attribute_hash(object *o, object *name)
{
	object *found = py.PyObject_GetAttr(o, name);
	uint64_t h = hash_of(found);
	python_drop(found);
	return h;
}

static bool add_leaf(object *leaf, void *context)
{
	uint64_t *key = context;
	*key = seen_mix(*key, (uint64_t)(uintptr_t)python_type(leaf));
	if (nest_is_tensor(leaf)) {
		*key = seen_mix(*key, attribute_hash(leaf, seen_names.shape));
		*key = seen_mix(*key, attribute_hash(leaf, seen_names.dtype));
		*key = seen_mix(*key, attribute_hash(leaf, seen_names.device));
	} else if (py.PyType_GetFlags(python_type(leaf)) & (LONG_SUBCLASS | TEXT_SUBCLASS) ||
		   python_type(leaf) == py.PyFloat_Type) {
		*key = seen_mix(*key, hash_of(leaf));
	}
	return true;
}

/* The slot of a key, or a free one. */
static uint64_t *seen_slot(struct seen *s, uint64_t key)
{
	size_t i = key % SEEN_SLOTS;
	while (s->slots[i] && s->slots[i] != key)
		i = (i + 1) % SEEN_SLOTS;
	return &s->slots[i];
}

uint64_t seen_hash(object *args, object *kwargs)
{
	uint64_t key = 0;
	nest_each(args, add_leaf, &key);
	nest_each(kwargs, add_leaf, &key);
	return key;
}

bool seen_is_new(struct seen *s, object *is_new, object *plan, object *at, object *args,
		 object *kwargs)
{
	uint64_t key = seen_mix(seen_mix(attribute_hash(plan, seen_names.name), hash_of(at)),
				seen_hash(args, kwargs)) |
		       1;
	uint64_t *slot = seen_slot(s, key);
	if (*slot || s->n >= SEEN_MOST)
		return false;
	*slot = key;
	s->n++;
	object *name = py.PyObject_GetAttr(plan, seen_names.name);
	object *r =
	    name ? py.PyObject_CallFunctionObjArgs(is_new, name, at, args, kwargs, PY_END) : NULL;
	bool yes = r && py.PyObject_IsTrue(r) == 1;
	if (!r)
		python_forget();
	python_drop(r);
	python_drop(name);
	return yes;
}

void seen_forget(struct seen *s)
{
	memset(s, 0, sizeof(*s));
	if (seen_names.name)
		return;
	seen_names.shape = py.PyUnicode_InternFromString("shape");
	seen_names.dtype = py.PyUnicode_InternFromString("dtype");
	seen_names.device = py.PyUnicode_InternFromString("device");
	seen_names.name = py.PyUnicode_InternFromString("name");
}

/* --budget. */

static struct budget budget;
static double spent;  /* nanoseconds of all threads, under any budget */
static double passed; /* of each thread from its first call to its last, ns */
static __thread uint64_t taken_last;
static __thread uint64_t seen_last; /* time up to which this thread's is in `passed`; 0: not yet */

/* A hash of the place that makes the call; 0 where it is not knseen_names. */
static uint64_t place_hash(void)
{
	object *at = modes_place(NULL, NULL);
	ssize_t h = at ? py.PyObject_Hash(at) : -1;
	python_drop(at);
	if (h == -1)
		python_forget();
	return (uint64_t)(h + 1);
}

/* This thread is at a call, and was at it for `ns`. */
static void budget_pass(uint64_t now, uint64_t ns)
{
	passed += (double)(seen_last ? now - seen_last : ns);
	seen_last = now;
}

bool budget_takes(object *what)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	budget_pass(now, 0);
	uint64_t number = budget_decide(&budget, what, budget.share > 0 ? place_hash() : 0, now);
	if (number)
		taken_last = number;
	return number;
}

uint64_t budget_number(void)
{
	return taken_last;
}

void budget_set_number(uint64_t number)
{
	taken_last = number;
}

object *modes_budget_number(object *self, object *unused)
{
	(void)self, (void)unused;
	return py.PyLong_FromLong((long)taken_last);
}

object *modes_takes(object *self, object *what)
{
	(void)self;
	return py.PyBool_FromLong(budget_takes(what));
}

object *modes_budget(object *self, object *share)
{
	(void)self;
	budget_begin(&budget, py.PyFloat_AsDouble(share));
	return python_none();
}

void budget_forget(void)
{
	spent = passed = 0;
	seen_last = 0;
}

static void budget_take_off(uint64_t number, bool backward, uint64_t ns)
{
	budget_pass(clock_ns(CLOCK_MONOTONIC), ns);
	spent += (double)ns;
	budget_spend(&budget, number, backward, ns);
}

void budget_spent(uint64_t number, uint64_t ns)
{
	budget_take_off(number, false, ns);
}

static uint64_t budget_argument(object *args, ssize_t i)
{
	return (uint64_t)py.PyLong_AsLong(py.PyTuple_GetItem(args, i));
}

object *modes_spend(object *self, object *args)
{
	(void)self;
	budget_take_off(budget_argument(args, 0), budget_argument(args, 1),
			budget_argument(args, 2));
	return python_none();
}

object *modes_comes(object *self, object *number)
{
	(void)self;
	budget_await(&budget, (uint64_t)py.PyLong_AsLong(number));
	return python_none();
}

object *modes_came(object *self, object *args)
{
	(void)self;
	budget_came(&budget, budget_argument(args, 0), budget_argument(args, 1));
	return python_none();
}

object *modes_spent(object *self, object *unused)
{
	(void)self, (void)unused;
	if (seen_last)
		budget_pass(clock_ns(CLOCK_MONOTONIC), 0);
	object *a = py.PyFloat_FromDouble(spent), *b = py.PyFloat_FromDouble(passed);
	object *r = a && b ? py.PyTuple_Pack(2, a, b) : NULL;
	python_drop(a);
	python_drop(b);
	return r;
}
