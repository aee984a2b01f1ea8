/* Number formats of the dtypes, and conversion of elements to float64 or integers. */
#ifndef REPLAY_NUMBERS_NUMBER_H
#define REPLAY_NUMBERS_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum number_kind {
	NUMBER_NONE, /* bytes without a known format */
	NUMBER_BOOL,
	NUMBER_SIGNED,
	NUMBER_UNSIGNED,
	NUMBER_FLOAT,
	NUMBER_COMPLEX,
};

/* Convert `n` elements (parts, if complex), `step` bytes apart (may be negative) and of any
 * alignment: to_double into double, to_int into int64_t, or uint64_t for the dtype uint64. */
typedef void (*number_load)(const void *in, ptrdiff_t step, size_t n, void *out);

struct number {
	enum number_kind kind;
	uint8_t itemsize;	       /* bytes of an element, or of a part */
	uint8_t parts;		       /* 2: complex */
	int16_t digits;		       /* of floats: significant bits with the implicit one */
	int16_t emin;		       /* of floats: exponent of the smallest normal number */
	number_load to_double, to_int; /* to_int is NULL for floats, both for NUMBER_NONE */
};

/* The format of a c10::ScalarType; never NULL. NUMBER_NONE for dtypes without numbers or with
 * several in a byte. Quantized dtypes count as the stored integers; a bool that is neither 0 nor 1
 * is true. Sources of the 8-bit formats: torch/headeronly/util/Float8_*.h (2.13.0), after
 * arXiv:2209.05433 and arXiv:2206.02915. */
const struct number *number_of(int dtype);

#endif
