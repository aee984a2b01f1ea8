#include "replay/numbers/numbers.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };

typedef double vd __attribute__((vector_size(LANES * 8)));
typedef int64_t vi __attribute__((vector_size(LANES * 8)));
typedef uint64_t vu __attribute__((vector_size(LANES * 8)));

#define SIGN INT64_MIN
#define EXPONENT (INT64_C(0x7ff) << 52)

struct lanes {
	vd max_abs, worst, ulp;
	vd dot, aa, bb, sum, sum2, along, scale, scale2, per_unit;
	vi unequal, not_close, more_rel; /* a true comparison is -1: counts are negative */
};

INLINE vd load(const double *p)
{
	vd v;
	memcpy(&v, p, sizeof(v));
	return v;
}

INLINE vd all(double x)
{
	return (vd){x, x, x, x, x, x, x, x};
}

INLINE vd pick(vi mask, vd yes, vd no)
{
	return (vd)((mask & (vi)yes) | (~mask & (vi)no));
}

INLINE vd larger(vd x, vd y)
{
	return pick(x > y, x, y);
}

INLINE vd magnitude(vd x)
{
	return (vd)((vi)x & ~SIGN);
}

/* |d| in units of 2^exponent of b, at least that of the smallest normal number. */
INLINE vd in_binades(vd d, vd b, uint64_t emin_bits)
{
	vi e = (vi)b & EXPONENT, least = e - e + (int64_t)emin_bits;
	vi up = e > least;
	e = (e & up) | (least & ~up);
	return d * (vd)((INT64_C(0x7fe) << 52) - e);
}

INLINE void step_sums(struct lanes *l, vd a, vd b, vd k, const struct compare_units *u)
{
	vd d = a - b, size = magnitude(d), b_size = magnitude(b);
	vd rounding = u->roundoff * b_size, unit = rounding + k;
	vd error = d / unit, share = rounding / unit;
	vd outward = (vd)((vi)error ^ ((vi)b & SIGN));
	l->unequal += size != 0.0;
	l->not_close += size > u->rtol * b_size + u->atol;
	l->worst = larger(magnitude(error), l->worst);
	l->sum += error;
	l->sum2 += error * error;
	l->along += outward;
	l->scale += outward * share;
	l->scale2 += share * share;
	l->per_unit += (vd)((vi)(1.0 / unit) & (b_size != 0.0));
}

INLINE void step(struct lanes *l, vd a, vd b, vd k, double max_rel, const struct compare_units *u)
{
	vd size = magnitude(a - b);
	step_sums(l, a, b, k, u);
	l->more_rel |= size > max_rel * (magnitude(a) + 1e-6);
	l->max_abs = larger(size, l->max_abs);
	l->ulp = larger(in_binades(size, b, u->emin_bits), l->ulp);
	l->dot += a * b;
	l->aa += a * a;
	l->bb += b * b;
}

COMPARE_CLONES static void run(const double *a, const double *b, const double *k, size_t n,
			       double max_rel, const struct compare_units *u, struct lanes *out)
{
	struct lanes l = {0};
	vd floor = all(u->floor);
	if (u->sums_only && !k)
		for (size_t i = 0; i < n; i += LANES)
			step_sums(&l, load(a + i), load(b + i), floor, u);
	else if (k)
		for (size_t i = 0; i < n; i += LANES)
			step(&l, load(a + i), load(b + i), load(k + i) + floor, max_rel, u);
	else
		for (size_t i = 0; i < n; i += LANES)
			step(&l, load(a + i), load(b + i), floor, max_rel, u);
	*out = l;
}

static double sum_of(vd v)
{
	return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

static uint64_t count_of(vi v)
{
	int64_t n = 0;
	for (int i = 0; i < LANES; i++)
		n -= v[i];
	return (uint64_t)n;
}

COMPARE_CLONES double compare_mean_square(const double *v, size_t n)
{
	vd squares = {0};
	vi finite = {0};
	double last[LANES] = {0};
	for (size_t i = 0; i < n; i += LANES) {
		if (n - i < LANES)
			memcpy(last, v + i, (n - i) * sizeof(*v));
		vd x = load(n - i < LANES ? last : v + i);
		vi is_finite = ((vi)x & EXPONENT) != EXPONENT;
		squares += (vd)((vi)(x * x) & is_finite);
		finite += is_finite;
	}
	double count = (double)(count_of(finite) - (LANES - n % LANES) % LANES);
	return count > 0 ? sum_of(squares) / count : 0;
}

/* Whether there is a NaN or an infinity: x - x is NaN for both, and makes the sum NaN. */
COMPARE_CLONES static bool special(const double *a, const double *b, size_t n)
{
	vd sum = {0};
	for (size_t i = 0; i < n; i += LANES) {
		vd x = load(a + i), y = load(b + i);
		sum += (x - x) + (y - y);
	}
	return sum_of(sum) != 0;
}

static void wrong(double a, double b, uint64_t at, struct compare_stats *s)
{
	s->unequal++;
	s->not_close++;
	if (s->first_unequal == UINT64_MAX)
		s->first_unequal = at;
	if (s->first_wrong != UINT64_MAX)
		return;
	s->first_wrong = at;
	s->a_at_worst = a;
	s->b_at_worst = b;
}

/* Count the elements that are not finite and set them to zero. Returns their number. */
static size_t take_special(double *a, double *b, size_t n, uint64_t at, struct compare_stats *s)
{
	size_t found = 0;
	for (size_t i = 0; i < n; i++) {
		if (isfinite(a[i]) && isfinite(b[i]))
			continue;
		found++;
		if (isnan(a[i]) != isnan(b[i])) {
			s->nan_wrong++;
			wrong(a[i], b[i], at + i, s);
		} else if (!isnan(a[i]) && a[i] != b[i]) {
			s->inf_wrong++;
			wrong(a[i], b[i], at + i, s);
		}
		a[i] = b[i] = 0;
	}
	return found;
}

static double max_of(vd v)
{
	double m = v[0];
	for (int i = 1; i < LANES; i++)
		m = v[i] > m ? v[i] : m;
	return m;
}

/* Find the index of a new maximum in a second pass over its block. */
static void find_max_abs(const double *a, const double *b, size_t n, uint64_t at, double max,
			 struct compare_stats *s)
{
	for (size_t i = 0; i < n; i++)
		if (fabs(a[i] - b[i]) >= max) {
			s->max_abs = max;
			s->max_abs_at = at + i;
			return;
		}
}

static void find_worst(const double *a, const double *b, const double *k, size_t n, uint64_t at,
		       double max, const struct compare_units *u, struct compare_stats *s)
{
	size_t place = 0;
	double worst = -1;
	for (size_t i = 0; i < n; i++) {
		double unit = u->roundoff * fabs(b[i]) + ((k ? k[i] : 0) + u->floor);
		double error = fabs(a[i] - b[i]) / unit;
		if (error > worst) {
			worst = error;
			place = i;
		}
	}
	s->worst = max;
	s->worst_at = at + place;
	if (s->first_wrong == UINT64_MAX) {
		s->a_at_worst = a[place];
		s->b_at_worst = b[place];
	}
}

static void find_rel(const double *a, const double *b, size_t n, struct compare_stats *s)
{
	for (size_t i = 0; i < n; i++) {
		double rel = fabs(a[i] - b[i]) / (fabs(a[i]) + 1e-6);
		s->max_rel = rel > s->max_rel ? rel : s->max_rel;
	}
}

static void find_unequal(const double *a, const double *b, size_t n, uint64_t at,
			 struct compare_stats *s)
{
	for (size_t i = 0; i < n; i++)
		if (a[i] != b[i]) {
			s->first_unequal = at + i < s->first_unequal ? at + i : s->first_unequal;
			return;
		}
}

static bool any(vi v)
{
	for (int i = 0; i < LANES; i++)
		if (v[i])
			return true;
	return false;
}

void compare_block(double *a, double *b, const double *k, size_t n, uint64_t at,
		   const struct compare_units *u, struct compare_stats *s)
{
	struct lanes l;
	double k_copy[COMPARE_BLOCK];
	const double *k_block = k;
	size_t whole = (n + LANES - 1) / LANES * LANES;
	for (size_t i = n; i < whole; i++)
		a[i] = b[i] = 0;
	if (k && whole != n) {
		memcpy(k_copy, k, n * sizeof(*k));
		memset(k_copy + n, 0, (whole - n) * sizeof(*k));
		k_block = k_copy;
	}
	s->n += n;
	s->finite += n;
	if (special(a, b, whole))
		s->finite -= take_special(a, b, n, at, s);
	run(a, b, k_block, whole, s->max_rel, u, &l);
	uint64_t unequal = count_of(l.unequal);
	s->unequal += unequal;
	s->not_close += count_of(l.not_close);
	s->dot += sum_of(l.dot);
	s->aa += sum_of(l.aa);
	s->bb += sum_of(l.bb);
	s->scale2 += sum_of(l.scale2);
	s->per_unit += sum_of(l.per_unit);
	if (!unequal)
		return;
	s->sum += sum_of(l.sum);
	s->sum2 += sum_of(l.sum2);
	s->along += sum_of(l.along);
	s->scale += sum_of(l.scale);
	double ulp = max_of(l.ulp) * u->to_ulp, max_abs = max_of(l.max_abs);
	s->ulp = ulp > s->ulp ? ulp : s->ulp;
	if (u->sums_only) {
		s->worst = max_of(l.worst) > s->worst ? max_of(l.worst) : s->worst;
		return;
	}
	if (s->first_unequal >= at)
		find_unequal(a, b, n, at, s);
	if (max_abs > s->max_abs)
		find_max_abs(a, b, n, at, max_abs, s);
	if (max_of(l.worst) > s->worst)
		find_worst(a, b, k_block, n, at, max_of(l.worst), u, s);
	if (any(l.more_rel))
		find_rel(a, b, n, s);
}

/* |a - b|. The difference as uint64_t is exact even where int64_t would overflow. */
INLINE uint64_t distance(int64_t a, int64_t b, bool is_unsigned)
{
	bool less = is_unsigned ? (uint64_t)a < (uint64_t)b : a < b;
	return less ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
}

static void take_unequal_int(double a, double b, uint64_t d, uint64_t at,
			     const struct compare_units *u, struct compare_stats *s)
{
	double size = (double)d, rel = size / (fabs(a) + 1e-6);
	s->unequal++;
	s->not_close += size > u->rtol * fabs(b) + u->atol;
	if (s->first_unequal == UINT64_MAX)
		s->first_unequal = at;
	s->max_rel = rel > s->max_rel ? rel : s->max_rel;
	if (size > s->max_abs) {
		s->max_abs = size;
		s->max_abs_at = s->worst_at = at;
		s->worst = size;
		s->a_at_worst = a;
		s->b_at_worst = b;
	}
}

COMPARE_CLONES static bool sums_int(const int64_t *a, const int64_t *b, bool is_unsigned, size_t n,
				    struct compare_stats *s)
{
	double dot = 0, aa = 0, bb = 0;
	uint64_t differ = 0;
	for (size_t i = 0; i < n; i++) {
		double x = is_unsigned ? (double)(uint64_t)a[i] : (double)a[i];
		double y = is_unsigned ? (double)(uint64_t)b[i] : (double)b[i];
		differ |= (uint64_t)(a[i] ^ b[i]);
		dot += x * y;
		aa += x * x;
		bb += y * y;
	}
	s->dot += dot;
	s->aa += aa;
	s->bb += bb;
	return differ;
}

void compare_block_int(const int64_t *a, const int64_t *b, bool is_unsigned, size_t n, uint64_t at,
		       const struct compare_units *u, struct compare_stats *s)
{
	s->n += n;
	s->finite += n;
	if (!sums_int(a, b, is_unsigned, n, s))
		return;
	for (size_t i = 0; i < n; i++) {
		uint64_t d = distance(a[i], b[i], is_unsigned);
		double x = is_unsigned ? (double)(uint64_t)a[i] : (double)a[i];
		double y = is_unsigned ? (double)(uint64_t)b[i] : (double)b[i];
		if (d)
			take_unequal_int(x, y, d, at + i, u, s);
	}
}
