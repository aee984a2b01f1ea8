/* What the elements of each dtype are, and how they become float64 or integers. */
#ifndef REPLAY_NUMBERS_NUMBER_H
#define REPLAY_NUMBERS_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum number_kind {
	NUMBER_NONE, /* bytes without a known meaning */
	NUMBER_BOOL,
	NUMBER_SIGNED,
	NUMBER_UNSIGNED,
	NUMBER_FLOAT,
	NUMBER_COMPLEX,
};

/* `n` elements (of complex numbers: parts) that are `step` bytes apart (any sign), of any
 * alignment, widened into `out`: to_double into double; to_int into int64_t, uint64_t for uint64.
 */
typedef void (*number_load)(const void *in, ptrdiff_t step, size_t n, void *out);

struct number {
	enum number_kind kind;
	uint8_t itemsize;	       /* bytes of a part */
	uint8_t parts;		       /* 2: complex */
	int16_t digits;		       /* of a float: bits of the significand with the hidden one */
	int16_t emin;		       /* exponent of the smallest normal number */
	number_load to_double, to_int; /* to_int: NULL for floats; both for NUMBER_NONE */
};

/* For a c10::ScalarType; of kind NUMBER_NONE for what has no numbers, or several in a byte. Never
 * NULL. Quantized dtypes are the integers that are stored, a bool that is neither 0 nor 1 is true.
 * Sources of the 8-bit formats: torch/headeronly/util/Float8_*.h (2.13.0), after arXiv:2209.05433
 * and arXiv:2206.02915. */
const struct number *number_of(int dtype);

#endif
