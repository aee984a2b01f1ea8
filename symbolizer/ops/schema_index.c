#include "symbolizer/ops/schema.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/event/event.h"

struct schema_text {
	const char *text;
	uint32_t len;
	uint16_t name_len; /* length of the name, up to the "(" */
};

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.' || c == ':';
}

/* Start of the name before the first "(" of the printable text around `at`, not before `floor`;
 * NULL if there is none. */
static const char *name_begin(const char *floor, const char *at)
{
	const char *s = at, *open;
	if (at - floor > SCHEMA_MAX_TEXT)
		floor = at - SCHEMA_MAX_TEXT;
	while (s > floor && s[-1] >= ' ' && s[-1] <= '~')
		s--;
	open = memchr(s, '(', (size_t)(at - s));
	if (!open)
		return NULL;
	const char *name = open;
	while (name > s && is_name(name[-1]))
		name--;
	return name < open ? name : NULL;
}

static size_t name_length(const char *s, const char *end)
{
	const char *open = memchr(s, '(', (size_t)(end - s));
	return open && open - s <= UINT16_MAX ? (size_t)(open - s) : 0;
}

int schema_scan(const char *rodata, size_t len, schema_scan_fn *fn, void *arg)
{
	const char *end = rodata + len, *floor = rodata, *p = rodata;

	while ((p = memchr(p, '>', (size_t)(end - p)))) {
		const char *arrow = p++;
		if (arrow - floor < 3 || memcmp(arrow - 3, ") -> ", p < end ? 5 : 4))
			continue;
		const char *start = name_begin(floor, arrow);
		size_t left = (size_t)(end - arrow);
		size_t tail = strnlen(arrow, left < SCHEMA_MAX_TEXT ? left : SCHEMA_MAX_TEXT);
		floor = p = arrow + tail;
		if (p == end || *p || !start)
			continue;
		int rc = fn(start, (size_t)(p - start), arg);
		if (rc)
			return rc;
	}
	return 0;
}

/* FNV-1a hash of `n` bytes, with "." read as "_", as in the C++ name. */
static uint32_t hash(const char *s, size_t n)
{
	uint32_t h = 2166136261u;
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)(s[i] == '.' ? '_' : s[i])) * 16777619u;
	return h;
}

/* Whether `s` is the operator name whose C++ struct is `owner`, both `n` bytes. */
static bool is_owner(const char *s, const char *owner, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((s[i] == '.' ? '_' : s[i]) != owner[i])
			return false;
	return true;
}

static int collect(const char *text, size_t len, void *arg)
{
	struct schema_index *x = arg;
	size_t n = name_length(text, text + len);
	if (array_grow(&x->texts, &x->room, x->ntexts + 1, sizeof(*x->texts)) ||
	    map_add(&x->by_name, hash(text, n), (uint32_t)x->ntexts))
		return -ENOMEM;
	x->texts[x->ntexts++] = (struct schema_text){
	    .text = text,
	    .len = (uint32_t)len,
	    .name_len = (uint16_t)n,
	};
	return 0;
}

int schema_index_add(struct schema_index *x, const char *rodata, size_t len)
{
	return schema_scan(rodata, len, collect, x);
}

void schema_index_free(struct schema_index *x)
{
	free(x->texts);
	map_free(&x->by_name);
	*x = (struct schema_index){0};
}

static const struct {
	enum schema_base schema;
	enum cxx_base cxx;
} same_base[] = {
    {SCHEMA_TENSOR, CXX_TENSOR},       {SCHEMA_SCALAR, CXX_SCALAR},
    {SCHEMA_INT, CXX_INT64},	       {SCHEMA_SYMINT, CXX_SYMINT},
    {SCHEMA_FLOAT, CXX_DOUBLE},	       {SCHEMA_BOOL, CXX_BOOL},
    {SCHEMA_STR, CXX_STRING_VIEW},     {SCHEMA_DTYPE, CXX_SCALAR_TYPE},
    {SCHEMA_LAYOUT, CXX_LAYOUT},       {SCHEMA_DEVICE, CXX_DEVICE},
    {SCHEMA_DEVICE_INDEX, CXX_INT8},   {SCHEMA_MEMORY_FORMAT, CXX_MEMORY_FORMAT},
    {SCHEMA_GENERATOR, CXX_GENERATOR}, {SCHEMA_DIMNAME, CXX_DIMNAME},
    {SCHEMA_STORAGE, CXX_STORAGE},     {SCHEMA_STREAM, CXX_STREAM},
    {SCHEMA_OTHER, CXX_OTHER},	       {SCHEMA_QSCHEME, CXX_OTHER},
    {SCHEMA_COMPLEX, CXX_OTHER},
};

/* Whether the C++ parameter `p` can carry the schema argument `arg`, by the rules of
 * torchgen/api/cpp.py, valuetype_type and argumenttype_type, and torchgen/api/dispatcher.py.
 * CXX_OTHER agrees with the schema types that have no enum cxx_base. */
static bool schema_arg_agrees(const struct schema_arg *arg, const struct cxx_param *p)
{
	bool same = false;
	for (size_t i = 0; i < sizeof(same_base) / sizeof(same_base[0]); i++)
		same |= same_base[i].schema == arg->base && same_base[i].cxx == p->base;
	if (!same)
		return false;
	if (p->base == CXX_OTHER)
		return true;
	if (arg->is_list != (p->list != CXX_NOT_LIST) || arg->is_optional != p->optional ||
	    arg->elem_is_optional != p->elem_optional)
		return false;
	if (p->list == CXX_STD_ARRAY && arg->list_len != p->array_len)
		return false;
	/* A "Tensor&" is written to; a "const Tensor&" may be too
	 * (use_const_ref_for_mutable_tensors). */
	if (p->base == CXX_TENSOR && !arg->is_list && !arg->is_optional)
		return p->by_ref && (p->is_const || arg->is_write);
	return true;
}

static bool fits(const struct schema *s, const struct cxx_function *fn)
{
	if (s->nargs != fn->nparams || s->vararg || s->varret)
		return false;
	for (uint16_t i = 0; i < s->nargs; i++)
		if (!schema_arg_agrees(&s->args[i], &fn->params[i]))
			return false;
	return true;
}

static bool same_args(const struct schema_arg *a, const struct schema_arg *b, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++)
		if (strcmp(a[i].name, b[i].name) || strcmp(a[i].type, b[i].type))
			return false;
	return true;
}

static bool same_schema(const struct schema *a, const struct schema *b)
{
	return !strcmp(a->full_name, b->full_name) && a->nargs == b->nargs &&
	       a->nreturns == b->nreturns && same_args(a->args, b->args, a->nargs) &&
	       same_args(a->returns, b->returns, a->nreturns);
}

/* But for the alias set of what is not written. */
static bool same_type(const struct schema_arg *a, const struct schema_arg *b)
{
	return !strcmp(a->name, b->name) && a->base == b->base && a->base != SCHEMA_OTHER &&
	       a->list_depth == b->list_depth && a->list_len == b->list_len &&
	       a->is_optional == b->is_optional && a->elem_is_optional == b->elem_is_optional &&
	       a->kwarg_only == b->kwarg_only && !a->is_write && !b->is_write;
}

static bool same_types(const struct schema *a, const struct schema *b)
{
	if (strcmp(a->full_name, b->full_name) != 0 || a->nargs != b->nargs ||
	    a->nreturns != b->nreturns)
		return false;
	for (uint16_t i = 0; i < a->nargs; i++)
		if (!same_type(&a->args[i], &b->args[i]))
			return false;
	for (uint16_t i = 0; i < a->nreturns; i++)
		if (!same_type(&a->returns[i], &b->returns[i]))
			return false;
	return true;
}

static bool has_alias(const struct schema *s)
{
	for (uint16_t i = 0; i < s->nargs; i++)
		if (s->args[i].alias)
			return true;
	for (uint16_t i = 0; i < s->nreturns; i++)
		if (s->returns[i].alias)
			return true;
	return false;
}

/* State of a search. */
struct search {
	const struct cxx_function *fn;
	struct arena *arena;
	struct schema found;
	int rc; /* -ENOENT until one fits */
};

/* Another one fits: "real(" ends both "isreal(Tensor self)" and "view_as_real(Tensor(a) self)".
 * Which is taken for one that may give views: whether it does is decided for each call. */
static void choose(struct search *q, const struct schema *s)
{
	bool may_alias = has_alias(s);
	if (!same_types(s, &q->found) || (may_alias && has_alias(&q->found))) {
		q->rc = -ENOTUNIQ;
		return;
	}
	if (may_alias)
		q->found = *s;
	q->found.text = "";
}

static void consider(struct search *q, const char *text, size_t len)
{
	struct schema s;
	int rc = schema_parse(text, len, "aten", q->arena, &s);
	if (rc == -ENOMEM)
		q->rc = rc;
	if (rc || strcmp(s.ns, "aten") || !fits(&s, q->fn))
		return;
	if (q->rc == -ENOENT) {
		q->found = s;
		q->rc = 0;
	} else if (q->rc == 0 && !same_schema(&s, &q->found)) {
		choose(q, &s);
	}
}

/* Texts whose name is `name`. */
static void search_exact(const struct schema_index *x, const char *name, size_t n, struct search *q)
{
	const uint32_t h = hash(name, n);
	uint32_t pos = 0, i;
	while ((i = map_next(&x->by_name, h, &pos)) != MAP_NONE) {
		const struct schema_text *t = &x->texts[i];
		if (t->name_len == n && is_owner(t->text, name, n))
			consider(q, t->text, t->len);
	}
}

/* Texts that end with the operator's: linkers merge a string into a longer one that ends with it.
 */
static void search_ends(const struct schema_index *x, const char *owner, size_t n, struct search *q)
{
	for (size_t i = 0; i < x->ntexts && q->rc != -ENOTUNIQ; i++) {
		const struct schema_text *t = &x->texts[i];
		if (t->name_len <= n)
			continue;
		const char *end = t->text + t->name_len - n;
		if (is_owner(end, owner, n))
			consider(q, end, (size_t)(t->text + t->len - end));
	}
}

int schema_index_find(const struct schema_index *x, const struct cxx_function *fn, struct arena *a,
		      struct schema *out)
{
	static const char prefix[] = "aten::";
	struct search q = {.fn = fn, .arena = a, .rc = -ENOENT};
	char name[512];
	size_t n = strlen(fn->owner), np = sizeof(prefix) - 1;

	if (!n || n + np >= sizeof(name))
		return -ENOENT;
	memcpy(name, prefix, np);
	memcpy(name + np, fn->owner, n + 1);
	search_exact(x, fn->owner, n, &q); /* as TORCH_LIBRARY(aten) defines them */
	if (q.rc == -ENOENT)
		search_exact(x, name, np + n, &q);
	if (q.rc == -ENOENT)
		search_ends(x, fn->owner, n, &q);
	if (!q.rc)
		*out = q.found;
	return q.rc;
}
