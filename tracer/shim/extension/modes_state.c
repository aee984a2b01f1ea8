/* What the parts of the extension know and count together. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tracer/shim/extension/modes.h"
#include "tracer/shim/shim.h"

enum { FLUSH_MS = 200 }; /* least time between reports of the counts */

_Atomic bool modes_out, modes_ready;
__thread int modes_busy;

bool modes_work_begins(void)
{
	modes_busy++;
	return own_work(true);
}

void modes_work_ends(bool was)
{
	own_work(was);
	modes_busy--;
}

object *modes_own_call(object *func, object *args, object *kwargs)
{
	bool was = own_work(false);
	object *r = py.PyObject_Call(func, args, kwargs);
	own_work(was);
	return r;
}

static object *counts;	       /* a dict */
static object *flush_of_modes; /* session.flush */
static uint64_t flushed_ms;
static const object *ours[2]; /* the modes of both levels */

/* Of "module.name"; a new reference, or NULL with an error. */
static object *modes_name(const char *name)
{
	char module[64];
	const char *dot = strchr(name, '.');
	snprintf(module, sizeof(module), "ditrace_modes.%.*s", (int)(dot - name), name);
	object *m = py.PyImport_ImportModule(module);
	object *found = m ? py.PyObject_GetAttrString(m, dot + 1) : NULL;
	python_drop(m);
	return found;
}

bool modes_names(const struct modes_wanted *w, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		object *found = modes_name(w[i].name), *old = *w[i].place;
		if (!found)
			return false;
		*w[i].place = found;
		python_drop(old);
	}
	return true;
}

bool modes_texts(const struct modes_wanted *w, size_t n)
{
	bool good = true;
	for (size_t i = 0; i < n; i++) {
		if (!*w[i].place)
			*w[i].place = py.PyUnicode_InternFromString(w[i].name);
		good = good && *w[i].place;
	}
	return good;
}

object *modes_ask(object *f, object *arg)
{
	object *r = NULL;
	bool was = modes_work_begins();
	if (f)
		r = py.PyObject_CallFunctionObjArgs(f, arg, PY_END);
	modes_work_ends(was);
	if (!r)
		python_forget();
	return r;
}

static uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void flush(void)
{
	flushed_ms = now_ms();
	python_drop(modes_ask(flush_of_modes, NULL));
}

void modes_counted(void)
{
	if (now_ms() - flushed_ms > FLUSH_MS)
		flush();
}

object *modes_count(object *self, object *key)
{
	(void)self;
	object *had = py.PyDict_GetItemWithError(counts, key);
	object *n = py.PyLong_FromLong(1 + (had ? py.PyLong_AsLong(had) : 0));
	int failed = !n || py.PyDict_SetItem(counts, key, n);
	python_drop(n);
	if (failed)
		return NULL;
	modes_counted();
	return python_none();
}

object *modes_counts(object *self, object *arg)
{
	(void)self, (void)arg;
	return python_kept(counts);
}

bool modes_counts_begin(void)
{
	python_drop(flush_of_modes); /* of a ditrace before */
	python_drop(counts);
	flush_of_modes = NULL;
	counts = py.PyDict_New();
	return counts;
}

bool modes_counts_ready(void)
{
	const struct modes_wanted name = {&flush_of_modes, "session.flush"};
	return modes_names(&name, 1);
}

void modes_counts_forget(void)
{
	py.PyDict_Clear(counts);
	flushed_ms = 0;
}

void modes_is_ours(const object *mode)
{
	ours[ours[0] != NULL] = mode;
}

bool modes_is_mode(const object *o)
{
	return o && (o == ours[0] || o == ours[1]);
}
