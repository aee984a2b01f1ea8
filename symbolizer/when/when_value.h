/* Values while a condition is evaluated, with Python's rules for them. */
#ifndef SYMBOLIZER_WHEN_WHEN_VALUE_H
#define SYMBOLIZER_WHEN_WHEN_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/event/event.h"

enum when_kind {
	/* No value, and why; see when_weaker. */
	WHEN_V_ABSENT, /* there is no such thing here: the operation does not apply */
	WHEN_V_UNKNOWN,
	WHEN_V_LATER,
	WHEN_V_NONE,
	WHEN_V_INT, /* truth values, too */
	WHEN_V_FLOAT,
	WHEN_V_COMPLEX,
	WHEN_V_STRING,
	WHEN_V_DTYPE, /* codes in i, as those of the next three */
	WHEN_V_LAYOUT,
	WHEN_V_MEMORY_FORMAT,
	WHEN_V_PHASE, /* enum op_phase */
	WHEN_V_DEVICE,
	WHEN_V_TENSOR,
	WHEN_V_VALUES,	/* a list of values */
	WHEN_V_DIMS,	/* a shape or stride */
	WHEN_V_TENSORS, /* the tensors among values, those in lists, too */
	WHEN_V_LITERAL, /* a list written in the condition */
	WHEN_V_OTHER,	/* generators: not None, and that is all that can be asked */
};

struct when_node;

struct when_value {
	uint8_t kind;	/* enum when_kind */
	uint32_t count; /* VALUES, DIMS, LITERAL: items; TENSORS: of `values` */
	union {
		__int128 i;
		double f;
		struct {
			double re, im;
		} c;
		struct {
			const char *bytes;
			size_t len;
		} s;
		struct {
			int8_t type, index;
		} device;
		const struct tensor *tensor;
		const int64_t *dims;
		const struct when_node *items; /* LITERAL: the first, others by next */
		struct {
			const struct value *values;
			const struct op_arg *types; /* TENSORS: of the values; NULL: not known */
		};
	};
};

static inline struct when_value when_none(enum when_kind why)
{
	return (struct when_value){.kind = (uint8_t)why};
}

static inline struct when_value when_int(__int128 i)
{
	return (struct when_value){.kind = WHEN_V_INT, .i = i};
}

static inline struct when_value when_string(const char *s, size_t len)
{
	return (struct when_value){.kind = WHEN_V_STRING, .s = {s, len}};
}

/* One of WHEN_V_ABSENT, UNKNOWN, LATER. */
static inline bool when_is_special(struct when_value v)
{
	return v.kind <= WHEN_V_LATER;
}

bool when_is_list(struct when_value v);

/* Of two values of which one at least is special, what an operation on them gives: ABSENT before
 * LATER before UNKNOWN. */
struct when_value when_weaker(struct when_value a, struct when_value b);

/* A decoded value; one that is not decoded is UNKNOWN, or at the entry LATER (`at_entry`). */
struct when_value when_of(const struct value *v, bool at_entry);

/* Three-valued logic (strictly: truth, not known yet, not known, does not apply). `a` and `b` are
 * INT 0 or 1, or special. An `and` is decided by a false, an `or` by a true; else what is not known
 * comes before what does not apply, so that nothing is chosen that may not be. */
struct when_value when_and(struct when_value a, struct when_value b);
struct when_value when_or(struct when_value a, struct when_value b);
struct when_value when_not(struct when_value a);

/* Python's + - * / % // on numbers (`op` is the character, '|' for //), ABSENT where it would
 * raise. */
struct when_value when_arith(char op, struct when_value a, struct when_value b);
struct when_value when_minus(struct when_value a);

/* a < b when `or_equal` is false, a <= b when it is true; numbers and strings, else ABSENT. */
struct when_value when_less(struct when_value a, struct when_value b, bool or_equal);

/* a == b of values that are no lists. Of different kinds: false, but that a device equals a string
 * that names it ("cuda" any index of it). ABSENT for tensors. */
struct when_value when_equal(struct when_value a, struct when_value b);

/* The truth of a value that is no list, as Python has it; ABSENT for tensors. */
struct when_value when_truth(struct when_value v);

#endif
