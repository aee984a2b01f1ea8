/* The words of conditions: what may stand in them besides the names of arguments and results, and
 * what is known of their types beforehand. */
#ifndef SYMBOLIZER_WHEN_WHEN_WORDS_H
#define SYMBOLIZER_WHEN_WHEN_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/suggestions.h"
#include "symbolizer/when/when_value.h"

/* What a part of a condition may be, or-ed; 0: it does not apply. */
enum {
	WHEN_T_NONE = 1 << 0,
	WHEN_T_NUMBER = 1 << 1,
	WHEN_T_STRING = 1 << 2,
	WHEN_T_DTYPE = 1 << 3,
	WHEN_T_LAYOUT = 1 << 4,
	WHEN_T_MEMORY_FORMAT = 1 << 5,
	WHEN_T_PHASE = 1 << 6,
	WHEN_T_DEVICE = 1 << 7,
	WHEN_T_TENSOR = 1 << 8,
	WHEN_T_LIST = 1 << 9,
	WHEN_T_OTHER = 1 << 10,
	WHEN_T_ANY = (1 << 11) - 1,
};

struct when_type {
	uint16_t may_be;
	uint16_t item; /* of a list: what its items may be */
};

/* Facts of a call. */
enum when_word {
	WHEN_OP,
	WHEN_OVERLOAD,
	WHEN_PHASE,
	WHEN_ID,
	WHEN_FORWARD_ID,
	WHEN_DEPTH,
	WHEN_PID,
	WHEN_TID,
	WHEN_FILE,
	WHEN_LINE,
	WHEN_FUNCTION,
	WHEN_THROWN,
	WHEN_ELAPSED,
	WHEN_ARGS,
	WHEN_RESULTS,
	WHEN_INPUTS,
	WHEN_OUTPUTS,
};

/* Facts of a value, written x.shape or x.shape(). */
enum when_attribute {
	WHEN_SHAPE,
	WHEN_STRIDE,
	WHEN_DIM,
	WHEN_NUMEL,
	WHEN_ITEMSIZE,
	WHEN_NBYTES,
	WHEN_STORAGE_OFFSET,
	WHEN_DATA_PTR,
	WHEN_DTYPE,
	WHEN_DEVICE,
	WHEN_LAYOUT,
	WHEN_REQUIRES_GRAD,
	WHEN_IS_CONTIGUOUS,
	WHEN_TYPE,
	WHEN_INDEX,
	WHEN_STARTSWITH,
	WHEN_ENDSWITH,
};

struct when_word_def {
	const char *name;
	uint8_t word; /* enum when_word */
	bool at_exit; /* only the exit tells */
	struct when_type type;
};

struct when_attribute_def {
	const char *name;
	uint8_t attribute; /* enum when_attribute */
	bool takes_index;  /* x.size(0) is x.size()[0] */
	bool takes_string; /* x.startswith("a") */
	uint16_t of;	   /* WHEN_T_* of which one has it */
	struct when_type type;
};

/* NULL when there is none of that name. */
const struct when_word_def *when_word_find(const char *name);
const struct when_attribute_def *when_attribute_find(const char *name);

/* "float16", "strided", "channels_last", "forward", "True", "None" ...: its value. */
bool when_constant_find(const char *name, struct when_value *out);

/* Offer the names of all words, or of all attributes. */
void when_words_near(struct suggestions *x);
void when_attributes_near(struct suggestions *x);

/* What a constant is. */
struct when_type when_type_of(struct when_value v);

/* "a tensor", "None or a number" into out; returns out. 160 bytes are always enough. */
const char *when_type_text(char *out, size_t size, unsigned may_be);

#endif
