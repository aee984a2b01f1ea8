#define _GNU_SOURCE
#include "tracer/intervene/intervene_apply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/intervene/intervene_facts.h"

#define OPTION "--apply"

static const char *feature_of(const char *s, size_t len)
{
	static const char *const names[][2] = {
	    {"fallback", "fallback"},  {"cast_dtype", "cast"},
	    {"cast", "cast"},	       {"autocompare", "compare"},
	    {"compare", "compare"},    {"overflow_check", "overflow"},
	    {"overflow", "overflow"},  {"dump_op_args", "print"},
	    {"op_capture", "capture"}, {"capture", "capture"},
	    {"print", "print"},	       {"measure_op_time", "time"},
	    {"time", "time"}};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i][0]) == len && !strncmp(names[i][0], s, len))
			return names[i][1];
	return NULL;
}

static int wrong(const char *text, const char *why, size_t at, size_t len, struct err *e)
{
	err_set(e, -EINVAL, OPTION ": %s", why);
	err_hint(e, "write OP:FEATURE or OP:FEATURE:CONDITION, as in "
		    "'torch.add:fallback:self.dtype == float16'; features are fallback, "
		    "cast_dtype, autocompare, overflow_check, op_capture, dump_op_args and "
		    "measure_op_time");
	return err_quote(e, text, at, len);
}

/* What is known before the call, of the arguments alone. */
static int read_condition(const char *text, struct when **out, struct err *e)
{
	static const char *const later[] = {
	    "op",   "overload", "phase",    "id",     "forward_id", "depth",   "pid",	  "tid",
	    "file", "line",	"function", "thrown", "elapsed",    "results", "outputs", NULL};
	int r = when_compile(OPTION, text, out, e);
	return r ? r
		 : when_refuse(*out, later, "a condition of " OPTION " has no",
			       "it is asked before the call, of its arguments: self.dtype, args[1]",
			       e);
}

/* How far the name goes: "::" is part of it. */
static size_t name_length(const char *text)
{
	size_t n = strcspn(text, ":");
	return n && !strncmp(text + n, "::", 2) ? n + 2 + strcspn(text + n + 2, ":") : n;
}

int intervene_apply_read(const char *text, struct intervene_apply *out, struct err *e)
{
	*out = (struct intervene_apply){0};
	size_t op = name_length(text), at = op + 1;
	if (!op || !text[op] || text[at] == ':')
		return wrong(text, "there is no feature", op, 1, e);
	size_t len = strcspn(text + at, ":");
	const char *feature = feature_of(text + at, len);
	if (!feature)
		return wrong(text, "this is no feature that it has", at, len, e);
	char *name = strndup(text, op);
	out->feature = strdup(feature);
	int r = name && out->feature ? oplist_compile(OPTION, name, &out->ops, e) : -ENOMEM;
	free(name);
	return r || !text[at + len] ? r : read_condition(text + at + len + 1, &out->when, e);
}

void intervene_apply_free(struct intervene_apply *a)
{
	oplist_free(&a->ops);
	free(a->feature);
	when_free(a->when);
	*a = (struct intervene_apply){0};
}

bool intervene_apply_is_of(const struct intervene_apply *a, const char *feature, const char *name,
			   const char *base)
{
	return !strcmp(a->feature, feature) &&
	       (oplist_has_name(&a->ops, name) || oplist_has_name(&a->ops, base));
}

enum when_result intervene_apply_holds(const struct intervene_apply *a, const char *name,
				       const json_t *args)
{
	struct arena arena = {0};
	struct op_event ev;
	enum when_result r = WHEN_TRUE;
	if (a->when)
		r = intervene_facts(name, args, &arena, &ev)
			? WHEN_UNKNOWN
			: when_eval(a->when, &ev, WHEN_AT_EXIT);
	arena_free(&arena);
	return r;
}
