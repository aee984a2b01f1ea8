/* Chooses the values of a call to save, and their names: arguments as a Python program would pass
 * them, what was returned or written to, gradients. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/capture/internal.h"
#include "symbolizer/event/names.h"
#include "symbolizer/ops/schema.h"

static bool is_word(const char *text, const char *word)
{
	return text && !strcmp(text, word);
}

static bool equals_number(const char *text, double number)
{
	char *end;
	double d = strtod(text, &end);
	return end != text && !*end && d == number;
}

/* Defaults that schemas write as words: at::Reduction (ATen/core/Reduction.h). */
static bool equals_int(const char *text, int64_t i)
{
	if (is_word(text, "Mean"))
		return i == 1;
	if (is_word(text, "Sum"))
		return i == 2;
	char *end;
	long long n = strtoll(text, &end, 10);
	return end != text && !*end && n == i;
}

static bool equals_bool(const char *text, bool b)
{
	return is_word(text, b ? "True" : "False");
}

/* 'none' or "none" */
static bool equals_string(const char *text, const struct value *v)
{
	size_t n = strlen(text);
	return n >= 2 && (text[0] == '\'' || text[0] == '"') && text[n - 1] == text[0] &&
	       n - 2 == v->count && !memcmp(text + 1, v->str, v->count);
}

static bool equals_scalar(const char *text, const struct value *v)
{
	if (v->scalar == VALUE_BOOL)
		return equals_bool(text, v->i);
	if (v->scalar == VALUE_INT)
		return !v->is_unsigned && equals_int(text, v->i);
	return v->scalar == VALUE_FLOAT && equals_number(text, v->f);
}

/* "[1, 1]", or "1" for a list of equal items. */
static bool equals_list(const char *text, const struct value *v)
{
	char item[32];
	if (*text != '[') {
		for (uint32_t i = 0; i < v->count; i++)
			if (v->items[i].kind != VALUE_INT || !equals_int(text, v->items[i].i))
				return false;
		return v->count > 0;
	}
	text++;
	for (uint32_t i = 0; i < v->count; i++) {
		text += strspn(text, " ,");
		size_t n = strcspn(text, " ,]");
		if (n == 0 || n >= sizeof(item) || v->items[i].kind != VALUE_INT)
			return false;
		memcpy(item, text, n);
		item[n] = '\0';
		if (!equals_int(item, v->items[i].i))
			return false;
		text += n;
	}
	return is_word(text + strspn(text, " "), "]");
}

/* Whether `v` is certainly the default that the schema writes as `text`. */
static bool is_default(const char *text, const struct value *v)
{
	if (!text)
		return false;
	switch (v->kind) {
	case VALUE_NONE:
		return is_word(text, "None");
	case VALUE_BOOL:
		return equals_bool(text, v->i);
	case VALUE_INT:
		return equals_int(text, v->i);
	case VALUE_FLOAT:
		return equals_number(text, v->f);
	case VALUE_SCALAR:
		return equals_scalar(text, v);
	case VALUE_STRING:
		return equals_string(text, v);
	case VALUE_LIST:
		return equals_list(text, v);
	case VALUE_MEMORY_FORMAT:
		return is_word(text, names_memory_format((int)v->i)) || equals_int(text, v->i);
	default:
		return false;
	}
}

static bool is_to(const struct schema *s)
{
	return !strcmp(s->ns, "aten") && !strcmp(s->name, "to");
}

/* Python's Tensor.to takes memory_format by keyword, whatever the schema says
 * (torch/csrc/autograd/python_variable_methods.cpp). */
static bool is_keyword(const struct schema *s, const struct schema_arg *arg)
{
	return arg->kwarg_only || (is_to(s) && !strcmp(arg->name, "memory_format"));
}

/* aten::to gets the layout and pinning of self; Python's Tensor.to has no arguments for them. */
static bool is_implied(const struct schema *s, const struct schema_arg *arg, const struct value *v)
{
	enum { STRIDED = 0 };
	if (!is_to(s))
		return false;
	return (!strcmp(arg->name, "layout") && v->kind == VALUE_LAYOUT && v->i == STRIDED) ||
	       (!strcmp(arg->name, "pin_memory") && v->kind == VALUE_BOOL && !v->i);
}

static int choose_by_schema(const struct op_event *ev, const struct schema *s, struct arena *a,
			    struct pth_content *out)
{
	struct pth_keyword *kw = arena_alloc(a, (ev->nargs + 1u) * sizeof(*kw));
	if (!kw)
		return -ENOMEM;
	unsigned n = 0;
	while (n < ev->nargs && !is_keyword(s, &s->args[n]))
		n++;
	for (unsigned i = n; i < ev->nargs; i++)
		if (!is_default(s->args[i].default_text, &ev->args[i]) &&
		    !is_implied(s, &s->args[i], &ev->args[i]))
			kw[out->nkwargs++] = (struct pth_keyword){s->args[i].name, &ev->args[i]};
	while (n > 0 && is_default(s->args[n - 1].default_text, &ev->args[n - 1]))
		n--;
	out->nargs = n;
	out->kwargs = kw;
	return 0;
}

int pth_choose_input(const struct op_event *ev, struct arena *a, struct pth_content *out)
{
	const struct schema *s = ev->op->parsed;
	out->args = ev->args;
	out->nargs = ev->nargs;
	return s && s->nargs >= ev->nargs ? choose_by_schema(ev, s, a, out) : 0;
}

/* The arguments that the operator writes to, as keywords; none without a schema. */
static int choose_written(const struct op_event *ev, struct arena *a, struct pth_content *out)
{
	const struct schema *s = ev->op->parsed;
	struct pth_keyword *kw = arena_alloc(a, (ev->nargs + 1u) * sizeof(*kw));
	out->kwargs = kw;
	for (unsigned i = 0; kw && s && i < ev->nargs && i < s->nargs; i++)
		if (s->args[i].is_write)
			kw[out->nkwargs++] = (struct pth_keyword){s->args[i].name, &ev->args[i]};
	return kw ? 0 : -ENOMEM;
}

/* As Python returns it: the result, or a tuple of several. Without a result: None, and the
 * arguments written to as keywords. */
static int choose_output(const struct op_event *ev, struct arena *a, struct pth_content *out)
{
	static const struct value none = {.kind = VALUE_NONE};
	out->args = ev->nresults ? ev->results : &none;
	out->nargs = ev->nresults ? ev->nresults : 1;
	out->args_in_one = ev->nresults > 1;
	return ev->nresults ? 0 : choose_written(ev, a, out);
}

/* Backward nodes take and return one list, whose items become the args. */
static int choose_grads(const struct value *v, unsigned n, struct pth_content *out)
{
	bool is_list = n == 1 && v->kind == VALUE_LIST;
	out->args = is_list ? v->items : v;
	out->nargs = is_list ? v->count : n;
	return 0;
}

int pth_choose(enum capture_part part, const struct op_event *ev, struct arena *a,
	       struct pth_content *out)
{
	switch (part) {
	case CAPTURE_INPUT:
		return pth_choose_input(ev, a, out);
	case CAPTURE_OUTPUT:
		return choose_output(ev, a, out);
	case CAPTURE_GRAD_INPUTS:
		return choose_grads(ev->results, ev->nresults, out);
	default:
		return choose_grads(ev->args, ev->nargs, out);
	}
}
