#include <errno.h>
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

bool when_is_name(const struct when_parser *p, const char *name)
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
