#define PCRE2_CODE_UNIT_WIDTH 8
#include "tracer/capture/capture.h"

#include <errno.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "symbolizer/event/event.h"
#include "symbolizer/ops/filter.h"

struct oplist_item {
	char *text;
	pcre2_code *re;
};

enum { NAME_SIZE = 256 };

static int add_item(const char *name, const char *s, size_t len, struct oplist *out, struct err *e)
{
	int code;
	PCRE2_SIZE at;

	if (array_grow(&out->items, &out->room, out->n + 1, sizeof(*out->items)))
		return err_set(e, -ENOMEM, "%s: out of memory", name);
	struct oplist_item *i = &out->items[out->n];
	i->text = strndup(s, len);
	if (!i->text)
		return err_set(e, -ENOMEM, "%s: out of memory", name);
	out->n++;
	i->re = pcre2_compile((PCRE2_SPTR)i->text, len, 0, &code, &at, NULL);
	if (i->re)
		return 0;
	PCRE2_UCHAR why[160];
	pcre2_get_error_message(code, why, sizeof(why));
	err_set(e, -EINVAL, "%s: item %zu, \"%s\", is not a regular expression: %s", name, out->n,
		i->text, (char *)why);
	err_hint(e, "names of operators, or expressions that give the whole name, with commas "
		    "between: torch.Tensor.add,torch.nn.functional.*");
	return -EINVAL;
}

int oplist_compile(const char *name, const char *text, struct oplist *out, struct err *e)
{
	*out = (struct oplist){0};
	int rc = oplist_append(name, text, out, e);
	if (rc)
		oplist_free(out);
	return rc;
}

static void drop_item(struct oplist *l, size_t i)
{
	free(l->items[i].text);
	pcre2_code_free(l->items[i].re);
	memmove(&l->items[i], &l->items[i + 1], (--l->n - i) * sizeof(l->items[i]));
}

int oplist_append(const char *name, const char *text, struct oplist *l, struct err *e)
{
	size_t n = l->n;
	for (const char *s = text;; s++) {
		size_t len = strcspn(s, ",");
		int rc = add_item(name, s, len, l, e);
		while (rc && l->n > n)
			drop_item(l, l->n - 1);
		s += len;
		if (rc || !*s)
			return rc;
	}
}

static bool has_item(const struct oplist *l, const char *text)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->items[i].text, text))
			return true;
	return false;
}

void oplist_subtract(struct oplist *l, const struct oplist *gone)
{
	for (size_t i = l->n; i-- > 0;)
		if (has_item(gone, l->items[i].text))
			drop_item(l, i);
}

const char *oplist_item(const struct oplist *l, size_t i)
{
	return i < l->n ? l->items[i].text : NULL;
}

char *oplist_text(const struct oplist *l)
{
	size_t size = 1;
	for (size_t i = 0; i < l->n; i++)
		size += strlen(l->items[i].text) + 1;
	char *text = calloc(1, size), *end = text;
	for (size_t i = 0; text && i < l->n; i++)
		end += sprintf(end, "%s%s", i ? "," : "", l->items[i].text);
	return text;
}

/* Whether re.findall(re, name) includes the whole of `name`: as the first match, or as the second
 * after an empty one. */
static bool finds_whole(const struct oplist_item *item, const char *name)
{
	pcre2_match_data *m = pcre2_match_data_create_from_pattern(item->re, NULL);
	size_t len = strlen(name);
	uint32_t groups = 0;
	bool found = false;

	pcre2_pattern_info(item->re, PCRE2_INFO_CAPTURECOUNT, &groups);
	for (int round = 0; m && groups < 2 && !found && round < 2; round++) {
		int rc = pcre2_match(item->re, (PCRE2_SPTR)name, len, 0,
				     round ? PCRE2_NOTEMPTY_ATSTART : 0, m, NULL);
		const PCRE2_SIZE *at = pcre2_get_ovector_pointer(m);
		if (rc <= 0)
			break;
		found = rc > (int)groups && at[2 * groups] == 0 && at[2 * groups + 1] == len;
		if (at[0] != 0 || at[1] != 0)
			break;
	}
	pcre2_match_data_free(m);
	return found;
}

/* "torch.Tensor.add", without characters that only expressions have. */
static bool is_name(const char *text)
{
	static const char chars[] =
	    "._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	return opnames_is_ditorch(text) && !text[strspn(text, chars)];
}

/* Methods of Tensor take `self`, functions of torch.nn `input`. */
static bool is_method(const struct op_desc *op)
{
	return op->nargs && !strcmp(op->args[0].name, "self");
}

static bool item_matches(const struct oplist_item *i, const struct op_desc *op)
{
	char name[NAME_SIZE], method[NAME_SIZE + 16];

	if (is_name(i->text) && opnames_match(i->text, op))
		return true;
	if (!opnames_python(op, name, sizeof(name)))
		return false;
	if (!strcmp(name, i->text) || finds_whole(i, name))
		return true;
	if (!opnames_is_ditorch(name) || !is_method(op))
		return false;
	snprintf(method, sizeof(method), "torch.Tensor.%s", strrchr(name, '.') + 1);
	return opnames_match(method, op) && finds_whole(i, method);
}

bool oplist_match(const struct oplist *l, const struct op_desc *op)
{
	for (size_t i = 0; i < l->n; i++)
		if (item_matches(&l->items[i], op))
			return true;
	return false;
}

bool oplist_has_name(const struct oplist *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(name, l->items[i].text) || finds_whole(&l->items[i], name))
			return true;
	return false;
}

void oplist_free(struct oplist *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->items[i].text);
		pcre2_code_free(l->items[i].re);
	}
	free(l->items);
	*l = (struct oplist){0};
}
