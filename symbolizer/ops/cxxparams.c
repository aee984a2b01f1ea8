#define _GNU_SOURCE /* memrchr */
#include "symbolizer/ops/schema.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "symbolizer/target/elf.h"

/* A substring of the demangled text. */
struct span {
	const char *s;
	size_t len;
};

static const struct {
	const char *text;
	enum cxx_base base;
} bases[] = {
    {"at::Tensor", CXX_TENSOR},
    {"c10::Scalar", CXX_SCALAR},
    {"long", CXX_INT64},
    {"signed char", CXX_INT8},
    {"c10::SymInt", CXX_SYMINT},
    {"double", CXX_DOUBLE},
    {"bool", CXX_BOOL},
    {"std::basic_string_view<char, std::char_traits<char> >", CXX_STRING_VIEW},
    {"std::basic_string_view<char>", CXX_STRING_VIEW},
    {"c10::basic_string_view<char>", CXX_STRING_VIEW},
    {"c10::ScalarType", CXX_SCALAR_TYPE},
    {"c10::Layout", CXX_LAYOUT},
    {"c10::Device", CXX_DEVICE},
    {"c10::MemoryFormat", CXX_MEMORY_FORMAT},
    {"at::Generator", CXX_GENERATOR},
    {"at::Dimname", CXX_DIMNAME},
    {"c10::Storage", CXX_STORAGE},
    {"c10::Stream", CXX_STREAM},
};

static bool strip_suffix(struct span *t, const char *suffix)
{
	size_t n = strlen(suffix);
	if (t->len < n || memcmp(t->s + t->len - n, suffix, n))
		return false;
	t->len -= n;
	return true;
}

/* "TEMPLATE<X>" becomes "X". */
static bool unwrap(struct span *t, const char *open)
{
	size_t n = strlen(open);
	if (t->len <= n || memcmp(t->s, open, n) || t->s[t->len - 1] != '>')
		return false;
	t->s += n;
	t->len -= n + 1;
	while (t->len && t->s[t->len - 1] == ' ')
		t->len--;
	return true;
}

static bool unwrap_optional(struct span *t, bool *is_std)
{
	*is_std = unwrap(t, "std::optional<");
	return *is_std || unwrap(t, "c10::optional<");
}

/* "bool, 3ul" becomes "bool"; false when the length is not in 1 .. 255. */
static bool array_length(struct span *t, uint8_t *len)
{
	const char *comma = memrchr(t->s, ',', t->len);
	if (!comma)
		return false;
	unsigned long n = 0;
	const char *p = comma + 1, *end = t->s + t->len;
	while (p < end && *p == ' ')
		p++;
	const char *digits = p;
	for (; p < end && *p >= '0' && *p <= '9' && n < 256; p++)
		n = n * 10 + (unsigned long)(*p - '0');
	if (p == digits || n == 0 || n > 255)
		return false;
	*len = (uint8_t)n;
	t->len = (size_t)(comma - t->s);
	return true;
}

static bool unwrap_list(struct span *t, struct cxx_param *out)
{
	struct span in = *t;
	if (unwrap(t, "c10::ArrayRef<"))
		out->list = CXX_ARRAY_REF;
	else if (unwrap(t, "c10::List<"))
		out->list = CXX_C10_LIST;
	else if (unwrap(t, "c10::IListRef<"))
		out->list = CXX_ILIST_REF;
	else if (unwrap(&in, "std::array<") && array_length(&in, &out->array_len)) {
		out->list = CXX_STD_ARRAY;
		*t = in;
	}
	return out->list != CXX_NOT_LIST;
}

static enum cxx_base base_of(struct span t)
{
	for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++)
		if (strlen(bases[i].text) == t.len && !memcmp(bases[i].text, t.s, t.len))
			return bases[i].base;
	return CXX_OTHER;
}

void cxx_type_parse(const char *type, size_t len, struct cxx_param *out)
{
	struct span t = {type, len};
	const char *text = out->text;
	bool is_std = false;

	*out = (struct cxx_param){.text = text};
	out->by_ref = strip_suffix(&t, "&");
	if (out->by_ref && strip_suffix(&t, "&")) { /* ATen takes no T&& */
		out->base = CXX_OTHER;
		return;
	}
	out->is_const = strip_suffix(&t, " const");
	if (unwrap(&t, "c10::OptionalArrayRef<")) {
		out->opt_array_ref_class = out->optional = true;
		out->list = CXX_ARRAY_REF;
	} else {
		out->optional = unwrap_optional(&t, &out->std_optional);
		if (unwrap_list(&t, out))
			out->elem_optional = unwrap_optional(&t, &is_std);
		out->std_optional |= is_std;
	}
	out->base = base_of(t);
	out->std_view = out->base == CXX_STRING_VIEW && *t.s == 's';
}

/* The next comma outside <> and () of the parameter list at s, or its end. */
static const char *param_end(const char *s, const char *end)
{
	int depth = 0;
	for (; s < end; s++) {
		if (*s == '<' || *s == '(')
			depth++;
		else if (*s == '>' || *s == ')')
			depth--;
		else if (*s == ',' && depth == 0)
			return s;
	}
	return end;
}

static int parse_params(const char *s, const char *end, struct arena *a, struct cxx_function *out)
{
	struct cxx_param params[CXX_MAX_PARAMS];
	size_t n = 0;

	while (s < end) {
		const char *stop = param_end(s, end);
		if (n == CXX_MAX_PARAMS)
			return -EINVAL;
		params[n].text = arena_strndup(a, s, (size_t)(stop - s));
		if (!params[n].text)
			return -ENOMEM;
		cxx_type_parse(s, (size_t)(stop - s), &params[n++]);
		s = stop < end ? stop + 1 : end;
		while (s < end && *s == ' ')
			s++;
	}
	struct cxx_param *copy = arena_alloc(a, n * sizeof(*copy) + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, params, n * sizeof(*copy));
	out->params = copy;
	out->nparams = (uint16_t)n;
	return 0;
}

/* The "(" that matches the ")" at close; NULL if none. */
static const char *params_open(const char *s, const char *close)
{
	int depth = 0;
	for (const char *p = close; p >= s; p--) {
		if (*p == ')')
			depth++;
		else if (*p == '(' && --depth == 0)
			return p;
	}
	return NULL;
}

static const char *after_last_colons(const char *s, const char *end)
{
	int depth = 0;
	for (const char *p = end; p > s + 1; p--) {
		if (p[-1] == '>')
			depth++;
		else if (p[-1] == '<')
			depth--;
		else if (depth == 0 && p[-1] == ':' && p[-2] == ':')
			return p;
	}
	return s;
}

static int split(const char *text, struct arena *a, struct cxx_function *out)
{
	const char *close = strrchr(text, ')');
	const char *open = close ? params_open(text, close) : NULL;
	if (!open)
		return -EINVAL;
	const char *name = after_last_colons(text, open);
	const char *scope_end = name > text ? name - 2 : text;
	const char *owner = after_last_colons(text, scope_end);

	*out = (struct cxx_function){
	    .scope = arena_strndup(a, text, (size_t)(scope_end - text)),
	    .owner = arena_strndup(a, owner, (size_t)(scope_end - owner)),
	    .name = arena_strndup(a, name, (size_t)(open - name)),
	};
	if (!out->scope || !out->owner || !out->name)
		return -ENOMEM;
	return parse_params(open + 1, close, a, out);
}

int cxx_function_parse(const char *symbol, struct arena *a, struct cxx_function *out)
{
	char *text = elf_demangle(symbol, DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP);
	if (!text)
		return -EINVAL;
	int rc = split(text, a, out);
	free(text);
	return rc;
}
