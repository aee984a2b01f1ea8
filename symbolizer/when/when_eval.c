#define _GNU_SOURCE
#include "symbolizer/when/internal.h"

#include <string.h>

static struct when_value eval_node(struct when_ctx *c, const struct when_node *n);

/* Whether two lists are equal, item by item; also compares values that are not lists. */
static struct when_value list_equal(struct when_ctx *c, struct when_value a, struct when_value b);

static struct when_value value_in(const struct when_ctx *c, const struct value *v)
{
	return when_of(v, c->at_entry);
}

/* Whether a value that is not decoded may be or contain a tensor, by its schema type. */
static bool may_be_tensor(const char *type)
{
	return !type || !type[0] || strstr(type, "Tensor") || !strncmp(type, "Any", 3);
}

typedef bool take_fn(struct when_ctx *c, struct when_value item, void *arg);

/* Call `take` for the tensors among values and in lists of them; within a list all values have the
 * type `type`. A value that is not decoded counts as a tensor if it may be one. Returns false if
 * `take` did, which stops the walk. */
static bool each_tensor(struct when_ctx *c, const struct value *v, uint32_t n,
			const struct op_arg *types, const char *type, take_fn *take, void *arg)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *t = types ? types[i].type : type;
		bool go_on = true;
		if (v[i].kind == VALUE_LIST)
			go_on = each_tensor(c, v[i].items, v[i].count, NULL, t, take, arg);
		else if (v[i].kind == VALUE_TENSOR ||
			 (v[i].kind >= VALUE_NOT_DECODED && may_be_tensor(t)))
			go_on = take(c, value_in(c, &v[i]), arg);
		if (!go_on)
			return false;
	}
	return true;
}

/* Call `take` for each item until it returns false. Here and below, a special value stays what it
 * is, and any other value that is not a list is ABSENT. */
static void list_each(struct when_ctx *c, struct when_value list, take_fn *take, void *arg)
{
	uint32_t i = 0;
	switch (list.kind) {
	case WHEN_V_VALUES:
		while (i < list.count && take(c, value_in(c, &list.values[i]), arg))
			i++;
		break;
	case WHEN_V_DIMS:
		while (i < list.count && take(c, when_int(list.dims[i]), arg))
			i++;
		break;
	case WHEN_V_TENSORS:
		each_tensor(c, list.values, list.count, list.types, NULL, take, arg);
		break;
	case WHEN_V_LITERAL:
		for (const struct when_node *n = list.items; n; n = n->next)
			if (!take(c, eval_node(c, n), arg))
				break;
		break;
	default:
		take(c, when_is_special(list) ? list : when_none(WHEN_V_ABSENT), arg);
	}
}

struct search {
	__int128 at; /* items still to skip */
	struct when_value found;
	uint32_t passed;
	bool unsure; /* an item was special: it may not be a tensor */
};

static bool count_tensor(struct when_ctx *c, struct when_value item, void *arg)
{
	struct search *s = arg;
	(void)c;
	if (when_is_special(item)) {
		s->found = item;
		s->unsure = true;
		return false;
	}
	s->found = item;
	s->passed++;
	return s->at-- > 0;
}

/* The number of tensors, or why it is not known. */
static struct when_value count_tensors(struct when_ctx *c, struct when_value list)
{
	struct search s = {.at = UINT32_MAX};
	list_each(c, list, count_tensor, &s);
	return s.unsure ? s.found : when_int(s.passed);
}

static struct when_value list_len(struct when_ctx *c, struct when_value list)
{
	if (list.kind == WHEN_V_TENSORS)
		return count_tensors(c, list);
	if (list.kind == WHEN_V_STRING)
		return when_int((__int128)list.s.len);
	if (!when_is_list(list))
		return when_is_special(list) ? list : when_none(WHEN_V_ABSENT);
	return when_int(list.count);
}

static struct when_value literal_item(struct when_ctx *c, struct when_value list, __int128 i)
{
	const struct when_node *n = list.items;
	while (i-- > 0)
		n = n->next;
	return eval_node(c, n);
}

static struct when_value list_item(struct when_ctx *c, struct when_value list, __int128 i)
{
	struct when_value len = when_is_list(list) ? list_len(c, list) : list;
	if (when_is_special(len))
		return len;
	if (!when_is_list(list))
		return when_none(WHEN_V_ABSENT);
	if (i < 0)
		i += len.i;
	if (i < 0 || i >= len.i)
		return when_none(WHEN_V_ABSENT);
	if (list.kind == WHEN_V_VALUES)
		return value_in(c, &list.values[i]);
	if (list.kind == WHEN_V_DIMS)
		return when_int(list.dims[i]);
	if (list.kind == WHEN_V_LITERAL)
		return literal_item(c, list, i);
	struct search s = {.at = i};
	list_each(c, list, count_tensor, &s);
	return s.found;
}

struct other {
	struct when_value list; /* what to compare the items with */
	uint32_t at;		/* if that is a list: index of its next item */
	struct when_value result;
};

static bool compare_item(struct when_ctx *c, struct when_value item, void *arg)
{
	struct other *o = arg;
	struct when_value with = list_item(c, o->list, o->at++);
	o->result = when_and(o->result, list_equal(c, item, with));
	return o->result.kind != WHEN_V_INT || o->result.i;
}

static struct when_value list_equal(struct when_ctx *c, struct when_value a, struct when_value b)
{
	if (!when_is_list(a) || !when_is_list(b))
		return when_equal(a, b);
	/* Tensors have no equality here, which also spares list_item's search for each of them. */
	if (a.kind == WHEN_V_TENSORS || b.kind == WHEN_V_TENSORS)
		return when_none(WHEN_V_ABSENT);
	if (a.count != b.count)
		return when_int(0);
	bool swap = b.kind == WHEN_V_LITERAL;
	struct other o = {.list = swap ? a : b, .result = when_int(1)};
	list_each(c, swap ? b : a, compare_item, &o);
	return o.result;
}

static bool list_has_item(struct when_ctx *c, struct when_value item, void *arg)
{
	struct other *o = arg;
	o->result = when_or(o->result, list_equal(c, item, o->list));
	return o->result.kind != WHEN_V_INT || !o->result.i;
}

static struct when_value list_has(struct when_ctx *c, struct when_value list,
				  struct when_value item)
{
	struct other o = {.list = item, .result = when_int(0)};
	if (when_is_special(item) || when_is_special(list))
		return when_weaker(item, list);
	list_each(c, list, list_has_item, &o);
	return o.result;
}

/* v.size(i), v.stride(i), v.startswith(s), v.endswith(s) */
static struct when_value eval_attribute_with(struct when_ctx *c, const struct when_node *n,
					     struct when_value v)
{
	struct when_value b = eval_node(c, n->b);
	if (!n->attribute->takes_string)
		v = when_attribute_eval(v, n->attribute->attribute);
	if (when_is_special(v) || when_is_special(b))
		return when_weaker(v, b);
	if (!n->attribute->takes_string)
		return b.kind == WHEN_V_INT ? list_item(c, v, b.i) : when_none(WHEN_V_ABSENT);
	if (v.kind != WHEN_V_STRING || b.kind != WHEN_V_STRING)
		return when_none(WHEN_V_ABSENT);
	if (b.s.len > v.s.len)
		return when_int(0);
	bool end = n->attribute->attribute == WHEN_ENDSWITH;
	const char *at = v.s.bytes + (end ? v.s.len - b.s.len : 0);
	return when_int(!b.s.len || !memcmp(at, b.s.bytes, b.s.len));
}

/* args["self"], results["values"]: by name */
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
			return list_item(c, eval_node(c, n->a), i);
	return when_none(WHEN_V_ABSENT);
}

static struct when_value eval_item(struct when_ctx *c, const struct when_node *n)
{
	struct when_value b = eval_node(c, n->b);
	if (b.kind == WHEN_V_STRING)
		return named_item(c, n, b);
	struct when_value a = eval_node(c, n->a);
	if (when_is_special(a) || when_is_special(b))
		return when_weaker(a, b);
	return b.kind == WHEN_V_INT ? list_item(c, a, b.i) : when_none(WHEN_V_ABSENT);
}

static struct when_value eval_in(struct when_ctx *c, struct when_value a, struct when_value b)
{
	if (when_is_special(a) || when_is_special(b))
		return when_weaker(a, b);
	if (b.kind != WHEN_V_STRING)
		return when_is_list(b) ? list_has(c, b, a) : when_none(WHEN_V_ABSENT);
	if (a.kind != WHEN_V_STRING)
		return when_none(WHEN_V_ABSENT);
	return when_int(!a.s.len || memmem(b.s.bytes, b.s.len, a.s.bytes, a.s.len) != NULL);
}

static struct when_value is_none(struct when_value a)
{
	return when_is_special(a) ? a : when_int(a.kind == WHEN_V_NONE);
}

static struct when_value eval_comparison(struct when_ctx *c, enum when_comparison op,
					 struct when_value a, struct when_value b)
{
	switch (op) {
	case WHEN_EQUAL:
		return list_equal(c, a, b);
	case WHEN_NOT_EQUAL:
		return when_not(list_equal(c, a, b));
	case WHEN_LESS:
		return when_less(a, b, false);
	case WHEN_LESS_EQUAL:
		return when_less(a, b, true);
	case WHEN_GREATER:
		return when_less(b, a, false);
	case WHEN_GREATER_EQUAL:
		return when_less(b, a, true);
	case WHEN_IN:
		return eval_in(c, a, b);
	case WHEN_NOT_IN:
		return when_not(eval_in(c, a, b));
	case WHEN_IS:
		return is_none(a);
	default:
		return when_not(is_none(a));
	}
}

static struct when_value eval_chain(struct when_ctx *c, const struct when_node *n)
{
	struct when_value left = eval_node(c, n->a), result = when_int(1);
	for (const struct when_node *l = n->b; l; l = l->next) {
		struct when_value right = eval_node(c, l->a);
		result = when_and(result, eval_comparison(c, l->op, left, right));
		if (result.kind == WHEN_V_INT && !result.i)
			break;
		left = right;
	}
	return result;
}

/* A list is true unless it is empty. */
static struct when_value eval_truth(struct when_ctx *c, struct when_value v)
{
	return when_truth(when_is_list(v) ? list_len(c, v) : v);
}

static struct when_value eval_and(struct when_ctx *c, const struct when_node *n)
{
	struct when_value a = eval_node(c, n->a);
	if (a.kind == WHEN_V_INT && !a.i)
		return a;
	return when_and(a, eval_node(c, n->b));
}

static struct when_value eval_or(struct when_ctx *c, const struct when_node *n)
{
	struct when_value a = eval_node(c, n->a);
	if (a.kind == WHEN_V_INT && a.i)
		return a;
	return when_or(a, eval_node(c, n->b));
}

struct loop {
	const struct when_node *node;
	struct when_value result;
};

static bool eval_loop_item(struct when_ctx *c, struct when_value v, void *arg)
{
	struct loop *l = arg;
	bool all = l->node->kind == WHEN_N_ALL;
	c->slots[l->node->slot] = v;
	struct when_value r = eval_node(c, l->node->b);
	l->result = all ? when_and(l->result, r) : when_or(l->result, r);
	return l->result.kind != WHEN_V_INT || (bool)l->result.i == all;
}

static struct when_value eval_loop(struct when_ctx *c, const struct when_node *n)
{
	struct loop l = {.node = n, .result = when_int(n->kind == WHEN_N_ALL)};
	struct when_value list = eval_node(c, n->a);
	if (!when_is_list(list))
		return when_is_special(list) ? list : when_none(WHEN_V_ABSENT);
	list_each(c, list, eval_loop_item, &l);
	return l.result;
}

static struct when_value eval_node(struct when_ctx *c, const struct when_node *n)
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
		return n->b ? eval_attribute_with(c, n, eval_node(c, n->a))
			    : when_attribute_eval(eval_node(c, n->a), n->attribute->attribute);
	case WHEN_N_ITEM:
		return eval_item(c, n);
	case WHEN_N_LEN:
		return list_len(c, eval_node(c, n->a));
	case WHEN_N_MINUS:
		return when_minus(eval_node(c, n->a));
	case WHEN_N_ARITH:
		return when_arith((char)n->op, eval_node(c, n->a), eval_node(c, n->b));
	case WHEN_N_LIST:
		return (struct when_value){
		    .kind = WHEN_V_LITERAL, .count = n->count, .items = n->a};
	case WHEN_N_COMPARE:
		return eval_chain(c, n);
	case WHEN_N_NOT:
		return when_not(eval_node(c, n->a));
	case WHEN_N_AND:
		return eval_and(c, n);
	case WHEN_N_OR:
		return eval_or(c, n);
	case WHEN_N_ANY:
	case WHEN_N_ALL:
		return eval_loop(c, n);
	default: /* WHEN_N_TRUTH */
		return eval_truth(c, eval_node(c, n->a));
	}
}

enum when_result when_eval(const struct when *w, const struct op_event *ev, enum when_moment at)
{
	struct when_ctx c = {.ev = ev, .at_entry = at != WHEN_AT_EXIT};
	struct when_value v = eval_node(&c, w->root);
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
