#include "symbolizer/ops/schema.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NESTING = 16, MAX_LIST_LEN = 1 << 20 };

struct parser {
	const char *p, *end;
	struct arena *arena;
	bool no_memory;
};

static const struct {
	const char *name;
	enum schema_base base;
} bases[] = {
    {"Tensor", SCHEMA_TENSOR},
    {"Scalar", SCHEMA_SCALAR},
    {"number", SCHEMA_SCALAR},
    {"int", SCHEMA_INT},
    {"SymInt", SCHEMA_SYMINT},
    {"float", SCHEMA_FLOAT},
    {"bool", SCHEMA_BOOL},
    {"complex", SCHEMA_COMPLEX},
    {"str", SCHEMA_STR},
    {"ScalarType", SCHEMA_DTYPE},
    {"Layout", SCHEMA_LAYOUT},
    {"Device", SCHEMA_DEVICE},
    {"DeviceIndex", SCHEMA_DEVICE_INDEX},
    {"MemoryFormat", SCHEMA_MEMORY_FORMAT},
    {"Generator", SCHEMA_GENERATOR},
    {"Dimname", SCHEMA_DIMNAME},
    {"Storage", SCHEMA_STORAGE},
    {"Stream", SCHEMA_STREAM},
    {"QScheme", SCHEMA_QSCHEME},
};

/* Types whose parentheses contain types, not an alias set (schema_type_parser.cpp, parseType). */
static const char *const containers[] = {"Dict", "Future", "Await", "RRef", "Union", "Tuple"};

static void skip_space(struct parser *p)
{
	while (p->p < p->end && (*p->p == ' ' || *p->p == '\t' || *p->p == '\n' || *p->p == '\r'))
		p->p++;
}

static bool peek(struct parser *p, char c)
{
	skip_space(p);
	return p->p < p->end && *p->p == c;
}

static bool accept(struct parser *p, const char *token)
{
	size_t n = strlen(token);
	skip_space(p);
	if ((size_t)(p->end - p->p) < n || memcmp(p->p, token, n))
		return false;
	p->p += n;
	return true;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Length of the word at p, 0 if there is none. */
static size_t word(struct parser *p)
{
	const char *s = p->p;
	while (s < p->end && is_word(*s))
		s++;
	return (size_t)(s - p->p);
}

static const char *copy(struct parser *p, const char *s, size_t n)
{
	const char *c = arena_strndup(p->arena, s, n);
	if (!c)
		p->no_memory = true;
	return c;
}

static enum schema_base base_of(const char *s, size_t n)
{
	for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++)
		if (strlen(bases[i].name) == n && !memcmp(bases[i].name, s, n))
			return bases[i].base;
	return SCHEMA_OTHER;
}

static bool is_container(const char *s, size_t n)
{
	for (size_t i = 0; i < sizeof(containers) / sizeof(containers[0]); i++)
		if (strlen(containers[i]) == n && !memcmp(containers[i], s, n))
			return true;
	return false;
}

/* Consumes an alias annotation, "(a!)", "(a -> *)", "(a! -> a|b)"; false if there is none. */
static bool parse_alias(struct parser *p, struct schema_arg *out)
{
	if (p->p == p->end || *p->p != '(')
		return false;
	const char *s = p->p + 1;
	while (s < p->end && (is_word(*s) || strchr("!|*-> ", *s)))
		s++;
	if (s == p->end || *s != ')' || s == p->p + 1)
		return false;
	const char *inside = p->p + 1;
	size_t n = (size_t)(s - inside);
	if (!out->alias)
		out->alias = copy(p, inside, n);
	out->is_write |= memchr(inside, '!', n) != NULL;
	p->p = s + 1;
	return true;
}

static int parse_type(struct parser *p, struct schema_arg *out, int nesting);

/* The types up to the ")" of a tuple, Dict ...; the "(" has been consumed. */
static int parse_type_list(struct parser *p, int nesting)
{
	if (accept(p, ")"))
		return 0;
	do {
		struct schema_arg ignored = {0};
		skip_space(p);
		int rc = parse_type(p, &ignored, nesting + 1);
		if (rc)
			return rc;
		skip_space(p);
		p->p += word(p); /* field name of a named tuple */
	} while (accept(p, ","));
	return accept(p, ")") ? 0 : -EINVAL;
}

static int parse_base(struct parser *p, struct schema_arg *out, int nesting)
{
	const char *start = p->p;
	size_t n = word(p);
	if (!n) {
		out->base = SCHEMA_OTHER;
		return accept(p, "(") ? parse_type_list(p, nesting) : -EINVAL;
	}
	p->p += n;
	while (p->p + 1 < p->end && *p->p == '.' && is_word(p->p[1])) {
		p->p++;
		p->p += word(p);
	}
	n = (size_t)(p->p - start);
	out->base = base_of(start, n);
	if (is_container(start, n))
		return accept(p, "(") ? parse_type_list(p, nesting) : -EINVAL;
	parse_alias(p, out);
	return 0;
}

/* The "[" has been consumed. */
static int parse_list_suffix(struct parser *p, struct schema_arg *out)
{
	int32_t len = 0;
	for (; p->p < p->end && isdigit((unsigned char)*p->p); p->p++) {
		len = len * 10 + (*p->p - '0');
		if (len > MAX_LIST_LEN)
			return -EINVAL;
	}
	if (p->p == p->end || *p->p != ']' || out->list_depth == UINT8_MAX)
		return -EINVAL;
	p->p++;
	out->elem_is_optional = out->is_optional;
	out->is_optional = false;
	out->is_list = true;
	out->list_len = len;
	out->list_depth++;
	return 0;
}

static int parse_type(struct parser *p, struct schema_arg *out, int nesting)
{
	if (nesting > MAX_NESTING)
		return -E2BIG;
	const char *start = p->p;
	int rc = parse_base(p, out, nesting);
	while (!rc && p->p < p->end) {
		if (*p->p == '?') {
			out->is_optional = true;
			p->p++;
		} else if (*p->p == '[') {
			p->p++;
			rc = parse_list_suffix(p, out);
		} else if (!parse_alias(p, out)) {
			break;
		}
	}
	if (!rc && nesting == 0)
		out->type = copy(p, start, (size_t)(p->p - start));
	return rc;
}

/* The end of the quoted string at s; NULL if unterminated. */
static const char *string_end(const char *s, const char *end)
{
	char quote = *s++;
	for (; s < end && *s != quote; s++)
		if (*s == '\\' && ++s == end)
			return NULL;
	return s < end ? s + 1 : NULL;
}

/* A default extends to the next "," or ")" outside brackets and strings. */
static int parse_default(struct parser *p, struct schema_arg *out)
{
	skip_space(p);
	const char *start = p->p, *s = start;
	int depth = 0;
	while (s && s < p->end) {
		if (depth == 0 && (*s == ',' || *s == ')'))
			break;
		if (*s == '[' || *s == '(')
			depth++;
		else if ((*s == ']' || *s == ')') && --depth < 0)
			return -EINVAL;
		s = *s == '"' || *s == '\'' ? string_end(s, p->end) : s + 1;
	}
	if (!s || s == p->end)
		return -EINVAL;
	p->p = s;
	while (s > start && s[-1] == ' ')
		s--;
	if (s == start)
		return -EINVAL;
	out->default_text = copy(p, start, (size_t)(s - start));
	return 0;
}

static int parse_arg(struct parser *p, struct schema_arg *out, bool is_result)
{
	skip_space(p);
	int rc = parse_type(p, out, 0);
	if (rc)
		return rc;
	skip_space(p);
	size_t n = word(p);
	if (!n && !is_result)
		return -EINVAL;
	out->name = copy(p, p->p, n);
	p->p += n;
	if (p->p < p->end && *p->p == '[' &&
	    !is_result) { /* "int stride[2]": older syntax for int[2] */
		p->p++;
		rc = parse_list_suffix(p, out);
	}
	if (!rc && !is_result && accept(p, "="))
		rc = parse_default(p, out);
	return rc;
}

static const struct schema_arg *copy_args(struct parser *p, const struct schema_arg *args, size_t n)
{
	struct schema_arg *c = arena_alloc(p->arena, n * sizeof(*args) + 1);
	if (!c) {
		p->no_memory = true;
		return NULL;
	}
	memcpy(c, args, n * sizeof(*args));
	return c;
}

/* The arguments after the "(", up to and including the ")". */
static int parse_args(struct parser *p, struct schema *out)
{
	struct schema_arg args[SCHEMA_MAX_ARGS];
	size_t n = 0;
	bool kwarg_only = false;

	if (!accept(p, ")")) {
		do {
			if (accept(p, "...")) {
				out->vararg = true;
				break;
			}
			if (accept(p, "*")) {
				if (kwarg_only)
					return -EINVAL;
				kwarg_only = true;
				continue;
			}
			if (n == SCHEMA_MAX_ARGS)
				return -E2BIG;
			args[n] = (struct schema_arg){.kwarg_only = kwarg_only};
			int rc = parse_arg(p, &args[n++], false);
			if (rc)
				return rc;
		} while (accept(p, ","));
		if (!accept(p, ")"))
			return -EINVAL;
	}
	out->args = copy_args(p, args, n);
	out->nargs = (uint16_t)n;
	return 0;
}

static int parse_returns(struct parser *p, struct schema *out)
{
	struct schema_arg returns[SCHEMA_MAX_ARGS];
	size_t n = 0;
	bool many = peek(p, '(');

	p->p += many;
	if (many && accept(p, ")"))
		many = false;
	else
		do {
			if (accept(p, "...")) {
				out->varret = true;
				break;
			}
			if (n == SCHEMA_MAX_ARGS)
				return -E2BIG;
			returns[n] = (struct schema_arg){0};
			int rc = parse_arg(p, &returns[n++], true);
			if (rc)
				return rc;
		} while (many && accept(p, ","));
	if (many && !accept(p, ")"))
		return -EINVAL;
	out->returns = copy_args(p, returns, n);
	out->nreturns = (uint16_t)n;
	return 0;
}

static int parse_name(struct parser *p, const char *default_ns, struct schema *out)
{
	skip_space(p);
	const char *start = p->p;
	size_t n = word(p);
	p->p += n;
	if (!n)
		return -EINVAL;
	out->ns = copy(p, default_ns, strlen(default_ns));
	if (p->end - p->p > 2 && p->p[0] == ':' && p->p[1] == ':') {
		out->ns = copy(p, start, n);
		p->p += 2;
		start = p->p;
		n = word(p);
		p->p += n;
		if (!n)
			return -EINVAL;
	}
	out->name = copy(p, start, n);
	start = p->p;
	if (p->p < p->end && *p->p == '.') {
		start = ++p->p;
		p->p += word(p);
		if (p->p == start)
			return -EINVAL;
	}
	out->overload = copy(p, start, (size_t)(p->p - start));
	return 0;
}

static int make_names(struct parser *p, const char *rest, struct schema *out)
{
	size_t rest_len = (size_t)(p->end - rest);
	size_t size = strlen(out->ns) + strlen(out->name) + strlen(out->overload) + 4;
	char *full = arena_alloc(p->arena, size);
	char *text = arena_alloc(p->arena, size + rest_len);
	if (!full || !text)
		return -ENOMEM;
	int n = snprintf(full, size, "%s%s%s%s%s", out->ns, *out->ns ? "::" : "", out->name,
			 *out->overload ? "." : "", out->overload);
	memcpy(text, full, (size_t)n);
	memcpy(text + n, rest, rest_len);
	out->full_name = full;
	out->text = text;
	return 0;
}

int schema_parse(const char *text, size_t len, const char *default_ns, struct arena *a,
		 struct schema *out)
{
	struct parser p = {.p = text, .end = text + len, .arena = a};

	*out = (struct schema){0};
	if (len > SCHEMA_MAX_TEXT)
		return -E2BIG;
	if (memchr(text, '\0', len))
		return -EINVAL;
	int rc = parse_name(&p, default_ns, out);
	if (rc)
		return rc;
	skip_space(&p);
	const char *rest = p.p;
	if (!accept(&p, "("))
		return -EINVAL;
	rc = parse_args(&p, out);
	if (!rc)
		rc = accept(&p, "->") ? parse_returns(&p, out) : -EINVAL;
	if (rc)
		return rc;
	skip_space(&p);
	if (p.p != p.end)
		return -EINVAL;
	return p.no_memory ? -ENOMEM : make_names(&p, rest, out);
}

int schema_parse_type(const char *text, struct arena *a, struct schema_arg *out)
{
	size_t len = strlen(text);
	struct parser p = {.p = text, .end = text + len, .arena = a};

	*out = (struct schema_arg){0};
	if (len > SCHEMA_MAX_TEXT)
		return -E2BIG;
	int rc = parse_type(&p, out, 0);
	if (!rc && p.p != p.end)
		rc = -EINVAL;
	return p.no_memory ? -ENOMEM : rc;
}
