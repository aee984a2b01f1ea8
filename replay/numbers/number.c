#include "replay/numbers/numbers.h"

#include <math.h>
#include <string.h>

/* Conversions from half and bfloat16 by bits: faster than the compiler's on machines without
 * instructions for it, and the same result everywhere. */
static inline __attribute__((always_inline)) float from_half(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, bits = (uint32_t)(h & 0x7fff) << 13;
	uint32_t special = (h & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;
	float f;
	memcpy(&f, &bits, sizeof(f));
	f *= 0x1p112f;
	memcpy(&bits, &f, sizeof(bits));
	bits |= sign | special;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

static inline __attribute__((always_inline)) float from_bfloat16(uint16_t h)
{
	uint32_t bits = (uint32_t)h << 16;
	float f;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* The four 8-bit formats (torch/headeronly/util/Float8_*.h of 2.13.0), with `mbits` of mantissa and
 * an exponent with `bias`. Only e5m2 has infinities; e4m3fn has NaN at 0x7f; the fnuz formats have
 * NaN in place of -0. */
static double from_float8(uint8_t v, int mbits, int bias, bool fnuz)
{
	int exponent = (v & 0x7f) >> mbits, mantissa = v & ((1 << mbits) - 1);
	int top = (1 << (7 - mbits)) - 1;
	double sign = v & 0x80 ? -1.0 : 1.0;
	if (fnuz && v == 0x80)
		return NAN;
	if (!fnuz && mbits == 3 && (v & 0x7f) == 0x7f)
		return NAN;
	if (!fnuz && mbits == 2 && exponent == top)
		return mantissa ? NAN : sign * (double)INFINITY;
	if (!exponent)
		return sign * ldexp(mantissa, 1 - bias - mbits);
	return sign * ldexp((1 << mbits) + mantissa, exponent - bias - mbits);
}

#define FLOAT8_E5M2(v) from_float8(v, 2, 15, false)
#define FLOAT8_E4M3FN(v) from_float8(v, 3, 7, false)
#define FLOAT8_E5M2FNUZ(v) from_float8(v, 2, 16, true)
#define FLOAT8_E4M3FNUZ(v) from_float8(v, 3, 8, true)
/* A power of two, 2^(v - 127); 255 is NaN. */
#define FLOAT8_E8M0FNU(v) ((v) == 0xff ? (double)NAN : ldexp(1, (v)-127))
#define AS_BOOL(v) ((v) != 0)
#define AS_IT_IS(v) (v)

/* memcpy because elements in a file may be unaligned. */
#define LOAD(name, clones, type, to, convert)                                                      \
	clones static void name(const void *in, ptrdiff_t step, size_t n, void *out)               \
	{                                                                                          \
		const char *p = in;                                                                \
		to *o = out;                                                                       \
		type v;                                                                            \
		if (step == (ptrdiff_t)sizeof(type))                                               \
			for (size_t i = 0; i < n; i++) {                                           \
				memcpy(&v, p + i * sizeof(type), sizeof(v));                       \
				o[i] = (to)convert(v);                                             \
			}                                                                          \
		else                                                                               \
			for (size_t i = 0; i < n; i++) {                                           \
				memcpy(&v, p + (ptrdiff_t)i * step, sizeof(v));                    \
				o[i] = (to)convert(v);                                             \
			}                                                                          \
	}
#define LOADS(name, type, convert)                                                                 \
	LOAD(name##_double, COMPARE_CLONES, type, double, convert)                                 \
	LOAD(name##_int, COMPARE_CLONES, type, int64_t, convert)

LOADS(u8, uint8_t, AS_IT_IS)
LOADS(i8, int8_t, AS_IT_IS)
LOADS(i16, int16_t, AS_IT_IS)
LOADS(i32, int32_t, AS_IT_IS)
LOADS(i64, int64_t, AS_IT_IS)
LOADS(u16, uint16_t, AS_IT_IS)
LOADS(u32, uint32_t, AS_IT_IS)
LOADS(u64, uint64_t, AS_IT_IS)
LOADS(truth, uint8_t, AS_BOOL)
LOAD(half_double, COMPARE_CLONES, uint16_t, double, from_half)
LOAD(bfloat16_double, COMPARE_CLONES, uint16_t, double, from_bfloat16)
LOAD(float_double, COMPARE_CLONES, float, double, AS_IT_IS)
LOAD(double_double, COMPARE_CLONES, double, double, AS_IT_IS)
LOAD(e5m2_double, , uint8_t, double, FLOAT8_E5M2)
LOAD(e4m3fn_double, , uint8_t, double, FLOAT8_E4M3FN)
LOAD(e5m2fnuz_double, , uint8_t, double, FLOAT8_E5M2FNUZ)
LOAD(e4m3fnuz_double, , uint8_t, double, FLOAT8_E4M3FNUZ)
LOAD(e8m0fnu_double, , uint8_t, double, FLOAT8_E8M0FNU)

#define INTEGER(kind, type, name)                                                                  \
	{                                                                                          \
		kind, sizeof(type), 1, 0, 0, name##_double, name##_int                             \
	}
#define SIGNED(type, name) INTEGER(NUMBER_SIGNED, type, name)
#define UNSIGNED(type, name) INTEGER(NUMBER_UNSIGNED, type, name)
#define REAL(bytes, digits, emin, load)                                                            \
	{                                                                                          \
		NUMBER_FLOAT, bytes, 1, digits, emin, load##_double, NULL                          \
	}
#define COMPLEX(bytes, digits, emin, load)                                                         \
	{                                                                                          \
		NUMBER_COMPLEX, bytes, 2, digits, emin, load##_double, NULL                        \
	}

/* Indexed by c10::ScalarType (names_dtype). Quantized dtypes have the stored integers. */
static const struct number numbers[] = {
    [0] = UNSIGNED(uint8_t, u8),
    [1] = SIGNED(int8_t, i8),
    [2] = SIGNED(int16_t, i16),
    [3] = SIGNED(int32_t, i32),
    [4] = SIGNED(int64_t, i64),
    [5] = REAL(2, 11, -14, half),
    [6] = REAL(4, 24, -126, float),
    [7] = REAL(8, 53, -1022, double),
    [8] = COMPLEX(2, 11, -14, half),
    [9] = COMPLEX(4, 24, -126, float),
    [10] = COMPLEX(8, 53, -1022, double),
    [11] = INTEGER(NUMBER_BOOL, uint8_t, truth),
    [12] = SIGNED(int8_t, i8),
    [13] = UNSIGNED(uint8_t, u8),
    [14] = SIGNED(int32_t, i32),
    [15] = REAL(2, 8, -126, bfloat16),
    [23] = REAL(1, 3, -14, e5m2),
    [24] = REAL(1, 4, -6, e4m3fn),
    [25] = REAL(1, 3, -15, e5m2fnuz),
    [26] = REAL(1, 4, -7, e4m3fnuz),
    [27] = UNSIGNED(uint16_t, u16),
    [28] = UNSIGNED(uint32_t, u32),
    [29] = UNSIGNED(uint64_t, u64),
    [44] = REAL(1, 1, -127, e8m0fnu),
};

const struct number *number_of(int dtype)
{
	static const struct number none;
	if (dtype < 0 || (size_t)dtype >= sizeof(numbers) / sizeof(numbers[0]))
		return &none;
	return &numbers[dtype];
}
