#define _GNU_SOURCE
#include "tracer/shim/extension/modes.h"

#include <stdint.h>

#include "base/system.h"
#include "tracer/shim/shim.h"

static struct budget budget;
static double spent;  /* nanoseconds of all threads, under any budget */
static double passed; /* of each thread from its first call to its last, ns */
static __thread uint64_t taken_last;
static __thread uint64_t seen_last; /* time up to which this thread's is in `passed`; 0: not yet */

/* A hash of the place that makes the call; 0 where it is not known. */
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
static void pass(uint64_t now, uint64_t ns)
{
	passed += (double)(seen_last ? now - seen_last : ns);
	seen_last = now;
}

bool budget_takes(object *what)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	pass(now, 0);
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

static void spend(uint64_t number, bool backward, uint64_t ns)
{
	pass(clock_ns(CLOCK_MONOTONIC), ns);
	spent += (double)ns;
	budget_spend(&budget, number, backward, ns);
}

void budget_spent(uint64_t number, uint64_t ns)
{
	spend(number, false, ns);
}

static uint64_t argument(object *args, ssize_t i)
{
	return (uint64_t)py.PyLong_AsLong(py.PyTuple_GetItem(args, i));
}

object *modes_spend(object *self, object *args)
{
	(void)self;
	spend(argument(args, 0), argument(args, 1), argument(args, 2));
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
	budget_came(&budget, argument(args, 0), argument(args, 1));
	return python_none();
}

object *modes_spent(object *self, object *unused)
{
	(void)self, (void)unused;
	if (seen_last)
		pass(clock_ns(CLOCK_MONOTONIC), 0);
	object *a = py.PyFloat_FromDouble(spent), *b = py.PyFloat_FromDouble(passed);
	object *r = a && b ? py.PyTuple_Pack(2, a, b) : NULL;
	python_drop(a);
	python_drop(b);
	return r;
}
