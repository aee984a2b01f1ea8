#include "replay/numbers/numbers.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "symbolizer/event/names.h"

enum { LANES = 8, MAX_ITEM = 16 };

/* Two doubles, a register of every 64-bit processor, and the mask of a comparison, -1 for true. A
 * row is LANES doubles. */
typedef double vec __attribute__((vector_size(2 * sizeof(double))));
typedef int64_t mask __attribute__((vector_size(2 * sizeof(int64_t))));
enum { ROW = LANES / 2 };

struct stats_sum {
	struct stats s;
	const struct number *number;
	size_t itemsize;
	uint64_t finite; /* number of elements in mean, m2 and squares */
	long double mean, m2, squares;
	XXH3_state_t *hash;
	size_t pending; /* elements in `raw` */
	double values[2 * STATS_BLOCK];
	unsigned char raw[STATS_BLOCK * MAX_ITEM];
};

struct stats_sum *stats_begin(int dtype)
{
	int itemsize = names_itemsize(dtype);
	struct stats_sum *s = itemsize > 0 && itemsize <= MAX_ITEM ? malloc(sizeof(*s)) : NULL;
	if (!s)
		return NULL;
	memset(s, 0, offsetof(struct stats_sum, values));
	s->number = number_of(dtype);
	s->itemsize = (size_t)itemsize;
	s->hash = XXH3_createState();
	if (!s->hash) {
		free(s);
		return NULL;
	}
	XXH3_64bits_reset(s->hash);
	s->s.is_numeric = s->number->kind != NUMBER_NONE;
	s->s.is_int = s->number->to_int != NULL;
	s->s.is_unsigned = s->number->kind == NUMBER_UNSIGNED;
	s->s.min = INFINITY;
	s->s.max = -INFINITY;
	return s;
}

/* |z| of n complex numbers, in place. For an infinity and a NaN hypot returns infinity, PyTorch
 * NaN. */
static void absolute(double *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double re = v[2 * i], im = v[2 * i + 1];
		v[i] = isnan(re) || isnan(im) ? NAN : hypot(re, im);
	}
}

/* Load up to LANES of `n` numbers from v[i] on, padded with `pad`. */
static inline void load(const double *v, size_t i, size_t n, double pad, vec *row)
{
	if (n - i >= LANES) {
		memcpy(row, v + i, ROW * sizeof(*row));
		return;
	}
	for (unsigned k = 0; k < LANES; k++)
		row[k / 2][k % 2] = i + k < n ? v[i + k] : pad;
}

static inline vec choose(mask m, vec yes, vec no)
{
	return (vec)(((mask)yes & m) | ((mask)no & ~m));
}

static inline uint64_t total(const mask *row)
{
	uint64_t sum = 0;
	for (unsigned k = 0; k < LANES; k++)
		sum += (uint64_t)row[k / 2][k % 2];
	return sum;
}

static inline double total_of(const vec *v)
{
	return ((v[0][0] + v[0][1]) + (v[1][0] + v[1][1])) +
	       ((v[2][0] + v[2][1]) + (v[3][0] + v[3][1]));
}

static double least(const vec *row)
{
	double m = row[0][0];
	for (unsigned k = 1; k < LANES; k++)
		m = row[k / 2][k % 2] < m ? row[k / 2][k % 2] : m;
	return m;
}

static double greatest(const vec *row)
{
	double m = row[0][0];
	for (unsigned k = 1; k < LANES; k++)
		m = row[k / 2][k % 2] > m ? row[k / 2][k % 2] : m;
	return m;
}

/* Count NaN, infinities and zeros of a block, and update minimum and maximum. Returns the number of
 * finite elements. */
static size_t classify(struct stats *s, const double *v, size_t n)
{
	mask nan[ROW] = {0}, pos[ROW] = {0}, neg[ROW] = {0}, zero[ROW] = {0};
	vec lo[ROW], hi[ROW], x[ROW];

	for (unsigned k = 0; k < ROW; k++) {
		lo[k] = (vec){s->min, s->min};
		hi[k] = (vec){s->max, s->max};
	}
	for (size_t i = 0; i < n; i += LANES) {
		load(v, i, n, NAN, x);
		for (unsigned k = 0; k < ROW; k++) {
			nan[k] -= x[k] != x[k];
			pos[k] -= x[k] > DBL_MAX;
			neg[k] -= x[k] < -DBL_MAX;
			zero[k] -= x[k] == 0;
			lo[k] = choose(x[k] < lo[k], x[k], lo[k]);
			hi[k] = choose(x[k] > hi[k], x[k], hi[k]);
		}
	}
	uint64_t nans = total(nan) - (-n & (LANES - 1)), infinite = total(pos) + total(neg);
	s->nan += nans;
	s->pos_inf += total(pos);
	s->neg_inf += total(neg);
	s->zeros += total(zero);
	s->min = least(lo);
	s->max = greatest(hi);
	return n - nans - infinite;
}

static size_t keep_finite(double *v, size_t n)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		v[kept] = v[i];
		kept += fabs(v[i]) <= DBL_MAX;
	}
	return kept;
}

static double largest(const double *v, size_t n)
{
	vec m[ROW] = {0}, x[ROW];
	for (size_t i = 0; i < n; i += LANES) {
		load(v, i, n, 0, x);
		for (unsigned k = 0; k < ROW; k++) {
			x[k] = choose(x[k] < 0, -x[k], x[k]);
			m[k] = choose(x[k] > m[k], x[k], m[k]);
		}
	}
	return greatest(m);
}

/* Scale the block to avoid overflow and underflow of squares: x becomes x * 2^-scale. Returns
 * scale. */
static int scale(double *v, size_t n)
{
	int exponent = 0;
	double m = largest(v, n);
	if (m == 0 || (m < 0x1p500 && m > 0x1p-400))
		return 0;
	frexp(m, &exponent);
	for (size_t i = 0; i < n; i++)
		v[i] = ldexp(v[i], -exponent);
	return exponent;
}

/* Mean, sum of squared deviations and sum of squares of n finite values, merged into the totals. */
static void accumulate(struct stats_sum *s, double *v, size_t n)
{
	vec sum[ROW] = {0}, deviations[ROW] = {0}, squares[ROW] = {0}, x[ROW];
	if (!n)
		return;
	int exponent = scale(v, n);
	for (size_t i = 0; i < n; i += LANES) {
		load(v, i, n, 0, x);
		for (unsigned k = 0; k < ROW; k++) {
			sum[k] += x[k];
			squares[k] += x[k] * x[k];
		}
	}
	double mean = total_of(sum) / (double)n;
	for (size_t i = 0; i < n; i += LANES) {
		load(v, i, n, mean, x);
		for (unsigned k = 0; k < ROW; k++)
			deviations[k] += (x[k] - mean) * (x[k] - mean);
	}
	long double block_mean = ldexpl(mean, exponent);
	long double block_m2 = ldexpl(total_of(deviations), 2 * exponent);
	long double delta = block_mean - s->mean, all = (long double)(s->finite + n);
	s->m2 += block_m2 + delta * delta * ((long double)s->finite * (long double)n / all);
	s->mean += delta * ((long double)n / all);
	s->squares += ldexpl(total_of(squares), 2 * exponent);
	s->finite += n;
}

/* Minimum and maximum of 64-bit integers, which a double cannot represent exactly. */
static void ints64(struct stats *s, const unsigned char *raw, size_t n, bool first)
{
	uint64_t flip = s->is_unsigned ? UINT64_C(1) << 63 : 0;
	int64_t lo = INT64_MAX, hi = INT64_MIN;
	for (size_t i = 0; i < n; i++) {
		uint64_t u;
		memcpy(&u, raw + 8 * i, 8);
		int64_t v = (int64_t)(u ^ flip);
		lo = v < lo ? v : lo;
		hi = v > hi ? v : hi;
	}
	int64_t old_lo = (int64_t)((uint64_t)s->min_int ^ flip);
	int64_t old_hi = (int64_t)((uint64_t)s->max_int ^ flip);
	lo = !first && old_lo < lo ? old_lo : lo;
	hi = !first && old_hi > hi ? old_hi : hi;
	s->min_int = (int64_t)((uint64_t)lo ^ flip);
	s->max_int = (int64_t)((uint64_t)hi ^ flip);
}

static void block(struct stats_sum *s, const unsigned char *raw, size_t n)
{
	XXH3_64bits_update(s->hash, raw, n * s->itemsize);
	if (s->s.is_int && s->itemsize == 8)
		ints64(&s->s, raw, n, s->s.count == 0);
	s->s.count += n;
	const struct number *t = s->number;
	if (t->kind == NUMBER_NONE)
		return;
	t->to_double(raw, t->itemsize, n * t->parts, s->values);
	if (t->kind == NUMBER_COMPLEX)
		absolute(s->values, n);
	size_t finite = classify(&s->s, s->values, n);
	accumulate(s, s->values, finite == n ? n : keep_finite(s->values, n));
}

void stats_add(struct stats_sum *s, const void *data, size_t n)
{
	const unsigned char *p = data;
	while (n) {
		size_t take = STATS_BLOCK - s->pending < n ? STATS_BLOCK - s->pending : n;
		if (take == STATS_BLOCK) {
			block(s, p, take);
		} else {
			memcpy(s->raw + s->pending * s->itemsize, p, take * s->itemsize);
			s->pending += take;
			if (s->pending == STATS_BLOCK) {
				block(s, s->raw, STATS_BLOCK);
				s->pending = 0;
			}
		}
		p += take * s->itemsize;
		n -= take;
	}
}

void stats_end(struct stats_sum *s, struct stats *out)
{
	if (s->pending)
		block(s, s->raw, s->pending);
	*out = s->s;
	out->hash = XXH3_64bits_digest(s->hash);
	out->mean = s->finite ? (double)s->mean : NAN;
	out->std = s->finite > 1 ? (double)sqrtl(s->m2 / (long double)(s->finite - 1)) : NAN;
	out->l2 = s->finite || !s->s.count ? (double)sqrtl(s->squares) : NAN;
	if (!out->is_numeric)
		out->l2 = NAN;
	if (!out->is_numeric || out->count == out->nan)
		out->min = out->max = NAN;
	if (out->is_int && s->itemsize != 8 && out->count) {
		out->min_int = (int64_t)out->min;
		out->max_int = (int64_t)out->max;
	}
	XXH3_freeState(s->hash);
	free(s);
}
