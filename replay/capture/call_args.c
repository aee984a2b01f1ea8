#include "replay/capture/pth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* The integers that schemas write as words: at::Reduction (ATen/core/Reduction.h). */
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

/* "[1, 1]", or "1" for all of them. */
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

/* Is `v` certainly what the schema writes as `text`? */
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

/* aten::to gets what Python's Tensor.to has no argument for: the layout and pinning of self. */
static bool is_implied(const struct schema *s, const struct schema_arg *arg, const struct value *v)
{
	enum { STRIDED = 0 };
	if (strcmp(s->ns, "aten") != 0 || strcmp(s->name, "to") != 0)
		return false;
	return (!strcmp(arg->name, "layout") && v->kind == VALUE_LAYOUT && v->i == STRIDED) ||
	       (!strcmp(arg->name, "pin_memory") && v->kind == VALUE_BOOL && !v->i);
}

static int sort(const struct op_event *ev, const struct schema *s, struct arena *a,
		struct call_args *out)
{
	struct pth_keyword *kw = arena_alloc(a, (ev->nargs + 1u) * sizeof(*kw));
	if (!kw)
		return -ENOMEM;
	unsigned n = 0;
	while (n < ev->nargs && !s->args[n].kwarg_only)
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

int call_args_sort(const struct op_event *ev, struct arena *a, struct call_args *out)
{
	const struct schema *s = ev->op->parsed;
	*out = (struct call_args){.nargs = ev->nargs};
	return s && s->nargs >= ev->nargs ? sort(ev, s, a, out) : 0;
}

int call_args_written(const struct op_event *ev, struct arena *a, const struct pth_keyword **out,
		      unsigned *n)
{
	const struct schema *s = ev->op->parsed;
	struct pth_keyword *kw = arena_alloc(a, (ev->nargs + 1u) * sizeof(*kw));
	*out = kw;
	*n = 0;
	for (unsigned i = 0; kw && s && i < ev->nargs && i < s->nargs; i++)
		if (s->args[i].is_write)
			kw[(*n)++] = (struct pth_keyword){s->args[i].name, &ev->args[i]};
	return kw ? 0 : -ENOMEM;
}
