#define _GNU_SOURCE
#include "tracer/intervene/intervene.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "tracer/intervene/internal.h"

enum { CAPTURES = 3 };
#define CAPTURE_BYTES (UINT64_C(4) << 30)

const char *const intervene_names[INTERVENE_FEATURES] = {
    "time", "fallback", "cast", "compare", "overflow", "capture", "print", "first-nan"};

static const struct {
	const char *only, *disabled;
} variables[INTERVENE_FEATURES] = {
    {"OP_TIME_MEASURE_LIST", "OP_TIME_MEASURE_DISABLE_LIST"},
    {"OP_FALLBACK_LIST", "OP_FALLBACK_DISABLE_LIST"},
    {"OP_DTYPE_CAST_LIST", "OP_DTYPE_CAST_DISABLE_LIST"},
    {"OP_AUTOCOMPARE_LIST", "OP_AUTOCOMPARE_DISABLE_LIST"},
    {"OP_OVERFLOW_CHECK_LIST", "OP_OVERFLOW_CHECK_DISABLE_LIST"},
    {"OP_CAPTURE_LIST", "OP_CAPTURE_DISABLE_LIST"},
    {"OP_OBSERVE_LIST", "OP_OBSERVE_DISABLE_LIST"},
    {"OP_OVERFLOW_CHECK_LIST", "OP_OVERFLOW_CHECK_DISABLE_LIST"},
};

bool intervene_wanted(const struct intervene_opts *o)
{
	return o->fallback || o->fallback_all || o->cast || o->compare || o->overflow ||
	       o->capture || o->first_nan || o->apply.n;
}

static int from_line(const char *option, const char *text, bool is_aten, struct oplist *out,
		     struct err *e)
{
	if (!text)
		return 0;
	const char *colons = is_aten ? NULL : strstr(text, "::");
	if (!colons && text[strspn(text, ", ")])
		return oplist_compile(option, text, out, e);
	err_set(e, -EINVAL, "%s: %s", option,
		colons ? "functions of Python are chosen here, not operators of the dispatcher"
		       : "the list is empty");
	err_hint(e, "write it as Python does: torch.add, torch.Tensor.add, or add for both; or "
		    "choose operators with --level aten");
	return colons ? err_quote(e, text, (size_t)(colons - text), 2) : -EINVAL;
}

static int from_environment(const char *variable, struct oplist *out, struct err *e)
{
	const char *text = getenv(variable);
	return text ? oplist_compile(variable, text, out, e) : 0;
}

int intervene_rules_cast(struct intervene_rules *r, const char *text, struct err *e)
{
	const char *option = "--cast";
	if (!strcmp(text, "env")) {
		option = "OP_DTYPE_CAST_DICT";
		text = getenv(option);
	}
	if (!text || !*text) {
		err_set(e, -EINVAL, "%s: no dtypes are given", option);
		return err_hint(e, "write torch.float16->torch.float32, several with commas");
	}
	json_t *casts = json_object();
	char *copy = strdup(text);
	int rc = copy && casts ? intervene_casts_read(option, text, casts, e) : -ENOMEM;
	if (rc) {
		json_decref(casts);
		free(copy);
		return rc;
	}
	json_decref(r->casts);
	free(r->cast_text);
	r->casts = casts;
	r->cast_text = copy;
	r->rule[INTERVENE_CAST].on = r->rule[INTERVENE_CAST].used = true;
	return 0;
}

static int read_sample(const char *text, uint64_t *out, struct err *e)
{
	*out = 1;
	if (!text ||
	    (!strncmp(text, "1/", 2) && text_number(text + 2, out) && *out && *out < UINT32_MAX))
		return 0;
	err_set(e, -EINVAL, "--sample: %s is not one of a number of calls", text);
	return err_hint(e, "write --every 50 for every fiftieth call of each function");
}

int intervene_rules_budget(struct intervene_rules *r, const char *text, struct err *e)
{
	char *end;
	double percent = strtod(text, &end);
	if (end != text && !strcmp(end, "%") && percent > 0 && percent <= 100) {
		r->budget = percent / 100;
		return 0;
	}
	err_set(e, -EINVAL, "--budget: %s is no share of the time", text);
	return err_hint(e, "write 10%% for a tenth of the time; 100%% for as much as it takes");
}

/* Read the variables named after a function. */
static int read_op_casts(struct intervene_rules *r, struct err *e)
{
	static const char suffix[] = "_OP_DTYPE_CAST_DICT=";
	r->op_casts = json_object();
	for (char **v = environ; *v; v++) {
		char *end = strstr(*v, suffix);
		if (!end || end > strchr(*v, '='))
			continue;
		char *name = strndup(*v, (size_t)(end - *v));
		json_t *casts = json_object();
		const char *text = end + sizeof(suffix) - 1;
		int rc = name && casts ? intervene_casts_read(name, text, casts, e) : -ENOMEM;
		if (!rc)
			json_object_set_new(r->op_casts, name,
					    json_pack("{sO ss}", "casts", casts, "text", text));
		json_decref(casts);
		free(name);
		if (rc)
			return rc;
	}
	return 0;
}

json_t *intervene_rules_op_casts(const struct intervene_rules *r, const char *base)
{
	char upper[128];
	const char *last = strrchr(base, '.'); /* a function of another module */
	base = last ? last + 1 : base;
	size_t n = strlen(base);
	for (size_t i = 0; i <= n && n < sizeof(upper); i++)
		upper[i] = (char)toupper((unsigned char)base[i]);
	return n < sizeof(upper) ? json_object_get(r->op_casts, upper) : NULL;
}

/* Use ditorch's default if no dtypes are given. */
static int cast_some(struct intervene_rules *r, struct err *e)
{
	const char *text = getenv("OP_DTYPE_CAST_DICT");
	bool was = r->rule[INTERVENE_CAST].on;
	int rc = r->casts ? 0
			  : intervene_rules_cast(
				r,
				text && *text
				    ? text
				    : "torch.float16->torch.float32,torch.bfloat16->torch.float32",
				e);
	r->rule[INTERVENE_CAST].on = was;
	return rc;
}

static int read_applies(struct intervene_rules *r, const struct option_strings *list, struct err *e)
{
	r->apply = calloc(list->n + 1, sizeof(*r->apply));
	int rc = r->apply ? 0 : err_set(e, -ENOMEM, "no memory");
	for (size_t i = 0; i < list->n && !rc; i++) {
		struct intervene_apply *a = &r->apply[r->napply++];
		rc = intervene_apply_read(list->list[i], a, e);
		for (int f = 0; f < INTERVENE_FEATURES && !rc; f++)
			r->rule[f].used |= !strcmp(a->feature, intervene_names[f]);
	}
	return rc || !r->rule[INTERVENE_CAST].used ? rc : cast_some(r, e);
}

static int read_level(const char *text, bool *is_aten, struct err *e)
{
	*is_aten = text && !strcmp(text, "aten");
	if (!text || *is_aten || !strcmp(text, "torch"))
		return 0;
	err_set(e, -EINVAL, "--level: there is no level %s", text);
	return err_hint(
	    e, "write torch for functions of Python, aten for operators of the dispatcher");
}

int intervene_rules_read(const struct intervene_opts *o, struct intervene_rules *r, struct err *e)
{
	static const enum intervene_feature of_ops[] = {INTERVENE_CAST, INTERVENE_OVERFLOW,
							INTERVENE_CAPTURE, INTERVENE_FIRST_NAN};
	*r = (struct intervene_rules){.captures = o->max_calls ? o->max_calls : CAPTURES,
				      .max_calls = o->capture ? o->max_calls : 0,
				      .folder = o->capture ? o->capture : "",
				      .max_bytes = o->max_bytes ? o->max_bytes : CAPTURE_BYTES};
	r->rule[INTERVENE_FALLBACK].on = o->fallback || o->fallback_all;
	r->rule[INTERVENE_CAST].on = o->cast;
	r->rule[INTERVENE_COMPARE].on = o->compare;
	r->rule[INTERVENE_OVERFLOW].on = o->overflow;
	r->rule[INTERVENE_CAPTURE].on = o->capture;
	r->rule[INTERVENE_FIRST_NAN].on = o->first_nan;
	r->keep_going = o->keep_going;
	r->holds = o->first_nan && !strcmp(o->first_nan, "hold");
	int rc = read_level(o->level, &r->is_aten, e);
	r->is_aten |= o->first_nan != NULL;
	if (!rc)
		rc = from_line("--not-ops", o->not_ops, r->is_aten, &r->not_ops, e);
	if (!rc && !o->fallback_all)
		rc = from_line("--fallback", o->fallback, r->is_aten,
			       &r->rule[INTERVENE_FALLBACK].listed, e);
	if (!rc)
		rc = read_sample(o->sample, &r->sample, e);
	if (o->every)
		r->sample = o->every;
	if (!rc && o->compare && strcmp(o->compare, "all") != 0)
		rc = from_line("--compare", o->compare, r->is_aten,
			       &r->rule[INTERVENE_COMPARE].listed, e);
	for (size_t i = 0; i < sizeof(of_ops) / sizeof(of_ops[0]) && !rc; i++)
		if (r->rule[of_ops[i]].on)
			rc = from_line("--ops", o->ops, r->is_aten, &r->rule[of_ops[i]].listed, e);
	for (int i = 0; i < INTERVENE_FEATURES && !rc; i++) {
		r->rule[i].used = r->rule[i].on;
		rc = from_environment(variables[i].only, &r->rule[i].only, e);
		if (!rc)
			rc = from_environment(variables[i].disabled, &r->rule[i].disabled, e);
	}
	if (!rc && o->cast)
		rc = intervene_rules_cast(r, o->cast, e);
	r->pick = o->pick;
	if (!rc && o->nth)
		rc = ranges_parse("--nth", o->nth, &r->nth, e);
	const char *stacks = getenv("OP_TOOLS_PRINT_STACK");
	r->stacks = stacks && atoi(stacks) > 0;
	if (!rc && o->budget)
		rc = intervene_rules_budget(r, o->budget, e);
	rc = rc ? rc : read_applies(r, &o->apply, e);
	if (!rc && o->budget && !r->rule[INTERVENE_COMPARE].used) {
		rc = err_set(e, -EINVAL, "--budget is the time of --compare, which is not there");
		err_hint(e, "write --compare all --budget %s", o->budget);
	}
	return rc ? rc : read_op_casts(r, e);
}

static bool is_listed(const struct oplist *l, const char *name, const char *base)
{
	return oplist_has_name(l, name) || oplist_has_name(l, base);
}

bool intervene_rules_choose(const struct intervene_rules *r, enum intervene_feature f,
			    const char *name, const char *base)
{
	const struct intervene_rule *x = &r->rule[f];
	return x->on && !is_listed(&r->not_ops, name, base) &&
	       !oplist_has_name(&x->disabled, name) && !is_listed(&x->removed, name, base) &&
	       (x->listed.n ? is_listed(&x->listed, name, base)
			    : !x->only.n || oplist_has_name(&x->only, name));
}

enum intervene_applied intervene_rules_apply(const struct intervene_rules *r,
					     enum intervene_feature f, const char *name,
					     const char *base)
{
	enum intervene_applied all = APPLIED_NOT;
	const struct intervene_rule *x = &r->rule[f];
	if (is_listed(&r->not_ops, name, base) || oplist_has_name(&x->disabled, name) ||
	    (x->only.n && !oplist_has_name(&x->only, name)))
		return APPLIED_NOT;
	for (size_t i = 0; i < r->napply && all != APPLIED_ALWAYS; i++)
		if (intervene_apply_is_of(&r->apply[i], intervene_names[f], name, base))
			all = r->apply[i].when ? APPLIED_WHEN : APPLIED_ALWAYS;
	return all;
}

/* Whether it has the form "pkg.function", so that it is no regular expression. */
static bool is_full_name(const char *s)
{
	static const char chars[] =
	    "._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	const char *dot = strchr(s, '.');
	return dot && dot != s && !s[strspn(s, chars)] && !strstr(s, "..") &&
	       s[strlen(s) - 1] != '.';
}

static void add_full_names(const struct oplist *l, json_t *out)
{
	const char *text;
	for (size_t i = 0; (text = oplist_item(l, i)); i++)
		if (is_full_name(text))
			json_array_append_new(out, json_string(text));
}

json_t *intervene_rules_functions(const struct intervene_rules *r)
{
	json_t *names = json_array();
	for (int f = 0; f < INTERVENE_FEATURES && !r->is_aten; f++)
		if (r->rule[f].on)
			add_full_names(&r->rule[f].listed, names);
	for (size_t i = 0; i < r->napply && !r->is_aten; i++)
		add_full_names(&r->apply[i].ops, names);
	return names;
}

enum when_result intervene_rules_hold(const struct intervene_rules *r, const char *feature,
				      const char *name, const char *base, const json_t *args)
{
	enum when_result all = WHEN_FALSE;
	for (size_t i = 0; i < r->napply && all != WHEN_TRUE; i++) {
		if (!intervene_apply_is_of(&r->apply[i], feature, name, base))
			continue;
		enum when_result one = intervene_apply_holds(&r->apply[i], name, args);
		all = one == WHEN_FALSE ? all : one;
	}
	return all;
}

void intervene_rules_free(struct intervene_rules *r)
{
	for (int i = 0; i < INTERVENE_FEATURES; i++) {
		oplist_free(&r->rule[i].listed);
		oplist_free(&r->rule[i].removed);
		oplist_free(&r->rule[i].only);
		oplist_free(&r->rule[i].disabled);
	}
	oplist_free(&r->not_ops);
	ranges_free(&r->nth);
	for (size_t i = 0; i < r->napply; i++)
		intervene_apply_free(&r->apply[i]);
	free(r->apply);
	json_decref(r->names);
	json_decref(r->casts);
	json_decref(r->op_casts);
	free(r->cast_text);
	*r = (struct intervene_rules){0};
}
