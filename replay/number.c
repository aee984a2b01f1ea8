#include "replay/number.h"

#include <math.h>
#include <string.h>

#include "symbolizer/names.h"

#define CONVERT(name, type)                                                                        \
	static void name(const void *in, size_t n, double *out)                                    \
	{                                                                                          \
		const unsigned char *p = in;                                                       \
		for (size_t i = 0; i < n; i++) {                                                   \
			type v;                                                                    \
			memcpy(&v, p + i * sizeof(v), sizeof(v));                                  \
			out[i] = (double)v;                                                        \
		}                                                                                  \
	}

CONVERT(from_u8, uint8_t)
CONVERT(from_i8, int8_t)
CONVERT(from_u16, uint16_t)
CONVERT(from_i16, int16_t)
CONVERT(from_u32, uint32_t)
CONVERT(from_i32, int32_t)
CONVERT(from_u64, uint64_t)
CONVERT(from_i64, int64_t)
CONVERT(from_f32, float)
CONVERT(from_f64, double)

static float float_of(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* A bool that is neither 0 nor 1 is true. */
static void from_bool(const void *in, size_t n, double *out)
{
	const uint8_t *p = in;
	for (size_t i = 0; i < n; i++)
		out[i] = p[i] != 0;
}

static void from_bf16(const void *in, size_t n, double *out)
{
	const unsigned char *p = in;
	for (size_t i = 0; i < n; i++) {
		uint16_t h;
		memcpy(&h, p + 2 * i, 2);
		out[i] = float_of((uint32_t)h << 16);
	}
}

/* IEEE 754 binary16: as a float of the same exponent and mantissa bits the value is too small by
 * 2^-112, the difference of the biases; an exponent of all ones stays infinity or NaN. */
static inline double half(uint16_t h)
{
	uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
	double small = float_of(magnitude | sign) * 0x1p112;
	double special = float_of(magnitude | sign | 0x7f800000);
	return (h & 0x7c00) == 0x7c00 ? special : small;
}

static void from_f16(const void *in, size_t n, double *out)
{
	const unsigned char *p = in;
	for (size_t i = 0; i < n; i++) {
		uint16_t h;
		memcpy(&h, p + 2 * i, 2);
		out[i] = half(h);
	}
}

/* The 8-bit formats, in the same way: `shift` puts exponent and mantissa where a float has them,
 * `factor` makes up for the biases. A code whose bits under `mask` are `nan` is NaN. */
static inline double small_float(uint8_t b, int shift, double factor, uint8_t mask, uint8_t nan)
{
	double v = float_of((uint32_t)(b & 0x7f) << shift | (uint32_t)(b & 0x80) << 24) * factor;
	return (b & mask) == nan ? NAN : v;
}

static void from_e4m3fn(const void *in, size_t n, double *out)
{
	const uint8_t *p = in;
	for (size_t i = 0; i < n; i++)
		out[i] = small_float(p[i], 20, 0x1p120, 0x7f, 0x7f);
}

/* uz: no negative zero, its code is the only NaN. */
static void from_e4m3fnuz(const void *in, size_t n, double *out)
{
	const uint8_t *p = in;
	for (size_t i = 0; i < n; i++)
		out[i] = small_float(p[i], 20, 0x1p119, 0xff, 0x80);
}

static void from_e5m2fnuz(const void *in, size_t n, double *out)
{
	const uint8_t *p = in;
	for (size_t i = 0; i < n; i++)
		out[i] = small_float(p[i], 21, 0x1p111, 0xff, 0x80);
}

/* The upper half of a binary16. */
static void from_e5m2(const void *in, size_t n, double *out)
{
	const uint8_t *p = in;
	for (size_t i = 0; i < n; i++)
		out[i] = half((uint16_t)(p[i] << 8));
}

/* A power of two, 2^(bits - 127); 255 is NaN. A float has the same exponent, but for 0. */
static void from_e8m0fnu(const void *in, size_t n, double *out)
{
	const uint8_t *p = in;
	for (size_t i = 0; i < n; i++) {
		double v = float_of(p[i] ? (uint32_t)p[i] << 23 : 1 << 22);
		out[i] = p[i] == 0xff ? NAN : v;
	}
}

static const struct number {
	const char *dtype;
	enum number_kind kind;
	number_convert convert;
} numbers[] = {
    {"float32", NUMBER_FLOAT, from_f32},
    {"float64", NUMBER_FLOAT, from_f64},
    {"float16", NUMBER_FLOAT, from_f16},
    {"bfloat16", NUMBER_FLOAT, from_bf16},
    {"bool", NUMBER_BOOL, from_bool},
    {"uint8", NUMBER_UNSIGNED, from_u8},
    {"int8", NUMBER_SIGNED, from_i8},
    {"int16", NUMBER_SIGNED, from_i16},
    {"int32", NUMBER_SIGNED, from_i32},
    {"int64", NUMBER_SIGNED, from_i64},
    {"uint16", NUMBER_UNSIGNED, from_u16},
    {"uint32", NUMBER_UNSIGNED, from_u32},
    {"uint64", NUMBER_UNSIGNED, from_u64},
    {"complex32", NUMBER_COMPLEX, from_f16},
    {"complex64", NUMBER_COMPLEX, from_f32},
    {"complex128", NUMBER_COMPLEX, from_f64},
    {"qint8", NUMBER_SIGNED, from_i8},
    {"quint8", NUMBER_UNSIGNED, from_u8},
    {"qint32", NUMBER_SIGNED, from_i32},
    {"float8_e5m2", NUMBER_FLOAT, from_e5m2},
    {"float8_e4m3fn", NUMBER_FLOAT, from_e4m3fn},
    {"float8_e5m2fnuz", NUMBER_FLOAT, from_e5m2fnuz},
    {"float8_e4m3fnuz", NUMBER_FLOAT, from_e4m3fnuz},
    {"float8_e8m0fnu", NUMBER_FLOAT, from_e8m0fnu},
};

static const struct number *find(int dtype)
{
	const char *name = names_dtype(dtype);
	for (size_t i = 0; name && i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!strcmp(numbers[i].dtype, name))
			return &numbers[i];
	return NULL;
}

enum number_kind number_kind(int dtype)
{
	const struct number *n = find(dtype);
	return n ? n->kind : NUMBER_NONE;
}

number_convert number_converter(int dtype)
{
	const struct number *n = find(dtype);
	return n ? n->convert : NULL;
}
