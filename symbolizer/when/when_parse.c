#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/when/internal.h"

void when_advance(struct when_parser *p)
{
	p->end = p->now.at + p->now.len;
	if (!p->code)
		p->code = when_lex(&p->lexer, &p->now);
}

struct when_node *when_wrong_token(struct when_parser *p, const struct when_token *t,
				   const char *what, const char *hint)
{
	if (p->code)
		return NULL;
	p->code = when_wrong(&p->lexer, t->at, t->len, "%s", what);
	err_hint(p->lexer.e, "%s", hint);
	return NULL;
}

struct when_node *when_expected(struct when_parser *p, const char *what, const char *hint)
{
	char text[128];
	if (p->now.kind == TOKEN_END)
		snprintf(text, sizeof(text), "%s is missing at the end", what);
	else
		snprintf(text, sizeof(text), "%s is missing here", what);
	return when_wrong_token(p, &p->now, text, hint);
}

struct when_node *when_new_node(struct when_parser *p, enum when_node_kind kind, size_t at)
{
	struct when_node *n = p->code ? NULL : arena_alloc(p->lexer.arena, sizeof(*n));
	if (!n && !p->code)
		p->code = err_set(p->lexer.e, -ENOMEM, "no memory");
	if (!n)
		return NULL;
	n->kind = (uint8_t)kind;
	n->at = (uint32_t)at;
	return n;
}

struct when_node *when_close(struct when_parser *p, struct when_node *n)
{
	if (n)
		n->len = (uint32_t)(p->end - n->at);
	return p->code ? NULL : n;
}

bool when_is_sign(const struct when_parser *p, const char *sign)
{
	return !p->code && p->now.kind == TOKEN_SIGN && !strcmp(p->now.sign, sign);
}

static bool when_is_name(const struct when_parser *p, const char *name)
{
	return !p->code && p->now.kind == TOKEN_NAME && !strcmp(p->now.name, name);
}

bool when_accept(struct when_parser *p, const char *sign)
{
	if (!when_is_sign(p, sign))
		return false;
	when_advance(p);
	return true;
}

bool when_accept_name(struct when_parser *p, const char *name)
{
	if (!when_is_name(p, name))
		return false;
	when_advance(p);
	return true;
}

struct when_node *when_truth_node(struct when_parser *p, struct when_node *a)
{
	if (!a || a->kind == WHEN_N_COMPARE || a->kind >= WHEN_N_TRUTH)
		return a;
	struct when_node *n = when_new_node(p, WHEN_N_TRUTH, a->at);
	if (!n)
		return NULL;
	n->a = a;
	n->len = a->len;
	return n;
}

static struct when_node *refuse_depth(struct when_parser *p)
{
	return when_wrong_token(p, &p->now, "this goes too deep", "write it in a simpler way");
}

static struct when_node *parse_unary(struct when_parser *p)
{
	size_t at = p->now.at;
	bool minus = when_is_sign(p, "-");
	if (!minus && !when_is_sign(p, "+"))
		return when_parse_postfix(p);
	if (++p->nesting > WHEN_NESTING_MAX)
		return refuse_depth(p);
	when_advance(p);
	struct when_node *a = parse_unary(p);
	p->nesting--;
	if (!minus || !a)
		return a;
	struct when_node *n = when_new_node(p, WHEN_N_MINUS, at);
	if (n)
		n->a = a;
	return when_close(p, n);
}

/* Left-associative operators of one precedence: + and - (`sum`), or *, %, / and //. */
static struct when_node *parse_arith(struct when_parser *p, bool sum)
{
	struct when_node *a = sum ? parse_arith(p, false) : parse_unary(p);
	while (a && !p->code && p->now.kind == TOKEN_SIGN) {
		const char *sign = p->now.sign;
		if (!strchr(sum ? "+-" : "*%/", sign[0]))
			break;
		char op = sign[1] ? '|' : sign[0];
		when_advance(p);
		struct when_node *b = sum ? parse_arith(p, false) : parse_unary(p);
		struct when_node *n = when_new_node(p, WHEN_N_ARITH, a->at);
		if (!n)
			return NULL;
		n->a = a;
		n->b = b;
		n->op = (uint8_t)op;
		a = when_close(p, n);
	}
	return a;
}

/* Consume in, not in, is or is not. Returns the comparison, or -1. */
static int take_word_comparison(struct when_parser *p)
{
	if (when_accept_name(p, "in"))
		return WHEN_IN;
	if (when_is_name(p, "not")) {
		when_advance(p);
		if (when_accept_name(p, "in"))
			return WHEN_NOT_IN;
		when_expected(p, "\"in\"", "write x not in y, or: a and not b");
		return -1;
	}
	if (!when_accept_name(p, "is"))
		return -1;
	int op = when_accept_name(p, "not") ? WHEN_IS_NOT : WHEN_IS;
	if (!when_is_name(p, "None")) {
		when_expected(p, "None",
			      "\"is\" compares with None only; write == for other values");
		return -1;
	}
	return op;
}

/* Consume a comparison operator. Returns the comparison, or -1. */
static int take_comparison(struct when_parser *p)
{
	static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
	if (p->code)
		return -1;
	for (int i = 0; i < (int)(sizeof(signs) / sizeof(signs[0])); i++)
		if (when_accept(p, signs[i]))
			return i; /* in the order of enum when_comparison */
	return take_word_comparison(p);
}

static struct when_node *parse_comparison(struct when_parser *p)
{
	struct when_node *a = parse_arith(p, true);
	if (!a)
		return NULL;
	size_t at = p->now.at;
	int op = take_comparison(p);
	if (op < 0)
		return p->code ? NULL : a;
	struct when_node *n = when_new_node(p, WHEN_N_COMPARE, a->at);
	if (!n)
		return NULL;
	n->a = a;
	for (struct when_node **last = &n->b; op >= 0; op = take_comparison(p)) {
		struct when_node *link = when_new_node(p, WHEN_N_LINK, at);
		if (!link)
			return NULL;
		link->op = (uint8_t)op;
		link->len = (uint32_t)(p->end - at);
		link->a = parse_arith(p, true);
		*last = link;
		last = &link->next;
		at = p->now.at;
	}
	return when_close(p, n);
}

static struct when_node *parse_not(struct when_parser *p)
{
	size_t at = p->now.at;
	if (!when_is_name(p, "not"))
		return parse_comparison(p);
	if (++p->nesting > WHEN_NESTING_MAX)
		return refuse_depth(p);
	when_advance(p);
	struct when_node *n = when_new_node(p, WHEN_N_NOT, at),
			 *a = when_truth_node(p, parse_not(p));
	p->nesting--;
	if (n)
		n->a = a;
	return when_close(p, n);
}

static struct when_node *parse_and(struct when_parser *p)
{
	struct when_node *a = parse_not(p);
	while (a && when_accept_name(p, "and")) {
		struct when_node *n = when_new_node(p, WHEN_N_AND, a->at);
		if (!n)
			return NULL;
		n->a = when_truth_node(p, a);
		n->b = when_truth_node(p, parse_not(p));
		a = when_close(p, n);
	}
	return p->code ? NULL : a;
}

static struct when_node *parse_or(struct when_parser *p)
{
	if (++p->nesting > WHEN_NESTING_MAX)
		return refuse_depth(p);
	struct when_node *a = parse_and(p);
	while (a && when_accept_name(p, "or")) {
		struct when_node *n = when_new_node(p, WHEN_N_OR, a->at);
		if (!n)
			return NULL;
		n->a = when_truth_node(p, a);
		n->b = when_truth_node(p, parse_and(p));
		a = when_close(p, n);
	}
	p->nesting--;
	return p->code ? NULL : a;
}

int when_wrong_node(const struct when *w, const struct when_node *n, struct err *e, const char *fmt,
		    ...)
{
	struct when_lexer l = {.option = w->option, .text = w->text, .e = e};
	char why[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return when_wrong(&l, n->at, n->len, "%s", why);
}

int when_parse(struct when *w, struct err *e)
{
	struct when_parser p = {
	    .lexer = {.option = w->option, .text = w->text, .arena = &w->arena, .e = e},
	    .condition = parse_or};
	when_advance(&p);
	if (!p.code && p.now.kind == TOKEN_END) {
		when_wrong_token(&p, &p.now, "the condition is empty",
				 "give one such as 'self.dim() == 2 and self.dtype == float16'");
		return p.code;
	}
	w->root = when_truth_node(&p, parse_or(&p));
	if (!p.code && p.now.kind != TOKEN_END)
		when_wrong_token(
		    &p, &p.now, "this does not belong here",
		    "join conditions with and, or; compare with ==, !=, <, <=, >, >=, in, is None");
	return p.code;
}
