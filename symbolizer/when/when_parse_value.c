#include "symbolizer/when/internal.h"

#include <stdio.h>
#include <string.h>

static bool is_reserved(const char *name)
{
	static const char *const reserved[] = {"and", "or",   "not", "in",    "is",
					       "for", "else", "if",  "lambda"};
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (!strcmp(name, reserved[i]))
			return true;
	return false;
}

static struct when_node *constant_node(struct when_parser *p, size_t at, struct when_value v)
{
	struct when_node *n = when_new_node(p, WHEN_N_CONSTANT, at);
	if (n)
		n->value = v;
	return when_close(p, n);
}

/* (a, b), [a], or one condition in parentheses; the opening bracket has been read. */
static struct when_node *parse_brackets(struct when_parser *p, size_t at, const char *closing)
{
	struct when_node *first = NULL, **last = &first;
	bool comma = *closing == ']';
	uint32_t n = 0;
	while (!p->code && !when_is_sign(p, closing)) {
		struct when_node *item = p->condition(p);
		if (!item)
			return NULL;
		*last = item;
		last = &item->next;
		n++;
		if (!when_accept(p, ","))
			break;
		comma = true;
	}
	if (!when_accept(p, closing))
		return when_expected(p, *closing == ')' ? "\")\"" : "\"]\"",
				     "close what has been opened");
	if (n == 1 && !comma)
		return p->code ? NULL : first;
	struct when_node *list = when_new_node(p, WHEN_N_LIST, at);
	if (list) {
		list->a = first;
		list->count = n;
	}
	return when_close(p, list);
}

/* Whether the bracket just opened holds a list. Looks ahead because the items must know it, to
 * refuse further lists: a list may be evaluated more than once, a list within it even more
 * often. */
static bool is_list_ahead(const struct when_parser *p, bool square)
{
	unsigned depth = 1;
	char quote = 0;
	if (square)
		return true;
	for (const char *s = p->lexer.text + p->end; *s && depth; s++) {
		if (quote && *s == '\\' && s[1])
			s++;
		else if (quote)
			quote = *s == quote ? 0 : quote;
		else if (*s == '"' || *s == '\'')
			quote = *s;
		else if (*s == '(' || *s == '[')
			depth++;
		else if (*s == ')' || *s == ']')
			depth--;
		else if (*s == ',' && depth == 1)
			return true;
	}
	return false;
}

static struct when_node *parse_group(struct when_parser *p)
{
	size_t at = p->now.at;
	bool square = when_is_sign(p, "["), outer = p->in_list;
	when_advance(p);
	bool list = is_list_ahead(p, square);
	if (list && outer) {
		struct when_token here = {.at = (uint32_t)at, .len = 1};
		return when_wrong_token(
		    p, &here, "a list within a list is not known here",
		    "lists are compared one by one: x == (1, 2) or x == (2, 1)");
	}
	p->in_list |= list;
	struct when_node *n = parse_brackets(p, at, square ? "]" : ")");
	p->in_list = outer;
	return n;
}

/* Bind `name` in `n` to the loop variable in `slot`. */
static void bind_names(struct when_node *n, const char *name, uint8_t slot)
{
	for (; n; n = n->next) {
		if (n->kind == WHEN_N_NAME && !strcmp(n->name, name)) {
			n->kind = WHEN_N_VARIABLE;
			n->slot = slot;
		}
		bind_names(n->a, name, slot);
		bind_names(n->b, name, slot);
	}
}

static bool is_free_name(struct when_parser *p)
{
	struct when_value v;
	return p->now.kind == TOKEN_NAME && !is_reserved(p->now.name) &&
	       !when_word_find(p->now.name) && !when_constant_find(p->now.name, &v);
}

/* any(t.numel() > 0 for t in inputs); "any(" has been read. */
static struct when_node *parse_loop(struct when_parser *p, enum when_node_kind kind, size_t at)
{
	static const char how[] = "it is written any(t.numel() > 0 for t in inputs)";
	struct when_node *n = when_new_node(p, kind, at);
	if (p->slots == WHEN_SLOTS_MAX)
		return when_wrong_token(p, &p->now, "too many any and all within each other", how);
	uint8_t slot = (uint8_t)p->slots++;
	struct when_node *body = when_truth_node(p, p->condition(p));
	p->slots--;
	if (!when_accept_name(p, "for"))
		return when_expected(p, "\"for\"", how);
	if (!is_free_name(p))
		return when_expected(p, "a name that has no other meaning", how);
	const char *name = p->now.name;
	when_advance(p);
	if (!when_accept_name(p, "in"))
		return when_expected(p, "\"in\"", how);
	struct when_node *items = p->condition(p);
	if (!when_accept(p, ")"))
		return when_expected(p, "\")\"", how);
	if (!n || !body || !items)
		return NULL;
	bind_names(body, name, slot);
	n->a = items;
	n->b = body;
	n->slot = slot;
	return when_close(p, n);
}

/* len(x), numel(x), any(...), all(...); the current token is "(". */
static struct when_node *parse_call(struct when_parser *p, const struct when_token *name)
{
	bool all = !strcmp(name->name, "all");
	when_advance(p);
	if (all || !strcmp(name->name, "any"))
		return parse_loop(p, all ? WHEN_N_ALL : WHEN_N_ANY, name->at);
	bool len = !strcmp(name->name, "len");
	struct when_node *n = when_new_node(p, len ? WHEN_N_LEN : WHEN_N_ATTRIBUTE, name->at);
	struct when_node *a = p->condition(p);
	if (!when_accept(p, ")"))
		return when_expected(p, "\")\"", "len and numel take one argument: len(tensors)");
	if (!n)
		return NULL;
	n->a = a;
	n->attribute = len ? NULL : when_attribute_find("numel");
	return when_close(p, n);
}

static bool is_function(const char *name)
{
	return !strcmp(name, "len") || !strcmp(name, "numel") || !strcmp(name, "any") ||
	       !strcmp(name, "all");
}

/* torch.float16; "torch" has been read and the current token is ".". */
static struct when_node *parse_torch(struct when_parser *p, size_t at)
{
	struct when_value v;
	when_advance(p);
	bool found = !p->code && p->now.kind == TOKEN_NAME && when_constant_find(p->now.name, &v);
	if (!found)
		return when_wrong_token(
		    p, &p->now, "torch has no dtype, layout or memory format of this name",
		    "these are known: torch.float16, torch.bfloat16, torch.int64, "
		    "torch.strided, torch.channels_last and the like");
	when_advance(p);
	return constant_node(p, at, v);
}

static struct when_node *parse_name(struct when_parser *p)
{
	struct when_token t = p->now;
	struct when_value v;
	if (is_reserved(t.name))
		return when_expected(p, "a value",
				     "conditions are written as in Python: self.dim() == 2 "
				     "and alpha != 1");
	when_advance(p);
	if (is_function(t.name) && when_is_sign(p, "("))
		return parse_call(p, &t);
	if (when_is_sign(p, "("))
		return when_wrong_token(
		    p, &t, "there is no function of this name",
		    "there are len(x), numel(x), any(... for x in ...), all(...), and what "
		    "a value has: x.dim(), x.size(0)");
	if (!strcmp(t.name, "torch") && when_is_sign(p, "."))
		return parse_torch(p, t.at);
	if (when_constant_find(t.name, &v))
		return constant_node(p, t.at, v);
	const struct when_word_def *w = when_word_find(t.name);
	struct when_node *n = when_new_node(p, w ? WHEN_N_WORD : WHEN_N_NAME, t.at);
	if (n) {
		n->word = w;
		n->name = t.name;
	}
	return when_close(p, n);
}

static struct when_node *parse_atom(struct when_parser *p)
{
	if (p->code)
		return NULL;
	if (when_is_sign(p, "(") || when_is_sign(p, "["))
		return parse_group(p);
	if (p->now.kind == TOKEN_NAME)
		return parse_name(p);
	if (p->now.kind == TOKEN_VALUE) {
		struct when_token t = p->now;
		when_advance(p);
		return constant_node(p, t.at, t.value);
	}
	return when_expected(p, "a value",
			     "conditions are written as in Python: self.dim() == 2 and alpha != 1");
}

static struct when_node *refuse_attribute(struct when_parser *p)
{
	struct suggestions near = {.word = p->now.name};
	char list[256];
	when_attributes_suggest(&near);
	p->code = when_wrong(&p->lexer, p->now.at, p->now.len, "nothing has \"%s\"", p->now.name);
	if (suggestions_list(&near, list, sizeof(list)))
		err_hint(p->lexer.e, "near it: %s", list);
	else
		err_hint(p->lexer.e,
			 "tensors have shape, stride, dim, numel, nbytes, dtype, device, "
			 "layout, requires_grad, is_contiguous, storage_offset, data_ptr");
	return NULL;
}

/* The argument in parentheses after an attribute, if any. */
static void parse_attribute_argument(struct when_parser *p, struct when_node *n)
{
	const struct when_attribute_def *d = n->attribute;
	struct when_token open = p->now;
	if (when_accept(p, "(")) {
		if (!when_is_sign(p, ")") && !d->takes_index && !d->takes_string) {
			when_wrong_token(
			    p, &p->now, "this takes no argument",
			    "only size(i), stride(i), startswith(s) and endswith(s) do");
			return;
		}
		if (!when_is_sign(p, ")"))
			n->b = p->condition(p);
		if (!p->code && !when_accept(p, ")"))
			when_expected(p, "\")\"", "close what has been opened");
	}
	if (d->takes_string && !n->b)
		when_wrong_token(p, &open, "a string is missing here",
				 "it is written file.endswith(\"train.py\")");
}

/* .shape, .size(0): the "." has been read. */
static struct when_node *parse_attribute(struct when_parser *p, struct when_node *a)
{
	if (p->code || p->now.kind != TOKEN_NAME)
		return when_expected(p, "a name",
				     "after a \".\" comes what a value has: x.shape, x.dtype");
	struct when_node *n = when_new_node(p, WHEN_N_ATTRIBUTE, a->at);
	if (!n)
		return NULL;
	n->a = a;
	n->attribute = when_attribute_find(p->now.name);
	if (!n->attribute)
		return refuse_attribute(p);
	when_advance(p);
	parse_attribute_argument(p, n);
	return when_close(p, n);
}

struct when_node *when_parse_postfix(struct when_parser *p)
{
	struct when_node *a = parse_atom(p);
	while (a && !p->code) {
		bool dot = when_is_sign(p, "."), open = when_is_sign(p, "[");
		if (!dot && !open)
			return a;
		when_advance(p);
		if (dot) {
			a = parse_attribute(p, a);
			continue;
		}
		struct when_node *n = when_new_node(p, WHEN_N_ITEM, a->at);
		struct when_node *b = p->condition(p);
		if (!when_accept(p, "]"))
			return when_expected(p, "\"]\"",
					     "an item is written x.shape[0] or args[-1]");
		if (!n)
			return NULL;
		n->a = a;
		n->b = b;
		a = when_close(p, n);
	}
	return p->code ? NULL : a;
}
