#include <string.h>

#include "symbolizer/when/internal.h"

static struct when_value of(const struct when_ctx *c, const struct value *v)
{
	return when_of(v, c->at_entry);
}

/* Whether what is not decoded may be a tensor, or hold some, by its type as the schema has it. */
static bool may_be_tensor(const char *type)
{
	return !type || !type[0] || strstr(type, "Tensor") || !strncmp(type, "Any", 3);
}

/* The tensors among values, and those in lists of them; in a list all have the type `type`. What
 * is not decoded is taken for one where it may be. False: stop. */
static bool each_tensor(struct when_ctx *c, const struct value *v, uint32_t n,
			const struct op_arg *types, const char *type, when_take_fn *take, void *arg)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *t = types ? types[i].type : type;
		bool go_on = true;
		if (v[i].kind == VALUE_LIST)
			go_on = each_tensor(c, v[i].items, v[i].count, NULL, t, take, arg);
		else if (v[i].kind == VALUE_TENSOR ||
			 (v[i].kind >= VALUE_NOT_DECODED && may_be_tensor(t)))
			go_on = take(c, of(c, &v[i]), arg);
		if (!go_on)
			return false;
	}
	return true;
}

void when_list_each(struct when_ctx *c, struct when_value list, when_take_fn *take, void *arg)
{
	uint32_t i = 0;
	switch (list.kind) {
	case WHEN_V_VALUES:
		while (i < list.count && take(c, of(c, &list.values[i]), arg))
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
			if (!take(c, when_node_eval(c, n), arg))
				break;
		break;
	default:
		take(c, when_is_special(list) ? list : when_none(WHEN_V_ABSENT), arg);
	}
}

struct search {
	__int128 at; /* items still to pass */
	struct when_value found;
	uint32_t passed;
	bool unsure; /* one that was passed may be no tensor */
};

static bool pass(struct when_ctx *c, struct when_value item, void *arg)
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

/* How many tensors there are, or why that is not known. */
static struct when_value count_tensors(struct when_ctx *c, struct when_value list)
{
	struct search s = {.at = UINT32_MAX};
	when_list_each(c, list, pass, &s);
	return s.unsure ? s.found : when_int(s.passed);
}

struct when_value when_list_len(struct when_ctx *c, struct when_value list)
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
	return when_node_eval(c, n);
}

struct when_value when_list_item(struct when_ctx *c, struct when_value list, __int128 i)
{
	struct when_value len = when_is_list(list) ? when_list_len(c, list) : list;
	if (when_is_special(len))
		return len;
	if (!when_is_list(list))
		return when_none(WHEN_V_ABSENT);
	if (i < 0)
		i += len.i;
	if (i < 0 || i >= len.i)
		return when_none(WHEN_V_ABSENT);
	if (list.kind == WHEN_V_VALUES)
		return of(c, &list.values[i]);
	if (list.kind == WHEN_V_DIMS)
		return when_int(list.dims[i]);
	if (list.kind == WHEN_V_LITERAL)
		return literal_item(c, list, i);
	struct search s = {.at = i};
	when_list_each(c, list, pass, &s);
	return s.found;
}

struct other {
	struct when_value list; /* that the items are compared with, */
	uint32_t at;		/* from this item on */
	struct when_value result;
};

static bool compare_item(struct when_ctx *c, struct when_value item, void *arg)
{
	struct other *o = arg;
	struct when_value with = when_list_item(c, o->list, o->at++);
	o->result = when_and(o->result, when_list_equal(c, item, with));
	return o->result.kind != WHEN_V_INT || o->result.i;
}

struct when_value when_list_equal(struct when_ctx *c, struct when_value a, struct when_value b)
{
	if (!when_is_list(a) || !when_is_list(b))
		return when_equal(a, b);
	/* Tensors have no equality here, so that looking each of them up anew does not matter. */
	if (a.kind == WHEN_V_TENSORS || b.kind == WHEN_V_TENSORS)
		return when_none(WHEN_V_ABSENT);
	if (a.count != b.count)
		return when_int(0);
	bool swap = b.kind == WHEN_V_LITERAL;
	struct other o = {.list = swap ? a : b, .result = when_int(1)};
	when_list_each(c, swap ? b : a, compare_item, &o);
	return o.result;
}

static bool look_for(struct when_ctx *c, struct when_value item, void *arg)
{
	struct other *o = arg;
	o->result = when_or(o->result, when_list_equal(c, item, o->list));
	return o->result.kind != WHEN_V_INT || !o->result.i;
}

struct when_value when_list_has(struct when_ctx *c, struct when_value list, struct when_value item)
{
	struct other o = {.list = item, .result = when_int(0)};
	if (when_is_special(item) || when_is_special(list))
		return when_weaker(item, list);
	when_list_each(c, list, look_for, &o);
	return o.result;
}
