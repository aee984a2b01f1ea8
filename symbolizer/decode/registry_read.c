/* Operators as the dispatcher of a live process has them: names, arguments, types. */
#include "symbolizer/decode/target.h"

#include <stdio.h>
#include <string.h>

#include "symbolizer/decode/internal.h"

enum {
	/* c10::Argument: name_, type_, real_type_ (ATen/core/function_schema.h); each TypePtr is 16
	 * bytes (ATen/core/type_ptr.h). kwarg_only_ and is_out_, bool, are its last members. */
	TYPE_SIZE = 16,
	FROM_KEYWORD_TO_END = 8,
	LEAST_ARGUMENT = 40,
	MOST_ARGUMENT = 320,
	MAX_VALUES = 256,
};

/* impl::OperatorEntry is OperatorDef's first member and begins with the OperatorName
 * (ATen/core/dispatch/OperatorEntry.h): two strings. */
bool operator_read_name(const struct operator_reader *g, uint64_t def, char full[OPERATOR_NAME_MAX])
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

static int element_size(struct operator_reader *g, uint64_t begin, uint64_t end)
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
static const char *type_class(const struct operator_reader *g, uint64_t addr)
{
	const struct rtti_class *c = rtti_of_object(g->rtti, addr);
	return rtti_is_a(c, "N3c104TypeE") ? c->name : NULL;
}

/* Whether the TypePtr `w` points to a type: it is a shared_ptr, whose second word points to the
 * reference counts (libstdc++'s bits/shared_ptr_base.h, GCC 12), or that of a singleton, whose
 * second word is 0 (ATen/core/type_ptr.h). The first word alone proves little: the end pointer of a
 * vector points past its memory, where the words of a destroyed type may lie. */
static bool is_type_ptr(const struct operator_reader *g, const uint64_t w[2])
{
	return type_class(g, w[0]) &&
	       (!w[1] || rtti_is_a(rtti_of_object(g->rtti, w[1]),
				   "St16_Sp_counted_baseILN9__gnu_cxx12_Lock_policyE2EE"));
}

/* The element type of a List or Optional: the first TypePtr in the object that points to another
 * type. */
static uint64_t element_type(const struct operator_reader *g, uint64_t type)
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
static bool read_type(const struct operator_reader *g, uint64_t addr, struct schema_arg *a,
		      char *text, size_t size, int level)
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
static bool read_argument(struct operator_reader *g, uint64_t at, unsigned size,
			  struct schema_arg *a)
{
	char name[256], text[128] = "";
	uint64_t type = 0, real = 0;
	uint8_t keyword = 0;
	if (std_string_read(g->mem, g->cow, at, name, sizeof(name)) < 0)
		return false;
	if (!mem_read(g->mem, at + size - FROM_KEYWORD_TO_END, &keyword, sizeof(keyword)))
		a->kwarg_only = keyword == 1;
	at += std_string_size(g->cow);
	mem_read_u64(g->mem, at, &type);
	mem_read_u64(g->mem, at + TYPE_SIZE, &real);
	/* real_type_ exists since 1.12; it tells ScalarType from int. An argument that is being
	 * destroyed has lost it but still has its type_. */
	g->has_real_types |= real > 4096 && type_class(g, real);
	if (!read_type(g, g->has_real_types ? real : type, a, text, sizeof(text), 0))
		return false;
	a->name = arena_strndup(g->arena, name, strlen(name));
	a->type = arena_strndup(g->arena, text, strlen(text));
	return a->name && a->type;
}

/* Read the std::vector<c10::Argument> at `vec`; returns its length, or -1. */
static int read_arguments(struct operator_reader *g, uint64_t vec, struct schema_arg **out)
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
	struct schema_arg *args = arena_alloc(g->arena, n * sizeof(*args));
	if (!args)
		return -1;
	for (unsigned i = 0; i < n; i++)
		if (!read_argument(g, w[0] + (uint64_t)i * size, size, &args[i]))
			return -1;
	*out = args;
	return (int)n;
}

/* The FunctionSchema within the OperatorEntry: it follows the entry's name and begins with the same
 * name. If there is none, `def`, which may itself be a FunctionSchema. */
static uint64_t find_schema(const struct operator_reader *g, uint64_t def, const char *full)
{
	char again[OPERATOR_NAME_MAX];
	uint64_t behind = def + 2 * std_string_size(g->cow);
	for (uint64_t at = behind; at < behind + 64; at += 8)
		if (operator_read_name(g, at, again) && !strcmp(again, full))
			return at;
	return def;
}

bool operator_read(struct operator_reader *g, uint64_t def, const char *full,
		   struct operator_read *out)
{
	char again[OPERATOR_NAME_MAX];
	uint64_t schema = find_schema(g, def, full);
	uint64_t lists = schema + 2 * std_string_size(g->cow);
	out->nargs = read_arguments(g, lists, &out->args);
	out->nreturns = read_arguments(g, lists + 24, &out->returns);
	return out->nargs >= 0 && out->nreturns >= 0 && find_schema(g, def, full) == schema &&
	       operator_read_name(g, def, again) && !strcmp(again, full);
}
