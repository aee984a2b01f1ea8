#define _GNU_SOURCE
#include "tracer/shim/extension/modes_lines.h"

#include <string.h>

#include "tracer/shim/extension/modes_change.h"
#include "tracer/shim/extension/modes_dedup.h"

enum { LINES = 1 << 12 /* slots, as line_find() has them */ };

static struct line lines[LINES];
static unsigned nlines;
static struct {
	object *quick, *name;
} own;

bool lines_ready(void)
{
	const struct modes_wanted texts[] = {{&own.quick, "quick"}, {&own.name, "name"}};
	lines_forget();
	return modes_texts(texts, sizeof(texts) / sizeof(texts[0]));
}

void lines_forget(void)
{
	for (size_t i = 0; i < LINES; i++) {
		python_drop(lines[i].plan);
		python_drop(lines[i].at);
		python_drop(lines[i].op);
	}
	memset(lines, 0, sizeof(lines));
	nlines = 0;
}

/* One place of the program may be told by several objects that are equal. */
static bool is_same(object *at, object *other)
{
	return at == other || py.PyObject_RichCompareBool(at, other, PY_EQUAL) == 1;
}

struct line *line_find(object *plan, object *at)
{
	uint64_t h = ((uintptr_t)plan >> 4) * 0x9e3779b97f4a7c15 + (uint64_t)py.PyObject_Hash(at);
	size_t i = h * 0xbf58476d1ce4e5b9 >> 52;
	while (lines[i].plan && (lines[i].plan != plan || !is_same(lines[i].at, at)))
		i = (i + 1) % LINES;
	return &lines[i];
}

void line_begin(struct line *l, object *plan, object *at)
{
	enum { QUICK = 1, EXACT = 2, IN_PLACE = 4 }; /* of modes/ */
	object *quick = py.PyObject_GetAttr(plan, own.quick);
	long kind = quick ? py.PyLong_AsLong(quick) : 0;
	object *name = py.PyObject_GetAttr(plan, own.name);
	object *op = name ? py.PyUnicode_AsUTF8String(name) : NULL;
	python_drop(name);
	python_drop(quick);
	if (!op || nlines >= LINES / 4 * 3) {
		python_drop(op);
		return;
	}
	nlines++;
	*l = (struct line){.plan = python_kept(plan),
			   .at = python_kept(at),
			   .op = op,
			   .whole = !(kind & QUICK),
			   .by.exact = kind & EXACT,
			   .dtype = LINE_NOTHING,
			   .in_place = kind & IN_PLACE};
	for (int i = 0; i < LINE_RESULTS; i++)
		l->told[i].dtype = LINE_NOTHING;
}

void line_learn_reach(object *plan, object *at, object *args, object *kwargs)
{
	double reach = judge_reach();
	struct line *l = reach ? line_find(plan, at) : NULL;
	if (!l || !l->plan)
		return;
	l->reach = reach;
	l->of = reach > 1 ? seen_hash(args, kwargs) : 0;
}

double line_reach(const struct line *l, object *args, object *kwargs)
{
	return l->reach > 1 && seen_hash(args, kwargs) == l->of ? l->reach : 1;
}

object *modes_settled(object *self, object *unused)
{
	object *list = py.PyList_New(0);
	(void)self, (void)unused;
	for (size_t i = 0; list && i < LINES; i++) {
		struct line *l = &lines[i];
		if (!l->calls)
			continue;
		object *calls = py.PyLong_FromLong((long)l->calls);
		object *tensors = py.PyLong_FromLong((long)l->tensors);
		object *row =
		    calls && tensors ? py.PyTuple_Pack(4, l->plan, l->at, calls, tensors) : NULL;
		python_drop(calls);
		python_drop(tensors);
		if (row && !py.PyList_Append(list, row))
			l->calls = l->tensors = 0;
		python_drop(row);
	}
	return list;
}
