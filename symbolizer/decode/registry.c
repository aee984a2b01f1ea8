#include "symbolizer/decode/target.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

enum {
	MAX_REGISTERED = 1 << 15,
	/* c10::Argument: name_, type_, real_type_ (ATen/core/function_schema.h); each TypePtr is 16
	 * bytes (ATen/core/type_ptr.h) */
	TYPE_SIZE = 16,
	LEAST_ARGUMENT = 40,
	MOST_ARGUMENT = 320,
	MAX_VALUES = 256,
	MAX_TEXTS = 1 << 14,
	TRIES_MAX = 8, /* attempts to read the schema of an operator known by name only */
};

struct registry_entry {
	uint64_t key[HANDLE_WORDS - 1];
	struct registered_op *op;
	unsigned tries; /* left; 0: complete, or given up */
};

struct registry {
	const struct mem *mem;
	bool cow; /* see std_string_size */
	struct rtti *rtti;
	struct registry_entry *entries;
	size_t n, room;
	struct map index;	/* of entries, by key */
	unsigned argument_size; /* sizeof(c10::Argument); 0: not known yet */
	bool has_real_types;	/* c10::Argument has real_type_ */
	struct definition_text *texts;
	unsigned ntexts;
	struct arena arena;
	struct named *named;
};

struct definition_text {
	struct definition_text *next;
	const char *text;
	bool of_library;
};

struct named {
	struct named *next;
	struct op_desc desc;
};

struct registry *registry_new(const struct mem *m, bool cow, struct rtti *r)
{
	struct registry *g = calloc(1, sizeof(*g));
	if (g) {
		g->mem = m;
		g->cow = cow;
		g->rtti = r;
	}
	return g;
}

void registry_free(struct registry *g)
{
	if (!g)
		return;
	free(g->entries);
	map_free(&g->index);
	arena_free(&g->arena);
	free(g);
}

/* impl::OperatorEntry is OperatorDef's first member and begins with the OperatorName
 * (ATen/core/dispatch/OperatorEntry.h): two strings. */
static bool operator_name(const struct registry *g, uint64_t def, char full[OPERATOR_NAME_MAX])
{
	char name[256], overload[OPERATOR_NAME_MAX - 256 - 1];
	if (def <= 4096 || std_string_read(g->mem, g->cow, def, name, sizeof(name)) <= 0 ||
	    !strstr(name, "::") ||
	    std_string_read(g->mem, g->cow, def + std_string_size(g->cow), overload,
			    sizeof(overload)) < 0)
		return false;
	snprintf(full, OPERATOR_NAME_MAX, overload[0] ? "%s.%s" : "%s", name, overload);
	return true;
}

static int element_size(struct registry *g, uint64_t begin, uint64_t end)
{
	uint64_t bytes = end - begin;
	char name[256];
	for (unsigned size = LEAST_ARGUMENT; size <= MOST_ARGUMENT; size += 8) {
		if (bytes % size || bytes / size > MAX_VALUES)
			continue;
		bool all = true;
		for (uint64_t at = begin; at < end && all; at += size)
			all = std_string_read(g->mem, g->cow, at, name, sizeof(name)) >= 0;
		if (all)
			return (int)size;
	}
	return -1;
}

static const struct {
	const char *class;
	const char *text;
	uint8_t base;
} type_names[] = {
    {"N3c1010TensorTypeE", "Tensor", SCHEMA_TENSOR},
    {"N3c107IntTypeE", "int", SCHEMA_INT},
    {"N3c1010SymIntTypeE", "SymInt", SCHEMA_SYMINT},
    {"N3c109FloatTypeE", "float", SCHEMA_FLOAT},
    {"N3c108BoolTypeE", "bool", SCHEMA_BOOL},
    {"N3c1011ComplexTypeE", "complex", SCHEMA_COMPLEX},
    {"N3c1010NumberTypeE", "Scalar", SCHEMA_SCALAR},
    {"N3c1010StringTypeE", "str", SCHEMA_STR},
    {"N3c1014ScalarTypeTypeE", "ScalarType", SCHEMA_DTYPE},
    {"N3c1010LayoutTypeE", "Layout", SCHEMA_LAYOUT},
    {"N3c1016MemoryFormatTypeE", "MemoryFormat", SCHEMA_MEMORY_FORMAT},
    {"N3c1013DeviceObjTypeE", "Device", SCHEMA_DEVICE},
    {"N3c1013GeneratorTypeE", "Generator", SCHEMA_GENERATOR},
};

/* The class name of the c10::Type at `addr`; NULL if it is not one. */
static const char *type_class(const struct registry *g, uint64_t addr)
{
	const struct rtti_class *c = rtti_of_object(g->rtti, addr);
	return rtti_is_a(c, "N3c104TypeE") ? c->name : NULL;
}

/* Whether the TypePtr `w` points to a type: it is a shared_ptr, whose second word points to the
 * reference counts (libstdc++'s bits/shared_ptr_base.h, GCC 12), or that of a singleton, whose
 * second word is 0 (ATen/core/type_ptr.h). The first word alone proves little: the end pointer of a
 * vector points past its memory, where the words of a destroyed type may lie. */
static bool is_type_ptr(const struct registry *g, const uint64_t w[2])
{
	return type_class(g, w[0]) &&
	       (!w[1] || rtti_is_a(rtti_of_object(g->rtti, w[1]),
				   "St16_Sp_counted_baseILN9__gnu_cxx12_Lock_policyE2EE"));
}

/* The element type of a List or Optional: the first TypePtr in the object that points to another
 * type. */
static uint64_t element_type(const struct registry *g, uint64_t type)
{
	uint64_t w[13];
	if (mem_read(g->mem, type, w, sizeof(w)))
		return 0;
	for (unsigned i = 2; i + 1 < sizeof(w) / sizeof(w[0]); i++) {
		if (w[i] > 4096 && w[i] != type && is_type_ptr(g, &w[i]))
			return w[i];
	}
	return 0;
}

/* Read the c10::Type at `addr` into `a` and append its text to `text`. False if there is no type
 * (any more). */
static bool read_type(const struct registry *g, uint64_t addr, struct schema_arg *a, char *text,
		      size_t size, int level)
{
	const char *class = type_class(g, addr);
	if (!class)
		return false;
	bool list = !strcmp(class, "N3c108ListTypeE");
	if (level < 4 && (list || !strcmp(class, "N3c1012OptionalTypeE"))) {
		if (!read_type(g, element_type(g, addr), a, text, size, level + 1))
			return false;
		if (list) {
			a->elem_is_optional = a->is_optional;
			a->is_optional = false;
			a->is_list = true;
			a->list_depth++;
		} else {
			a->is_optional = true;
		}
		strncat(text, list ? "[]" : "?", size - strlen(text) - 1);
		return true;
	}
	for (unsigned i = 0; i < sizeof(type_names) / sizeof(type_names[0]); i++) {
		if (strcmp(class, type_names[i].class))
			continue;
		a->base = type_names[i].base;
		strncat(text, type_names[i].text, size - strlen(text) - 1);
		return true;
	}
	strncat(text, "?", size - strlen(text) - 1);
	return true;
}

/* False if it is not an argument: its memory may have been reused. */
static bool read_argument(struct registry *g, uint64_t at, struct schema_arg *a)
{
	char name[256], text[128] = "";
	uint64_t type = 0, real = 0;
	if (std_string_read(g->mem, g->cow, at, name, sizeof(name)) < 0)
		return false;
	at += std_string_size(g->cow);
	mem_read_u64(g->mem, at, &type);
	mem_read_u64(g->mem, at + TYPE_SIZE, &real);
	/* real_type_ exists since 1.12; it tells ScalarType from int. An argument that is being
	 * destroyed has lost it but still has its type_. */
	g->has_real_types |= real > 4096 && type_class(g, real);
	if (!read_type(g, g->has_real_types ? real : type, a, text, sizeof(text), 0))
		return false;
	a->name = arena_strndup(&g->arena, name, strlen(name));
	a->type = arena_strndup(&g->arena, text, strlen(text));
	return a->name && a->type;
}

/* Read the std::vector<c10::Argument> at `vec`; returns its length, or -1. */
static int read_arguments(struct registry *g, uint64_t vec, struct schema_arg **out)
{
	uint64_t w[2];
	if (mem_read(g->mem, vec, w, sizeof(w)) || w[1] < w[0] ||
	    w[1] - w[0] > MAX_VALUES * MOST_ARGUMENT)
		return -1;
	*out = NULL;
	if (w[0] == w[1])
		return 0;
	unsigned size = g->argument_size;
	if (!size || (w[1] - w[0]) % size) {
		int found = element_size(g, w[0], w[1]);
		if (found < 0)
			return -1;
		size = (unsigned)found;
		/* A single element proves little: a wrong size fits it, too. */
		if (w[1] - w[0] > size)
			g->argument_size = size;
	}
	unsigned n = (unsigned)((w[1] - w[0]) / size);
	struct schema_arg *args = arena_alloc(&g->arena, n * sizeof(*args));
	if (!args)
		return -1;
	for (unsigned i = 0; i < n; i++)
		if (!read_argument(g, w[0] + (uint64_t)i * size, &args[i]))
			return -1;
	*out = args;
	return (int)n;
}

/* The FunctionSchema within the OperatorEntry: it follows the entry's name and begins with the same
 * name. If there is none, `def`, which may itself be a FunctionSchema. */
static uint64_t find_schema(const struct registry *g, uint64_t def, const char *full)
{
	char again[OPERATOR_NAME_MAX];
	uint64_t behind = def + 2 * std_string_size(g->cow);
	for (uint64_t at = behind; at < behind + 64; at += 8)
		if (operator_name(g, at, again) && !strcmp(again, full))
			return at;
	return def;
}

static const struct op_arg *to_op_args(struct registry *g, const struct schema_arg *a, int n)
{
	struct op_arg *out = arena_alloc(&g->arena, (size_t)n * sizeof(*out) + 1);
	for (int i = 0; out && i < n; i++)
		out[i] = (struct op_arg){.name = a[i].name, .type = a[i].type};
	return out;
}

/* Set the arguments and results of `op`. 0 or -ENOMEM. */
static int set_values(struct registry *g, struct registered_op *op, int nargs, int nreturns)
{
	op->desc.args = to_op_args(g, op->args, nargs);
	op->desc.results = to_op_args(g, op->returns, nreturns);
	if (!op->desc.args || !op->desc.results)
		return -ENOMEM;
	op->desc.nargs = (uint16_t)nargs;
	op->desc.nresults = (uint16_t)nreturns;
	return 0;
}

static struct registered_op *new_op(struct registry *g, const char *full)
{
	struct registered_op *op = arena_alloc(&g->arena, sizeof(*op));
	if (!op)
		return NULL;
	op->desc = (struct op_desc){.kind = OP_DISPATCHED, .schema = ""};
	op->desc.name = arena_strndup(&g->arena, full, strlen(full));
	return op->desc.name ? op : NULL;
}

/* Read the live operator `full` at `def` with its schema; NULL if it was incomplete at any time
 * during the read. */
static struct registered_op *read_operator(struct registry *g, uint64_t def, const char *full)
{
	char again[OPERATOR_NAME_MAX];
	uint64_t schema = find_schema(g, def, full);
	struct registered_op *op = schema ? new_op(g, full) : NULL;
	if (!op)
		return NULL;
	uint64_t lists = schema + 2 * std_string_size(g->cow);
	int nargs = read_arguments(g, lists, &op->args);
	int nreturns = read_arguments(g, lists + 24, &op->returns);
	if (nargs < 0 || nreturns < 0 || set_values(g, op, nargs, nreturns))
		return NULL;
	return find_schema(g, def, full) == schema && operator_name(g, def, again) &&
		       !strcmp(again, full)
		   ? op
		   : NULL;
}

/* The type as read_type writes it: without aliases and lengths of lists. */
static const char *plain_type(struct registry *g, const struct schema_arg *a)
{
	char out[128];
	size_t n = 0;
	int level = 0;
	if (a->base == SCHEMA_OTHER)
		return "?";
	for (const char *p = a->type; *p && n + 1 < sizeof(out); p++) {
		level += *p == '(';
		if (!level && !isdigit((unsigned char)*p))
			out[n++] = *p;
		level -= *p == ')';
	}
	return arena_strndup(&g->arena, out, n);
}

static struct schema_arg *copy_args(struct registry *g, const struct schema_arg *from, uint16_t n)
{
	struct schema_arg *a = arena_alloc(&g->arena, n * sizeof(*a) + 1);
	for (uint16_t i = 0; a && i < n; i++) {
		a[i] = from[i];
		a[i].type = plain_type(g, &from[i]);
		if (!a[i].type)
			return NULL;
	}
	return a;
}

/* Whether `text` is the schema of operator `full`. A text without a namespace matches any. */
static bool is_text_of(const char *text, const char *full)
{
	const char *open = strchr(text, '('), *colons = strstr(text, "::");
	const char *own = colons && colons < open ? full : strstr(full, "::") + 2;
	return open && strlen(own) == (size_t)(open - text) && !strncmp(text, own, strlen(own));
}

static const char *without_namespace(const char *text)
{
	const char *colons = strstr(text, "::");
	return colons && colons < strchr(text, '(') ? colons + 2 : text;
}

/* The schema text of operator `full`: the library's, else the only one; NULL if there is none, or
 * two that differ. */
static const char *find_text(const struct registry *g, const char *full)
{
	const char *found = NULL;
	for (const struct definition_text *t = g->texts; t; t = t->next) {
		if (!is_text_of(t->text, full))
			continue;
		if (t->of_library)
			return t->text;
		if (found && strcmp(without_namespace(found), without_namespace(t->text)))
			return NULL;
		found = t->text;
	}
	return found;
}

static struct registered_op *from_text(struct registry *g, const char *full)
{
	struct schema s;
	const char *colons = strstr(full, "::"), *text = colons ? find_text(g, full) : NULL;
	const char *ns = text ? arena_strndup(&g->arena, full, (size_t)(colons - full)) : NULL;
	if (!ns || schema_parse(text, strlen(text), ns, &g->arena, &s) || strcmp(s.full_name, full))
		return NULL;
	struct registered_op *op = new_op(g, full);
	if (!op)
		return NULL;
	op->args = copy_args(g, s.args, s.nargs);
	op->returns = copy_args(g, s.returns, s.nreturns);
	return op->args && op->returns && !set_values(g, op, s.nargs, s.nreturns) ? op : NULL;
}

static void add_text(struct registry *g, const char *text, size_t len, bool of_library)
{
	struct definition_text *t =
	    g->ntexts < MAX_TEXTS ? arena_alloc(&g->arena, sizeof(*t)) : NULL;
	if (!t)
		return;
	t->text = arena_strndup(&g->arena, text, len);
	if (!t->text || !strchr(t->text, '('))
		return;
	t->of_library = of_library;
	t->next = g->texts;
	g->texts = t;
	g->ntexts++;
}

void registry_add_schema(struct registry *g, const char *text, size_t len)
{
	add_text(g, text, len, false);
}

void registry_add_library_schema(struct registry *g, const char *text)
{
	add_text(g, text, strlen(text), true);
}

static struct registered_op *new_name(struct registry *g, const char *full)
{
	static const struct op_arg unknown[] = {{.name = "?", .type = "?"}};
	struct registered_op *op = new_op(g, full);
	if (!op)
		return NULL;
	op->name_only = true;
	op->desc.args = op->desc.results = unknown;
	op->desc.nargs = op->desc.nresults = 1;
	return op;
}

static uint64_t hash_of(const uint64_t key[HANDLE_WORDS - 1])
{
	return map_hash(key, (HANDLE_WORDS - 1) * sizeof(*key), 0);
}

/* The entry of operator `name` (NULL: any) with that handle, or NULL. */
static struct registry_entry *lookup(struct registry *g, const uint64_t key[HANDLE_WORDS - 1],
				     const char *name)
{
	uint32_t pos = 0, i;
	while ((i = map_next(&g->index, hash_of(key), &pos)) != MAP_NONE) {
		struct registry_entry *e = &g->entries[i];
		if (!memcmp(e->key, key, sizeof(e->key)) &&
		    (!name || !strcmp(e->op->desc.name, name)))
			return e;
	}
	return NULL;
}

/* NULL when out of memory. */
static struct registry_entry *add_entry(struct registry *g, const uint64_t key[HANDLE_WORDS - 1])
{
	if (array_grow(&g->entries, &g->room, g->n + 1, sizeof(*g->entries)) ||
	    map_add(&g->index, hash_of(key), (uint32_t)g->n))
		return NULL;
	struct registry_entry *e = &g->entries[g->n++];
	memcpy(e->key, key, sizeof(e->key));
	return e;
}

/* Indices of the words of a handle that may be the address of the OperatorDef. */
static const unsigned candidates[] = {1, 0, 3};
enum { CANDIDATES = sizeof(candidates) / sizeof(candidates[0]) };

/* Read the live operator; NULL if it is incomplete. Copies its name, if it has one, to `full`. */
static struct registered_op *find_live(struct registry *g, const uint64_t w[HANDLE_WORDS],
				       const char *name, char full[OPERATOR_NAME_MAX])
{
	char here[OPERATOR_NAME_MAX];
	for (unsigned i = 0; i < CANDIDATES; i++) {
		if (!operator_name(g, w[candidates[i]], here) || (name && strcmp(here, name)))
			continue;
		memcpy(full, here, sizeof(here));
		return read_operator(g, w[candidates[i]], here);
	}
	return NULL;
}

bool registry_knows(struct registry *g, const uint64_t w[HANDLE_WORDS], const char *name)
{
	return lookup(g, &w[1], name);
}

bool registry_is_operator(const struct registry *g, const uint64_t w[HANDLE_WORDS])
{
	char name[OPERATOR_NAME_MAX];
	for (unsigned i = 0; i < CANDIDATES; i++)
		if (operator_name(g, w[candidates[i]], name))
			return true;
	return false;
}

const struct registered_op *registry_find(struct registry *g, const uint64_t w[HANDLE_WORDS],
					  const char *name)
{
	char full[OPERATOR_NAME_MAX] = "";
	struct registry_entry *e = lookup(g, &w[1], name);
	if (!w[0])
		return NULL;
	if ((e && !e->tries) || g->n == MAX_REGISTERED)
		return e ? e->op : NULL;
	if (name)
		snprintf(full, sizeof(full), "%s", name);
	struct registered_op *op = from_text(g, full);
	op = op ? op : find_live(g, w, name, full);
	if (!op && !name)
		op = from_text(g, full);
	unsigned tries = op ? 0 : e ? e->tries - 1 : TRIES_MAX;
	if (!op)
		op = e ? e->op : full[0] ? new_name(g, full) : NULL;
	if (!op || (!e && !(e = add_entry(g, &w[1]))))
		return NULL;
	e->op = op;
	e->tries = tries;
	return op;
}

static const struct op_arg *name_list(struct registry *g, const char *const *names, uint16_t *n)
{
	*n = 0;
	while (names && names[*n])
		(*n)++;
	struct op_arg *out = arena_alloc(&g->arena, *n * sizeof(*out) + 1);
	for (unsigned i = 0; out && i < *n; i++)
		out[i] = (struct op_arg){.name = names[i], .type = ""};
	return out;
}

const struct op_desc *registry_named(struct registry *g, const char *name, enum op_kind kind,
				     const char *const *args, const char *const *results)
{
	for (struct named *n = g->named; n; n = n->next)
		if (n->desc.kind == kind && !strcmp(n->desc.name, name))
			return &n->desc;
	struct named *n = arena_alloc(&g->arena, sizeof(*n));
	if (!n)
		return NULL;
	n->desc = (struct op_desc){.kind = (uint8_t)kind, .schema = ""};
	n->desc.name = arena_strndup(&g->arena, name, strlen(name));
	n->desc.args = name_list(g, args, &n->desc.nargs);
	n->desc.results = name_list(g, results, &n->desc.nresults);
	if (!n->desc.name || !n->desc.args || !n->desc.results)
		return NULL;
	n->next = g->named;
	g->named = n;
	return &n->desc;
}
