#include "symbolizer/when/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/event/names.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define NUMBER                                                                                     \
	{                                                                                          \
		WHEN_T_NUMBER, 0                                                                   \
	}
#define STRING                                                                                     \
	{                                                                                          \
		WHEN_T_STRING, 0                                                                   \
	}
#define LIST(item)                                                                                 \
	{                                                                                          \
		WHEN_T_LIST, item                                                                  \
	}

static const struct when_word_def words[] = {
    {"op", WHEN_OP, false, STRING},
    {"overload", WHEN_OVERLOAD, false, STRING},
    {"phase", WHEN_PHASE, false, {WHEN_T_PHASE, 0}},
    {"id", WHEN_ID, false, NUMBER},
    {"forward_id", WHEN_FORWARD_ID, false, {WHEN_T_NUMBER | WHEN_T_NONE, 0}},
    {"depth", WHEN_DEPTH, false, NUMBER},
    {"pid", WHEN_PID, false, NUMBER},
    {"tid", WHEN_TID, false, NUMBER},
    {"thread", WHEN_TID, false, NUMBER},
    {"file", WHEN_FILE, false, STRING},
    {"line", WHEN_LINE, false, NUMBER},
    {"function", WHEN_FUNCTION, false, STRING},
    {"parameter", WHEN_PARAMETER, false, STRING},
    {"thrown", WHEN_THROWN, true, NUMBER},
    {"elapsed", WHEN_ELAPSED, true, NUMBER},
    {"args", WHEN_ARGS, false, LIST(WHEN_T_ANY)},
    {"results", WHEN_RESULTS, true, LIST(WHEN_T_ANY)},
    {"inputs", WHEN_INPUTS, false, LIST(WHEN_T_TENSOR)},
    {"outputs", WHEN_OUTPUTS, true, LIST(WHEN_T_TENSOR)},
};

static const struct when_attribute_def attributes[] = {
    {"shape", WHEN_SHAPE, false, false, WHEN_T_TENSOR, LIST(WHEN_T_NUMBER)},
    {"size", WHEN_SHAPE, true, false, WHEN_T_TENSOR, LIST(WHEN_T_NUMBER)},
    {"stride", WHEN_STRIDE, true, false, WHEN_T_TENSOR, LIST(WHEN_T_NUMBER)},
    {"dim", WHEN_DIM, false, false, WHEN_T_TENSOR, NUMBER},
    {"ndim", WHEN_DIM, false, false, WHEN_T_TENSOR, NUMBER},
    {"numel", WHEN_NUMEL, false, false, WHEN_T_TENSOR, NUMBER},
    {"itemsize", WHEN_ITEMSIZE, false, false, WHEN_T_TENSOR, NUMBER},
    {"element_size", WHEN_ITEMSIZE, false, false, WHEN_T_TENSOR, NUMBER},
    {"nbytes", WHEN_NBYTES, false, false, WHEN_T_TENSOR, NUMBER},
    {"storage_offset", WHEN_STORAGE_OFFSET, false, false, WHEN_T_TENSOR, NUMBER},
    {"data_ptr", WHEN_DATA_PTR, false, false, WHEN_T_TENSOR, NUMBER},
    {"dtype", WHEN_DTYPE, false, false, WHEN_T_TENSOR, {WHEN_T_DTYPE, 0}},
    {"device", WHEN_DEVICE, false, false, WHEN_T_TENSOR, {WHEN_T_DEVICE, 0}},
    {"layout", WHEN_LAYOUT, false, false, WHEN_T_TENSOR, {WHEN_T_LAYOUT, 0}},
    {"requires_grad", WHEN_REQUIRES_GRAD, false, false, WHEN_T_TENSOR, NUMBER},
    {"is_contiguous", WHEN_IS_CONTIGUOUS, false, false, WHEN_T_TENSOR, NUMBER},
    {"type", WHEN_TYPE, false, false, WHEN_T_DEVICE, STRING},
    {"index", WHEN_INDEX, false, false, WHEN_T_DEVICE, {WHEN_T_NUMBER | WHEN_T_NONE, 0}},
    {"startswith", WHEN_STARTSWITH, false, true, WHEN_T_STRING, NUMBER},
    {"endswith", WHEN_ENDSWITH, false, true, WHEN_T_STRING, NUMBER},
};

const struct when_word_def *when_word_find(const char *name)
{
	for (size_t i = 0; i < COUNT(words); i++)
		if (!strcmp(words[i].name, name))
			return &words[i];
	return NULL;
}

const struct when_attribute_def *when_attribute_find(const char *name)
{
	for (size_t i = 0; i < COUNT(attributes); i++)
		if (!strcmp(attributes[i].name, name))
			return &attributes[i];
	return NULL;
}

static bool is_code(int code, enum when_kind kind, struct when_value *out)
{
	*out = (struct when_value){.kind = (uint8_t)kind, .i = code};
	return code >= 0;
}

bool when_constant_find(const char *name, struct when_value *out)
{
	if (!strcmp(name, "None")) {
		*out = when_none(WHEN_V_NONE);
		return true;
	}
	bool is_true = !strcmp(name, "True");
	if (is_true || !strcmp(name, "False"))
		return is_code(is_true, WHEN_V_INT, out);
	for (int p = 0; p < PHASES; p++)
		if (!strcmp(name, op_phase_names[p]))
			return is_code(p, WHEN_V_PHASE, out);
	return is_code(names_dtype_code(name), WHEN_V_DTYPE, out) ||
	       is_code(names_layout_code(name), WHEN_V_LAYOUT, out) ||
	       is_code(names_memory_format_code(name), WHEN_V_MEMORY_FORMAT, out);
}

void when_words_suggest(struct suggestions *x)
{
	static const char *const others[] = {"forward", "backward", "recompute", "compile",
					     "True",	"False",    "None",	 "len",
					     "numel",	"any",	    "all"};
	for (size_t i = 0; i < COUNT(words); i++)
		suggestions_add(x, words[i].name);
	for (size_t i = 0; i < COUNT(others); i++)
		suggestions_add(x, others[i]);
	for (int i = 0; names_dtype(i); i++)
		suggestions_add(x, names_dtype(i));
	for (int i = 0; names_layout(i); i++)
		suggestions_add(x, names_layout(i));
	for (int i = 0; names_memory_format(i); i++)
		suggestions_add(x, names_memory_format(i));
}

void when_attributes_suggest(struct suggestions *x)
{
	for (size_t i = 0; i < COUNT(attributes); i++)
		suggestions_add(x, attributes[i].name);
}

struct when_type when_type_of(struct when_value v)
{
	switch (v.kind) {
	case WHEN_V_NONE:
		return (struct when_type){WHEN_T_NONE, 0};
	case WHEN_V_INT:
	case WHEN_V_FLOAT:
		return (struct when_type)NUMBER;
	case WHEN_V_STRING:
		return (struct when_type)STRING;
	case WHEN_V_DTYPE:
		return (struct when_type){WHEN_T_DTYPE, 0};
	case WHEN_V_LAYOUT:
		return (struct when_type){WHEN_T_LAYOUT, 0};
	case WHEN_V_MEMORY_FORMAT:
		return (struct when_type){WHEN_T_MEMORY_FORMAT, 0};
	case WHEN_V_PHASE:
		return (struct when_type){WHEN_T_PHASE, 0};
	default:
		return (struct when_type){WHEN_T_ANY, WHEN_T_ANY};
	}
}

const char *when_type_text(char *out, size_t size, unsigned may_be)
{
	static const char *const names[] = {"None",	"a number",	   "a string",	 "a dtype",
					    "a layout", "a memory format", "a phase",	 "a device",
					    "a tensor", "a list",	   "a generator"};
	size_t used = 0;
	snprintf(out, size, may_be ? "" : "nothing");
	for (size_t i = 0; i < COUNT(names) && used < size; i++) {
		if (!(may_be & 1u << i))
			continue;
		int n = snprintf(out + used, size - used, "%s%s", used ? " or " : "", names[i]);
		used += n > 0 ? (size_t)n : 0;
	}
	return out;
}

struct when_place when_find_name(const struct op_desc *op, const char *name)
{
	for (uint16_t i = 0; i < op->nargs; i++)
		if (!strcmp(op->args[i].name, name))
			return (struct when_place){true, false, i};
	for (uint16_t i = 0; i < op->nresults; i++)
		if (!strcmp(op->results[i].name, name))
			return (struct when_place){true, true, i};
	if (!strcmp(name, "out") || !strcmp(name, "result"))
		return (struct when_place){op->nresults > 0, true, 0};
	unsigned long n = 0;
	size_t digits = !strncmp(name, "arg", 3) ? strspn(name + 3, "0123456789") : 0;
	if (digits && digits < 6 && !name[3 + digits])
		n = strtoul(name + 3, NULL, 10) + 1;
	return (struct when_place){n && n <= op->nargs, false, (uint16_t)(n ? n - 1 : 0)};
}
