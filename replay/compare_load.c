#include "replay/compare_load.h"

#include <math.h>
#include <string.h>

#include "replay/arch_x86_64.h"

/* IEEE and bfloat16 formats as floats, by their bits: faster than the compiler's conversions where
 * the machine has none, and the same on all. */
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

/* The four 8-bit formats (torch/headeronly/util/Float8_*.h of 2.13.0): `ebits` of exponent with
 * `bias`, `mbits` of mantissa. e5m2 alone has infinities; e4m3fn has NaN at 0x7f; the fnuz ones
 * have no -0, and NaN in its place. */
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
#define AS_BOOL(v) ((v) != 0)
#define AS_IT_IS(v) (v)

/* memcpy: the elements of a file need not be aligned. */
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

#define INTEGER(type, name)                                                                        \
	{                                                                                          \
		COMPARE_INT, sizeof(type), 1, 0, 0, false, name##_double, name##_int               \
	}
#define REAL(bytes, parts, digits, emin, load)                                                     \
	{                                                                                          \
		COMPARE_FLOAT, bytes, parts, digits, emin, true, load##_double, NULL               \
	}

/* Indexed by c10::ScalarType (names_dtype). Quantized dtypes: the integers that are stored. */
static const struct compare_dtype dtypes[] = {
    [0] = INTEGER(uint8_t, u8),
    [1] = INTEGER(int8_t, i8),
    [2] = INTEGER(int16_t, i16),
    [3] = INTEGER(int32_t, i32),
    [4] = INTEGER(int64_t, i64),
    [5] = REAL(2, 1, 11, -14, half),
    [6] = REAL(4, 1, 24, -126, float),
    [7] = REAL(8, 1, 53, -1022, double),
    [8] = REAL(2, 2, 11, -14, half),
    [9] = REAL(4, 2, 24, -126, float),
    [10] = REAL(8, 2, 53, -1022, double),
    [11] = INTEGER(uint8_t, truth),
    [12] = INTEGER(int8_t, i8),
    [13] = INTEGER(uint8_t, u8),
    [14] = INTEGER(int32_t, i32),
    [15] = REAL(2, 1, 8, -126, bfloat16),
    [23] = REAL(1, 1, 3, -14, e5m2),
    [24] = REAL(1, 1, 4, -6, e4m3fn),
    [25] = REAL(1, 1, 3, -15, e5m2fnuz),
    [26] = REAL(1, 1, 4, -7, e4m3fnuz),
    [27] = INTEGER(uint16_t, u16),
    [28] = INTEGER(uint32_t, u32),
    [29] = {COMPARE_UINT64, 8, 1, 0, 0, false, u64_double, u64_int},
};

const struct compare_dtype *compare_dtype(int dtype)
{
	static const struct compare_dtype none;
	if (dtype < 0 || (size_t)dtype >= sizeof(dtypes) / sizeof(dtypes[0]))
		return &none;
	return &dtypes[dtype];
}
