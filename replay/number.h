/* From the bytes of elements to float64, for every dtype. */
#ifndef REPLAY_NUMBER_H
#define REPLAY_NUMBER_H

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

/* What the elements of a dtype are. */
enum number_kind number_kind(int dtype);

/* Elements to float64. `in` needs no alignment; of a complex dtype `n` counts parts: two an
 * element. Quantized dtypes give the integers that are stored. */
typedef void (*number_convert)(const void *in, size_t n, double *out);

/* The conversion for a dtype (c10::ScalarType); NULL for NUMBER_NONE. Sources of the 8-bit formats:
 * torch/headeronly/util/Float8_*.h (2.13.0), after arXiv:2209.05433 and arXiv:2206.02915. */
number_convert number_converter(int dtype);

#endif
