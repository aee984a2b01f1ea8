#define _GNU_SOURCE
#include "symbolizer/when/internal.h"

#include <string.h>

/* v.size(i), v.stride(i), v.startswith(s), v.endswith(s) */
static struct when_value with_argument(struct when_ctx *c, const struct when_node *n,
				       struct when_value v)
{
	struct when_value b = when_node_eval(c, n->b);
	if (!n->attribute->takes_string)
		v = when_attribute_eval(v, n->attribute->attribute);
	if (when_is_special(v) || when_is_special(b))
		return when_weaker(v, b);
	if (!n->attribute->takes_string)
		return b.kind == WHEN_V_INT ? when_list_item(c, v, b.i) : when_none(WHEN_V_ABSENT);
	if (v.kind != WHEN_V_STRING || b.kind != WHEN_V_STRING)
		return when_none(WHEN_V_ABSENT);
	if (b.s.len > v.s.len)
		return when_int(0);
	bool end = n->attribute->attribute == WHEN_ENDSWITH;
	const char *at = v.s.bytes + (end ? v.s.len - b.s.len : 0);
	return when_int(!b.s.len || !memcmp(at, b.s.bytes, b.s.len));
}

/* args["self"], by name; results["values"] */
static struct when_value named_item(struct when_ctx *c, const struct when_node *n,
				    struct when_value name)
{
	bool results = n->a->kind == WHEN_N_WORD && n->a->word->word == WHEN_RESULTS;
	bool args = n->a->kind == WHEN_N_WORD && n->a->word->word == WHEN_ARGS;
	const struct op_desc *op = c->ev->op;
	const struct op_arg *have = results ? op->results : op->args;
	uint16_t count = results ? op->nresults : args ? op->nargs : 0;
	for (uint16_t i = 0; i < count; i++)
		if (strlen(have[i].name) == name.s.len &&
		    !memcmp(have[i].name, name.s.bytes, name.s.len))
			return when_list_item(c, when_node_eval(c, n->a), i);
	return when_none(WHEN_V_ABSENT);
}

static struct when_value item(struct when_ctx *c, const struct when_node *n)
{
	struct when_value b = when_node_eval(c, n->b);
	if (b.kind == WHEN_V_STRING)
		return named_item(c, n, b);
	struct when_value a = when_node_eval(c, n->a);
	if (when_is_special(a) || when_is_special(b))
		return when_weaker(a, b);
	return b.kind == WHEN_V_INT ? when_list_item(c, a, b.i) : when_none(WHEN_V_ABSENT);
}

static struct when_value is_in(struct when_ctx *c, struct when_value a, struct when_value b)
{
	if (when_is_special(a) || when_is_special(b))
		return when_weaker(a, b);
	if (b.kind != WHEN_V_STRING)
		return when_is_list(b) ? when_list_has(c, b, a) : when_none(WHEN_V_ABSENT);
	if (a.kind != WHEN_V_STRING)
		return when_none(WHEN_V_ABSENT);
	return when_int(!a.s.len || memmem(b.s.bytes, b.s.len, a.s.bytes, a.s.len) != NULL);
}

static struct when_value is_none(struct when_value a)
{
	return when_is_special(a) ? a : when_int(a.kind == WHEN_V_NONE);
}

static struct when_value compare(struct when_ctx *c, enum when_comparison op, struct when_value a,
				 struct when_value b)
{
	switch (op) {
	case WHEN_EQUAL:
		return when_list_equal(c, a, b);
	case WHEN_NOT_EQUAL:
		return when_not(when_list_equal(c, a, b));
	case WHEN_LESS:
		return when_less(a, b, false);
	case WHEN_LESS_EQUAL:
		return when_less(a, b, true);
	case WHEN_GREATER:
		return when_less(b, a, false);
	case WHEN_GREATER_EQUAL:
		return when_less(b, a, true);
	case WHEN_IN:
		return is_in(c, a, b);
	case WHEN_NOT_IN:
		return when_not(is_in(c, a, b));
	case WHEN_IS:
		return is_none(a);
	default:
		return when_not(is_none(a));
	}
}

static struct when_value chain(struct when_ctx *c, const struct when_node *n)
{
	struct when_value left = when_node_eval(c, n->a), result = when_int(1);
	for (const struct when_node *l = n->b; l; l = l->next) {
		struct when_value right = when_node_eval(c, l->a);
		result = when_and(result, compare(c, l->op, left, right));
		if (result.kind == WHEN_V_INT && !result.i)
			break;
		left = right;
	}
	return result;
}

/* A list has truth by its length. */
static struct when_value truth(struct when_ctx *c, struct when_value v)
{
	return when_truth(when_is_list(v) ? when_list_len(c, v) : v);
}

static struct when_value both(struct when_ctx *c, const struct when_node *n)
{
	struct when_value a = when_node_eval(c, n->a);
	if (a.kind == WHEN_V_INT && !a.i)
		return a;
	return when_and(a, when_node_eval(c, n->b));
}

static struct when_value either(struct when_ctx *c, const struct when_node *n)
{
	struct when_value a = when_node_eval(c, n->a);
	if (a.kind == WHEN_V_INT && a.i)
		return a;
	return when_or(a, when_node_eval(c, n->b));
}

struct loop {
	const struct when_node *node;
	struct when_value result;
};

static bool loop_item(struct when_ctx *c, struct when_value v, void *arg)
{
	struct loop *l = arg;
	bool all = l->node->kind == WHEN_N_ALL;
	c->slots[l->node->slot] = v;
	struct when_value r = when_node_eval(c, l->node->b);
	l->result = all ? when_and(l->result, r) : when_or(l->result, r);
	return l->result.kind != WHEN_V_INT || (bool)l->result.i == all;
}

static struct when_value loop(struct when_ctx *c, const struct when_node *n)
{
	struct loop l = {.node = n, .result = when_int(n->kind == WHEN_N_ALL)};
	struct when_value list = when_node_eval(c, n->a);
	if (!when_is_list(list))
		return when_is_special(list) ? list : when_none(WHEN_V_ABSENT);
	when_list_each(c, list, loop_item, &l);
	return l.result;
}

struct when_value when_node_eval(struct when_ctx *c, const struct when_node *n)
{
	switch (n->kind) {
	case WHEN_N_CONSTANT:
		return n->value;
	case WHEN_N_NAME:
		return when_name_eval(c, n->name);
	case WHEN_N_WORD:
		return when_word_eval(c, n->word->word);
	case WHEN_N_VARIABLE:
		return c->slots[n->slot];
	case WHEN_N_ATTRIBUTE:
		return n->b ? with_argument(c, n, when_node_eval(c, n->a))
			    : when_attribute_eval(when_node_eval(c, n->a), n->attribute->attribute);
	case WHEN_N_ITEM:
		return item(c, n);
	case WHEN_N_LEN:
		return when_list_len(c, when_node_eval(c, n->a));
	case WHEN_N_MINUS:
		return when_minus(when_node_eval(c, n->a));
	case WHEN_N_ARITH:
		return when_arith((char)n->op, when_node_eval(c, n->a), when_node_eval(c, n->b));
	case WHEN_N_LIST:
		return (struct when_value){
		    .kind = WHEN_V_LITERAL, .count = n->count, .items = n->a};
	case WHEN_N_COMPARE:
		return chain(c, n);
	case WHEN_N_NOT:
		return when_not(when_node_eval(c, n->a));
	case WHEN_N_AND:
		return both(c, n);
	case WHEN_N_OR:
		return either(c, n);
	case WHEN_N_ANY:
	case WHEN_N_ALL:
		return loop(c, n);
	default: /* WHEN_N_TRUTH */
		return truth(c, when_node_eval(c, n->a));
	}
}

enum when_result when_eval(const struct when *w, const struct op_event *ev, enum when_moment at)
{
	struct when_ctx c = {.ev = ev, .at_entry = at == WHEN_AT_ENTRY};
	struct when_value v = when_node_eval(&c, w->root);
	switch (v.kind) {
	case WHEN_V_INT:
		return v.i ? WHEN_TRUE : WHEN_FALSE;
	case WHEN_V_UNKNOWN:
		return WHEN_UNKNOWN;
	case WHEN_V_LATER:
		return WHEN_LATER;
	default:
		return WHEN_FALSE;
	}
}
