#include "symbolizer/when/internal.h"

#include <errno.h>
#include <string.h>

#include "symbolizer/ops/schema.h"

/* The types of each part of a condition are inferred for each op: a part that has none for any op
 * is wrong. */
struct check {
	struct when *w;
	const struct op_desc *op; /* NULL: an unknown op */
	struct when_type slots[WHEN_SLOTS_MAX];
	struct arena arena;
};

static const struct when_type anything = {WHEN_T_ANY, WHEN_T_ANY};
static const struct when_type nothing = {0, 0};
static const struct when_type number = {WHEN_T_NUMBER, 0};

static struct when_type infer_type(struct check *c, struct when_node *n);

static unsigned type_of_base(unsigned base)
{
	switch (base) {
	case SCHEMA_TENSOR:
		return WHEN_T_TENSOR;
	case SCHEMA_SCALAR:
	case SCHEMA_INT:
	case SCHEMA_SYMINT:
	case SCHEMA_FLOAT:
	case SCHEMA_BOOL:
	case SCHEMA_COMPLEX:
	case SCHEMA_DEVICE_INDEX:
		return WHEN_T_NUMBER;
	case SCHEMA_STR:
		return WHEN_T_STRING;
	case SCHEMA_DTYPE:
		return WHEN_T_DTYPE;
	case SCHEMA_LAYOUT:
		return WHEN_T_LAYOUT;
	case SCHEMA_DEVICE:
		return WHEN_T_DEVICE;
	case SCHEMA_MEMORY_FORMAT:
		return WHEN_T_MEMORY_FORMAT;
	case SCHEMA_GENERATOR:
		return WHEN_T_OTHER;
	default:
		return WHEN_T_ANY;
	}
}

static struct when_type type_of_text(struct check *c, const char *text)
{
	struct schema_arg a;
	if (!text || !text[0] || schema_parse_type(text, &c->arena, &a))
		return anything;
	unsigned base = type_of_base(a.base), none = a.is_optional ? WHEN_T_NONE : 0;
	if (!a.is_list)
		return (struct when_type){(uint16_t)(base | none), WHEN_T_ANY};
	unsigned item = a.list_depth > 1 ? WHEN_T_LIST : base;
	item |= a.elem_is_optional ? WHEN_T_NONE : 0;
	return (struct when_type){(uint16_t)(WHEN_T_LIST | none), (uint16_t)item};
}

static struct when_type type_of_place(struct check *c, struct when_place p)
{
	if (!p.found)
		return nothing;
	c->w->needs_exit |= p.is_result;
	return type_of_text(c,
			    p.is_result ? c->op->results[p.index].type : c->op->args[p.index].type);
}

static struct when_type infer_name(struct check *c, const struct when_node *n)
{
	if (!c->op) {
		/* A name that no known op has may be that of a result. */
		c->w->needs_exit |= !n->seen;
		return anything;
	}
	if (!c->op->nargs && !c->op->nresults && !c->op->schema[0])
		return anything;
	return type_of_place(c, when_find_name(c->op, n->name));
}

/* args[1], args["alpha"], results[-1]: the schema gives their types. */
static bool infer_place(struct check *c, const struct when_node *n, struct when_type *out)
{
	const struct when_node *b = n->b->kind == WHEN_N_MINUS ? n->b->a : n->b;
	bool results = n->a->kind == WHEN_N_WORD && n->a->word->word == WHEN_RESULTS;
	if (!c->op || b->kind != WHEN_N_CONSTANT ||
	    !(results || (n->a->kind == WHEN_N_WORD && n->a->word->word == WHEN_ARGS)))
		return false;
	uint16_t count = results ? c->op->nresults : c->op->nargs;
	const struct op_arg *have = results ? c->op->results : c->op->args;
	struct when_place p = {.is_result = results};
	if (b->value.kind == WHEN_V_STRING) {
		for (; p.index < count && !p.found; p.index += !p.found)
			p.found = n->b == b && strlen(have[p.index].name) == b->value.s.len &&
				  !memcmp(have[p.index].name, b->value.s.bytes, b->value.s.len);
	} else if (b->value.kind == WHEN_V_INT) {
		__int128 i = n->b == b ? b->value.i : count - b->value.i;
		p.found = i >= 0 && i < count;
		p.index = p.found ? (uint16_t)i : 0;
	}
	*out = type_of_place(c, p);
	return true;
}

static struct when_type item_type(struct when_type list)
{
	return (struct when_type){list.item, WHEN_T_ANY};
}

static struct when_type infer_item(struct check *c, struct when_node *n)
{
	struct when_type a = infer_type(c, n->a), b = infer_type(c, n->b), place;
	if (infer_place(c, n, &place))
		return place;
	bool by_name = n->a->kind == WHEN_N_WORD && (b.may_be & WHEN_T_STRING);
	if (!(a.may_be & WHEN_T_LIST) || !(by_name || (b.may_be & WHEN_T_NUMBER)))
		return nothing;
	return item_type(a);
}

static struct when_type infer_attribute(struct check *c, struct when_node *n)
{
	struct when_type a = infer_type(c, n->a), b = n->b ? infer_type(c, n->b) : nothing;
	const struct when_attribute_def *d = n->attribute;
	if (!(a.may_be & d->of))
		return nothing;
	if (n->b && !(b.may_be & (d->takes_string ? WHEN_T_STRING : WHEN_T_NUMBER)))
		return nothing;
	return n->b && d->takes_index ? number : d->type;
}

static bool equal_makes_sense(unsigned a, unsigned b)
{
	if (a == WHEN_T_NONE || b == WHEN_T_NONE)
		return true;
	if ((a & WHEN_T_DEVICE && b & WHEN_T_STRING) || (b & WHEN_T_DEVICE && a & WHEN_T_STRING))
		return true;
	return a & b & ~(unsigned)(WHEN_T_TENSOR | WHEN_T_OTHER | WHEN_T_NONE);
}

static bool makes_sense(enum when_comparison op, struct when_type a, struct when_type b)
{
	if (!a.may_be || !b.may_be)
		return false;
	switch (op) {
	case WHEN_EQUAL:
	case WHEN_NOT_EQUAL:
		return equal_makes_sense(a.may_be, b.may_be);
	case WHEN_IN:
	case WHEN_NOT_IN:
		if (b.may_be & WHEN_T_STRING && a.may_be & WHEN_T_STRING)
			return true;
		return b.may_be & WHEN_T_LIST && equal_makes_sense(a.may_be, b.item);
	case WHEN_IS:
	case WHEN_IS_NOT:
		return true;
	default:
		return a.may_be & b.may_be & (WHEN_T_NUMBER | WHEN_T_STRING);
	}
}

static struct when_type infer_chain(struct check *c, struct when_node *n)
{
	struct when_type left = infer_type(c, n->a), result = number;
	for (struct when_node *l = n->b; l; l = l->next) {
		struct when_type right = infer_type(c, l->a);
		if (makes_sense(l->op, left, right))
			l->seen = WHEN_T_NUMBER;
		else
			result = nothing;
		left = right;
	}
	return result;
}

static struct when_type infer_list(struct check *c, struct when_node *n)
{
	struct when_type t = {WHEN_T_LIST, n->a ? 0 : WHEN_T_ANY};
	for (struct when_node *i = n->a; i; i = i->next)
		t.item |= infer_type(c, i).may_be;
	return t;
}

static struct when_type infer_loop(struct check *c, struct when_node *n)
{
	struct when_type items = infer_type(c, n->a);
	c->slots[n->slot] = items.may_be & WHEN_T_LIST ? item_type(items) : nothing;
	return infer_type(c, n->b).may_be ? number : nothing;
}

static struct when_type infer_both(struct check *c, struct when_node *n)
{
	bool a = infer_type(c, n->a).may_be, b = infer_type(c, n->b).may_be;
	return (n->kind == WHEN_N_AND ? a && b : a || b) ? number : nothing;
}

static struct when_type number_if(struct when_type t, unsigned any_of)
{
	return t.may_be & any_of ? number : nothing;
}

static struct when_type infer_kind(struct check *c, struct when_node *n)
{
	switch (n->kind) {
	case WHEN_N_CONSTANT:
		return when_type_of(n->value);
	case WHEN_N_NAME:
		return infer_name(c, n);
	case WHEN_N_WORD:
		c->w->needs_exit |= n->word->at_exit;
		return n->word->type;
	case WHEN_N_VARIABLE:
		return c->slots[n->slot];
	case WHEN_N_ATTRIBUTE:
		return infer_attribute(c, n);
	case WHEN_N_ITEM:
		return infer_item(c, n);
	case WHEN_N_LEN:
		return number_if(infer_type(c, n->a), WHEN_T_LIST | WHEN_T_STRING);
	case WHEN_N_MINUS:
		return number_if(infer_type(c, n->a), WHEN_T_NUMBER);
	case WHEN_N_ARITH: {
		struct when_type a = number_if(infer_type(c, n->a), WHEN_T_NUMBER);
		return infer_type(c, n->b).may_be & WHEN_T_NUMBER ? a : nothing;
	}
	case WHEN_N_LIST:
		return infer_list(c, n);
	case WHEN_N_COMPARE:
		return infer_chain(c, n);
	case WHEN_N_TRUTH:
		return number_if(infer_type(c, n->a), WHEN_T_NUMBER | WHEN_T_STRING | WHEN_T_LIST);
	case WHEN_N_NOT:
		return infer_type(c, n->a);
	case WHEN_N_AND:
	case WHEN_N_OR:
		return infer_both(c, n);
	default: /* WHEN_N_ANY, WHEN_N_ALL */
		return infer_loop(c, n);
	}
}

static struct when_type infer_type(struct check *c, struct when_node *n)
{
	struct when_type t = infer_kind(c, n);
	n->seen |= t.may_be;
	return t;
}

/* The first part, left to right and innermost first, that has no type for any op. */
static const struct when_node *first_untyped(const struct when_node *n)
{
	const struct when_node *w = n->a ? first_untyped(n->a) : NULL;
	for (const struct when_node *b = n->b; b && !w; b = b->next)
		w = first_untyped(b);
	for (const struct when_node *i = n->kind == WHEN_N_LIST ? n->a : NULL; i && !w; i = i->next)
		w = first_untyped(i);
	return w ? w : n->seen ? NULL : n;
}

static void forget_types(struct when_node *n)
{
	for (; n; n = n->next) {
		n->seen = 0;
		if (n->a)
			forget_types(n->a);
		if (n->b)
			forget_types(n->b);
	}
}

int when_check(struct when *w, const struct op_desc *const *ops, size_t n, bool more, struct err *e)
{
	struct check c = {.w = w};
	forget_types(w->root);
	w->needs_exit = false;
	for (size_t i = 0; i < n; i++) {
		c.op = ops[i];
		infer_type(&c, w->root);
		arena_reset(&c.arena);
	}
	c.op = NULL;
	if (more || !n)
		infer_type(&c, w->root);
	arena_free(&c.arena);
	const struct when_node *bad = first_untyped(w->root);
	if (!bad)
		return 0;
	when_tell(w, bad, ops, n, e);
	return -EINVAL;
}
