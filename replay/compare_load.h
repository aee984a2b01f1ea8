/* From the elements of a tensor to blocks of float64 or int64. Part of compare. */
#ifndef REPLAY_COMPARE_LOAD_H
#define REPLAY_COMPARE_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `n` elements that are `step` bytes apart (any sign), widened into `out`: double, or int64_t
 * (uint64_t for uint64) when the dtype's kind is exact. */
typedef void (*compare_load)(const void *in, ptrdiff_t step, size_t n, void *out);

enum compare_class { COMPARE_NONE, COMPARE_FLOAT, COMPARE_INT, COMPARE_UINT64 };

struct compare_dtype {
	enum compare_class class;
	uint8_t itemsize; /* of a part */
	uint8_t parts;	  /* 2: complex */
	int16_t digits;	  /* of a float: bits of the significand with the hidden one */
	int16_t emin;	  /* exponent of the smallest normal number */
	bool subnormal;	  /* has subnormal numbers */
	compare_load to_double, to_int; /* to_int: NULL for floats */
};

/* For a c10::ScalarType; class COMPARE_NONE for what has no numbers. Never NULL. */
const struct compare_dtype *compare_dtype(int dtype);

#endif
