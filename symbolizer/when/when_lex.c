#include "symbolizer/when/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int when_wrong(const struct when_lexer *l, size_t at, size_t len, const char *fmt, ...)
{
	char why[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	err_set(l->e, -EINVAL, "%s: %s", l->option, why);
	err_quote(l->e, l->text, at, len);
	return -EINVAL;
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

static int lex_name(struct when_lexer *l, struct when_token *t)
{
	while (is_word(l->text[l->at]))
		l->at++;
	t->kind = TOKEN_NAME;
	t->len = (uint32_t)(l->at - t->at);
	t->name = arena_strndup(l->arena, l->text + t->at, t->len);
	return t->name ? 0 : err_set(l->e, -ENOMEM, "no memory");
}

/* Copy the characters of a number, without the "_" between digits, up to the first that cannot
 * belong to it. Returns the length of the text consumed. */
static size_t number_text(const char *s, char *out, size_t size)
{
	bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
	size_t n = 0, i = 0;
	for (; n + 1 < size; i++) {
		bool sign = !hex && (s[i] == '-' || s[i] == '+') && i &&
			    (s[i - 1] == 'e' || s[i - 1] == 'E');
		bool letter =
		    hex ? isxdigit((unsigned char)s[i]) || i == 1
			: (s[i] == 'e' || s[i] == 'E') && (isdigit((unsigned char)s[i + 1]) ||
							   ((s[i + 1] == '-' || s[i + 1] == '+') &&
							    isdigit((unsigned char)s[i + 2])));
		if (s[i] == '_' && i && isxdigit((unsigned char)s[i - 1]) &&
		    isxdigit((unsigned char)s[i + 1]))
			continue;
		if (!sign && !letter && !isdigit((unsigned char)s[i]) && (hex || s[i] != '.'))
			break;
		out[n++] = s[i];
	}
	out[n] = '\0';
	return i;
}

/* "2ms": convert to seconds, the unit of `elapsed`. */
static bool take_unit(struct when_lexer *l, struct when_value *v)
{
	static const struct {
		const char *unit;
		double per_second;
	} units[] = {{"s", 1}, {"ms", 1e3}, {"us", 1e6}, {"ns", 1e9}};
	const char *s = l->text + l->at;
	size_t n = 0;
	while (is_word(s[n]))
		n++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strlen(units[i].unit) != n || memcmp(s, units[i].unit, n) != 0)
			continue;
		double value = v->kind == WHEN_V_INT ? (double)v->i : v->f;
		*v = (struct when_value){.kind = WHEN_V_FLOAT, .f = value / units[i].per_second};
		l->at += n;
		return true;
	}
	return n == 0;
}

static int lex_number(struct when_lexer *l, struct when_token *t)
{
	char digits[64], *end;
	size_t n = number_text(l->text + l->at, digits, sizeof(digits));
	bool hex = digits[1] == 'x' || digits[1] == 'X';
	bool whole = hex || !strpbrk(digits, ".eE");
	l->at += n;
	errno = 0;
	if (whole)
		t->value = when_int((__int128)strtoull(digits, &end, hex ? 16 : 10));
	else
		t->value = (struct when_value){.kind = WHEN_V_FLOAT, .f = strtod(digits, &end)};
	bool range = whole && errno == ERANGE;
	bool unit = !range && !*end && take_unit(l, &t->value);
	t->kind = TOKEN_VALUE;
	t->len = (uint32_t)(l->at - t->at);
	if (unit)
		return 0;
	if (range) {
		when_wrong(l, t->at, t->len, "this number is too large");
		return err_hint(l->e, "whole numbers go up to 18446744073709551615; write 1e20");
	}
	while (is_word(l->text[l->at]) || l->text[l->at] == '.')
		l->at++;
	when_wrong(l, t->at, l->at - t->at, "this is no number");
	err_hint(l->e, "numbers are written like 128, 1e6, 0.5, 1_000_000, 0xff; times like 2ms, "
		       "50us, 1.5s");
	return -EINVAL;
}

static int lex_string(struct when_lexer *l, struct when_token *t)
{
	char quote = l->text[l->at++];
	size_t len = strlen(l->text + l->at), n = 0;
	char *s = arena_alloc(l->arena, len + 1);
	if (!s)
		return err_set(l->e, -ENOMEM, "no memory");
	for (; l->text[l->at] != quote; l->at++) {
		if (l->text[l->at] == '\\') {
			l->at++;
			if (!l->text[l->at] || !strchr("\\'\"", l->text[l->at])) {
				when_wrong(l, l->at - 1, 2, "this escape is not known");
				return err_hint(l->e, "in a string \\ stands only before \\, ' and "
						      "\"; write \\\\ for one \\");
			}
		}
		if (!l->text[l->at]) {
			when_wrong(l, t->at, 1, "this string has no end");
			return err_hint(l->e,
					"close it with %c; in a shell put the whole "
					"condition into '...'",
					quote);
		}
		s[n++] = l->text[l->at];
	}
	l->at++;
	t->kind = TOKEN_VALUE;
	t->len = (uint32_t)(l->at - t->at);
	t->value = when_string(s, n);
	return 0;
}

static int lex_sign(struct when_lexer *l, struct when_token *t)
{
	static const char *const signs[] = {"==", "!=", "<=", ">=", "//", "<", ">", "+", "-",
					    "*",  "/",	"%",  "(",  ")",  "[", "]", ",", "."};
	static const struct {
		const char *sign, *hint;
	} others[] = {{"=", "equality is written =="},
		      {"&&", "write: and"},
		      {"||", "write: or"},
		      {"!", "write: not"},
		      {"&", "write: and"},
		      {"|", "write: or"},
		      {":", "slices are not known here; an item is written x.shape[0]"}};
	const char *s = l->text + l->at;
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		size_t n = strlen(signs[i]);
		if (strncmp(s, signs[i], n) != 0)
			continue;
		t->kind = TOKEN_SIGN;
		memcpy(t->sign, signs[i], n + 1);
		t->len = (uint32_t)n;
		l->at += n;
		return 0;
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		size_t n = strlen(others[i].sign);
		if (strncmp(s, others[i].sign, n) != 0)
			continue;
		when_wrong(l, l->at, n, "\"%s\" means nothing here", others[i].sign);
		return err_hint(l->e, "%s", others[i].hint);
	}
	size_t n = 1;
	while (n < 4 && ((unsigned char)s[n] & 0xc0) == 0x80)
		n++;
	when_wrong(l, l->at, n, "\"%.*s\" means nothing here", (int)n, s);
	return err_hint(l->e,
			"conditions are written as in Python: self.dim() == 2 and alpha != 1");
}

int when_lex(struct when_lexer *l, struct when_token *out)
{
	while (l->text[l->at] && strchr(" \t\r\n", l->text[l->at]))
		l->at++;
	char c = l->text[l->at];
	*out = (struct when_token){.at = (uint32_t)l->at};
	if (!c)
		return 0;
	if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)l->text[l->at + 1])))
		return lex_number(l, out);
	if (is_word(c))
		return lex_name(l, out);
	return c == '"' || c == '\'' ? lex_string(l, out) : lex_sign(l, out);
}
