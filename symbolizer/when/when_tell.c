#include "symbolizer/when/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "symbolizer/event/names.h"

/* The condition and the ops that it was checked against. */
struct told {
	const struct when *w;
	const struct op_desc *const *ops;
	size_t n;
};

/* "self, other, alpha" */
static void names_of(const struct op_desc *op, char *out, size_t size)
{
	size_t used = 0;
	out[0] = '\0';
	for (uint16_t i = 0; i < op->nargs && used < size; i++) {
		int n = snprintf(out + used, size - used, "%s%s", i ? ", " : "", op->args[i].name);
		used += n > 0 ? (size_t)n : 0;
	}
}

static bool is_device_type(const char *name)
{
	for (int i = 0; names_device_type(i); i++)
		if (!strcmp(names_device_type(i), name))
			return true;
	return false;
}

static void say_near(const struct told *c, const char *name, struct err *e)
{
	struct suggestions near = {.word = name};
	char list[256];
	for (size_t i = 0; i < c->n; i++) {
		for (uint16_t k = 0; k < c->ops[i]->nargs; k++)
			suggestions_add(&near, c->ops[i]->args[k].name);
		for (uint16_t k = 0; k < c->ops[i]->nresults; k++)
			suggestions_add(&near, c->ops[i]->results[k].name);
	}
	when_words_suggest(&near);
	if (is_device_type(name))
		err_hint(e, "devices are written as strings: self.device == \"%s\"", name);
	else if (suggestions_list(&near, list, sizeof(list)))
		err_hint(e, "near it: %s", list);
	else if (c->n == 1 && c->ops[0]->nargs) {
		names_of(c->ops[0], list, sizeof(list));
		err_hint(e, "%s has: %s", c->ops[0]->name, list);
	} else
		err_hint(e,
			 "names are those of the schema, as in self.dtype, input.shape[0], alpha; "
			 "arg0, args[1], out and results[1] go by place; strings are quoted");
}

static void wrong_name(const struct told *c, const struct when_node *n, struct err *e)
{
	char count[32];
	if (c->n == 1)
		when_wrong_node(c->w, n, e, "%s has no argument or result \"%s\"", c->ops[0]->name,
				n->name);
	else
		when_wrong_node(c->w, n, e,
				"none of the %s chosen ops has an argument or result \"%s\"",
				text_count(count, sizeof(count), c->n), n->name);
	say_near(c, n->name, e);
}

static void wrong_comparison(const struct told *c, const struct when_node *n,
			     const struct when_node *l, struct err *e)
{
	static const char *const signs[] = {"==", "!=", "<",  "<=",	 ">",
					    ">=", "in", "in", "is None", "is None"};
	const struct when_node *left = n->a;
	char a[160], b[160];
	for (const struct when_node *i = n->b; i != l; i = i->next)
		left = i->a;
	unsigned both = left->seen | l->a->seen;
	when_wrong_node(c->w, l, e, "\"%s\" has no meaning between %s and %s", signs[l->op],
			when_type_text(a, sizeof(a), left->seen),
			when_type_text(b, sizeof(b), l->a->seen));
	if (both & WHEN_T_TENSOR)
		err_hint(e,
			 "compare a fact of the tensor: x.shape, x.dtype, x.dim(), numel(x), or: x "
			 "is None");
	else if (both & WHEN_T_STRING &&
		 both & (WHEN_T_DTYPE | WHEN_T_LAYOUT | WHEN_T_MEMORY_FORMAT | WHEN_T_PHASE))
		err_hint(e, "write the word without quotes: float16, strided, backward");
	else
		err_hint(e, "compare what is of one kind: numbers, strings, dtypes, lists");
}

static void wrong_attribute(const struct told *c, const struct when_node *n, struct err *e)
{
	char have[160], want[160];
	if (n->a->seen & n->attribute->of && n->b) {
		when_wrong_node(c->w, n->b, e, "\"%s\" takes %s, and this is %s",
				n->attribute->name,
				n->attribute->takes_string ? "a string" : "a number",
				when_type_text(have, sizeof(have), n->b->seen));
		err_hint(e, "it is written self.size(0), file.endswith(\"train.py\")");
		return;
	}
	when_wrong_node(c->w, n, e, "\"%s\" is a fact of %s, and this is %s", n->attribute->name,
			when_type_text(want, sizeof(want), n->attribute->of),
			when_type_text(have, sizeof(have), n->a->seen));
	err_hint(e, n->a->seen & WHEN_T_LIST
			? "ask for one of a list: tensors[0].shape, or: any(t.numel > 0 for t in "
			  "tensors)"
			: "ask for it of a tensor: self.shape, args[0].dtype, out.numel");
}

static void wrong_item(const struct told *c, const struct when_node *n, struct err *e)
{
	char have[160];
	bool place = n->a->kind == WHEN_N_WORD;
	if (place && c->n)
		when_wrong_node(c->w, n, e, "none of the chosen ops has this one of its %s",
				n->a->word->name);
	else
		when_wrong_node(c->w, n, e, "%s has no such items",
				when_type_text(have, sizeof(have), n->a->seen));
	err_hint(e, "items are written self.shape[0], args[-1], args[\"alpha\"], tensors[0]");
}

static void wrong_truth(const struct told *c, const struct when_node *n, struct err *e)
{
	char have[160];
	when_wrong_node(c->w, n, e, "%s is neither true nor false",
			when_type_text(have, sizeof(have), n->a->seen));
	err_hint(e,
		 "write what has to hold of it: numel(x) > 0, x is not None, x.dtype == float16");
}

static void explain_node(const struct told *c, const struct when_node *n, struct err *e)
{
	switch (n->kind) {
	case WHEN_N_NAME:
		wrong_name(c, n, e);
		break;
	case WHEN_N_ATTRIBUTE:
		wrong_attribute(c, n, e);
		break;
	case WHEN_N_ITEM:
		wrong_item(c, n, e);
		break;
	case WHEN_N_TRUTH:
		wrong_truth(c, n, e);
		break;
	case WHEN_N_LEN:
		when_wrong_node(c->w, n, e, "only lists and strings have a length");
		err_hint(e, "of a tensor write numel(x), x.dim() or x.size(0)");
		break;
	case WHEN_N_MINUS:
	case WHEN_N_ARITH:
		when_wrong_node(c->w, n, e, "only numbers can be calculated with");
		err_hint(e, "as in self.shape[0] * self.shape[1] > 1e6");
		break;
	case WHEN_N_VARIABLE:
		when_wrong_node(c->w, n, e, "this goes over no list");
		err_hint(e, "it is written any(t.numel() > 0 for t in inputs)");
		break;
	default:
		when_wrong_node(c->w, n, e, "no chosen op has all that this asks for");
		err_hint(e, "names that not every op has are joined by or: self.dim() == 2 or "
			    "input.dim() == 2");
	}
}

/* The comparison that contains link `l`; NULL if there is none. */
static const struct when_node *chain_of(const struct when_node *n, const struct when_node *l)
{
	const struct when_node *found = NULL;
	for (; n && !found; n = n->next) {
		for (const struct when_node *i = n->kind == WHEN_N_COMPARE ? n->b : NULL; i;
		     i = i->next)
			found = i == l ? n : found;
		found = found ? found : n->a ? chain_of(n->a, l) : NULL;
		found = found ? found : n->b ? chain_of(n->b, l) : NULL;
	}
	return found;
}

void when_tell(const struct when *w, const struct when_node *n, const struct op_desc *const *ops,
	       size_t count, struct err *e)
{
	struct told c = {w, ops, count};
	if (n->kind == WHEN_N_LINK)
		wrong_comparison(&c, chain_of(w->root, n), n, e);
	else
		explain_node(&c, n, e);
}
