
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>

#include "replay/numbers/numbers.h"

/* c10::ScalarType */
enum { U8, I8, I16, I32, I64, F16, F32, F64, C32, C64, C128, BOOL, BF16 = 15, E5M2 = 23, U64 = 29 };

static struct compare_tensor tensor(const void *data, int dtype, int ndim, const int64_t *shape)
{
	return (struct compare_tensor){data, dtype, ndim, shape, NULL};
}

static struct compare_stats compare(struct compare_tensor a, struct compare_tensor b,
				    struct compare_params p)
{
	struct compare_stats s;
	struct err e = {0};
	assert_int_equal(compare_tensors(&a, &b, &p, &s, &e), 0);
	return s;
}

static double noise(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(int64_t)(*seed >> 11) / 0x1p52 - 1;
}

/* Straightforward implementation of the figures, element by element. */
static void reference(const float *a, const double *b, const double *k, size_t n,
		      const struct compare_params *p, struct compare_stats *s)
{
	*s = (struct compare_stats){.first_unequal = UINT64_MAX};
	for (size_t i = 0; i < n; i++) {
		double x = (double)a[i], y = b[i], d = fabs(x - y);
		double unit = 0x1p-24 * fabs(y) + (k ? k[i] : 0) + fmax(p->floor, 0x1p-150);
		int exponent = y != 0 ? ilogb(y) : -1000;
		double ulp = ldexp(d, 23 - (exponent < -126 ? -126 : exponent));
		s->unequal += x != y;
		if (x != y && s->first_unequal == UINT64_MAX)
			s->first_unequal = i;
		s->not_close += !(d <= p->atol + p->rtol * fabs(y));
		if (d > s->max_abs) {
			s->max_abs = d;
			s->max_abs_at = i;
		}
		if (d / unit > s->worst) {
			s->worst = d / unit;
			s->worst_at = i;
		}
		s->max_rel = fmax(s->max_rel, d / (fabs(x) + 1e-6));
		s->ulp = fmax(s->ulp, ulp);
		s->dot += x * y;
		s->aa += x * x;
		s->bb += y * y;
		s->sum += (x - y) / unit;
		s->sum2 += d / unit * (d / unit);
		s->along += (x - y) / unit * (signbit(y) ? -1 : 1);
		s->scale += (x - y) / unit * (0x1p-24 * y / unit);
		s->scale2 += 0x1p-24 * y / unit * (0x1p-24 * y / unit);
		s->per_unit += y != 0 ? 1 / unit : 0;
	}
}

static void near(double seen, double wanted)
{
	if (!(fabs(seen - wanted) <= 1e-9 * fabs(wanted) + 1e-300))
		fail_msg("%.17g, wanted %.17g", seen, wanted);
}

static void same_stats(const struct compare_stats *s, const struct compare_stats *r)
{
	assert_int_equal(s->unequal, r->unequal);
	assert_int_equal(s->first_unequal, r->first_unequal);
	assert_int_equal(s->not_close, r->not_close);
	assert_int_equal(s->max_abs_at, r->max_abs_at);
	assert_int_equal(s->worst_at, r->worst_at);
	near(s->max_abs, r->max_abs);
	near(s->max_rel, r->max_rel);
	near(s->ulp, r->ulp);
	near(s->worst, r->worst);
	near(s->dot, r->dot);
	near(s->aa, r->aa);
	near(s->bb, r->bb);
	near(s->sum2, r->sum2);
	near(s->scale2, r->scale2);
	near(s->per_unit, r->per_unit);
	assert_true(fabs(s->scale - r->scale) <= 1e-9 * sqrt(r->sum2 * (double)s->n) + 1e-12);
	assert_true(fabs(s->sum - r->sum) <= 1e-9 * sqrt(r->sum2 * (double)s->n) + 1e-12);
	assert_true(fabs(s->along - r->along) <= 1e-9 * sqrt(r->sum2 * (double)s->n) + 1e-12);
}

static void figures_are_those_of_the_definitions(void **state)
{
	static const size_t sizes[] = {1, 3, 8, 1000, 1024, 1025, 300000, 1000003};
	(void)state;
	for (size_t c = 0; c < sizeof(sizes) / sizeof(sizes[0]); c++) {
		size_t n = sizes[c];
		uint64_t seed = c + 1;
		float *a = malloc(n * sizeof(*a));
		double *b = malloc(n * sizeof(*b)), *k = malloc(n * sizeof(*k));
		for (size_t i = 0; i < n; i++) {
			b[i] = noise(&seed) * pow(10, 20 * noise(&seed));
			if (i % 7 == 3)
				b[i] = i % 2 ? 0 : ldexp(1, -140);
			a[i] = (float)(b[i] * (1 + 1e-6 * noise(&seed)));
			k[i] = fabs(noise(&seed)) * 1e-7;
		}
		int64_t shape[] = {(int64_t)n};
		struct compare_params p = {.atol = 1e-8, .rtol = 5e-7, .floor = 1e-12};
		struct compare_stats s, one, r;
		p.allowance = c % 2 ? k : NULL;
		reference(a, b, p.allowance, n, &p, &r);
		s = compare(tensor(a, F32, 1, shape), tensor(b, F64, 1, shape), p);
		same_stats(&s, &r);
		p.threads = 1;
		one = compare(tensor(a, F32, 1, shape), tensor(b, F64, 1, shape), p);
		assert_memory_equal(&one, &s, sizeof(s));
		free(a);
		free(b);
		free(k);
	}
}

static void strides_of_any_kind_are_followed(void **state)
{
	(void)state;
	enum { A = 7, B = 33, C = 65 };
	static float base[A * B * C], packed[A * B * C];
	uint64_t seed = 9;
	for (size_t i = 0; i < A * B * C; i++)
		base[i] = (float)noise(&seed);
	/* permuted to (C, A, B), with A reversed */
	int64_t shape[] = {C, A, 1, B}, stride[] = {1, -B * C, 12345, C};
	for (int c = 0, o = 0; c < C; c++)
		for (int a = 0; a < A; a++)
			for (int b = 0; b < B; b++)
				packed[o++] = base[(A - 1 - a) * B * C + b * C + c];
	struct compare_tensor t = {base + (A - 1) * B * C, F32, 4, shape, stride};
	struct compare_stats s =
	    compare(t, tensor(packed, F32, 4, shape), (struct compare_params){0});
	assert_int_equal(s.n, A * B * C);
	assert_int_equal(s.unequal, 0);
	assert_true(compare_cosine(&s) > 1 - 1e-12);
	packed[(50 * A + 2) * B + 4] += 1;
	s = compare(t, tensor(packed, F32, 4, shape), (struct compare_params){0});
	assert_int_equal(s.unequal, 1);
	char text[64];
	assert_string_equal(compare_index(text, sizeof(text), &t, s.worst_at), "[50, 2, 0, 4]");
	/* expanded: stride 0 */
	int64_t wide[] = {1000, 3}, none[] = {0, 1};
	struct compare_tensor row = {base, F32, 2, wide, none};
	s = compare(row, row, (struct compare_params){0});
	assert_int_equal(s.n, 3000);
	assert_int_equal(s.unequal, 0);
}

static void nan_and_infinity_match_in_kind_and_place(void **state)
{
	(void)state;
	static const float a[] = {1, NAN, INFINITY, -INFINITY, NAN, 2, INFINITY, 3, INFINITY};
	static const float b[] = {1, NAN, INFINITY, INFINITY, 1, NAN, 5, 3.5F, NAN};
	int64_t shape[] = {9};
	struct compare_stats s =
	    compare(tensor(a, F32, 1, shape), tensor(b, F32, 1, shape), (struct compare_params){0});
	assert_int_equal(s.nan_wrong, 3);
	assert_int_equal(s.inf_wrong, 2);
	assert_int_equal(s.finite, 2);
	assert_int_equal(s.unequal, 6);
	assert_int_equal(s.first_wrong, 3);
	assert_true(isinf(s.a_at_worst) && s.a_at_worst < 0 && s.b_at_worst > 0);
	assert_true(s.max_abs == 0.5);
	assert_true(isnan(compare_max_abs(&s)) && isnan(compare_max_rel(&s)));
	assert_true(isnan(compare_cosine(&s)));
	s = compare(tensor(a, F32, 1, shape), tensor(a, F32, 1, shape), (struct compare_params){0});
	assert_int_equal(s.unequal, 0);
	assert_true(compare_cosine(&s) == 1);
}

static void integers_are_exact(void **state)
{
	(void)state;
	static const int64_t a[] = {INT64_MAX, INT64_MAX, INT64_MIN, 5};
	static const int64_t b[] = {INT64_MAX - 1, INT64_MAX, INT64_MAX, 5};
	int64_t shape[] = {4}, two[] = {2};
	struct compare_stats s =
	    compare(tensor(a, I64, 1, two), tensor(b, I64, 1, two), (struct compare_params){0});
	assert_int_equal(s.unequal, 1);
	assert_true(s.max_abs == 1);
	s = compare(tensor(a, I64, 1, shape), tensor(b, I64, 1, shape), (struct compare_params){0});
	assert_true(s.max_abs == 0x1p64);
	assert_int_equal(s.max_abs_at, 2);
	/* ditorch's difference of unsigned numbers wraps; ours must not */
	static const uint8_t c[] = {0, 255}, d[] = {1, 0};
	s = compare(tensor(c, U8, 1, two), tensor(d, U8, 1, two), (struct compare_params){0});
	assert_true(s.max_abs == 255);
	static const uint64_t g[] = {UINT64_MAX, 0}, h[] = {0, 0};
	s = compare(tensor(g, U64, 1, two), tensor(h, U64, 1, two), (struct compare_params){0});
	assert_true(s.max_abs == 0x1p64);
	static const uint8_t yes[] = {1, 7}, no[] = {2, 0};
	s = compare(tensor(yes, BOOL, 1, two), tensor(no, BOOL, 1, two),
		    (struct compare_params){0});
	assert_int_equal(s.unequal, 1);
	s = compare(tensor(c, U8, 1, two), tensor(yes, I8, 1, two), (struct compare_params){0});
	assert_int_equal(s.unequal, 2);
}

static void small_floats_are_read_by_their_formats(void **state)
{
	(void)state;
	static const uint16_t half[] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x7c00, 0x0400, 0x8000};
	static const double as[] = {1, -2, 65504, 0x1p-24, INFINITY, 0x1p-14, 0};
	static const uint16_t brain[] = {0x3f80, 0xc000, 0x0001};
	static const double as_brain[] = {1, -2, 0x1p-133};
	static const uint8_t e5m2[] = {0x3c, 0x7c, 0x7b, 0x01};
	static const double as_e5m2[] = {1, INFINITY, 57344, 0x1p-16};
	static const uint8_t e4m3[] = {0x38, 0x7e, 0x01, 0xc0};
	static const double as_e4m3[] = {1, 448, 0x1p-9, -2};
	int64_t n7[] = {7}, n3[] = {3}, n4[] = {4};
	struct compare_params p = {0};
	assert_int_equal(compare(tensor(half, F16, 1, n7), tensor(as, F64, 1, n7), p).unequal, 0);
	assert_int_equal(
	    compare(tensor(brain, BF16, 1, n3), tensor(as_brain, F64, 1, n3), p).unequal, 0);
	assert_int_equal(compare(tensor(e5m2, E5M2, 1, n4), tensor(as_e5m2, F64, 1, n4), p).unequal,
			 0);
	assert_int_equal(compare(tensor(e4m3, 24, 1, n4), tensor(as_e4m3, F64, 1, n4), p).unequal,
			 0);
	static const double off[] = {1 + 0x1p-10, -2, 65504, 0x1p-24, INFINITY, 0x1p-14, 0};
	struct compare_stats s = compare(tensor(half, F16, 1, n7), tensor(off, F64, 1, n7), p);
	assert_true(s.ulp == 1);
	near(s.worst, 0x1p-10 / (0x1p-11 * off[0] + 0x1p-25));
}

static void complex_numbers_count_as_two(void **state)
{
	(void)state;
	static const float a[] = {1, 2, 3, 4, 5, 6};
	static const float b[] = {1, 2, 3, 4.5F, 5, 6};
	int64_t shape[] = {3};
	struct compare_tensor t = tensor(a, C64, 1, shape);
	struct compare_stats s = compare(t, tensor(b, C64, 1, shape), (struct compare_params){0});
	char text[32];
	assert_int_equal(s.n, 6);
	assert_int_equal(s.unequal, 1);
	assert_string_equal(compare_index(text, sizeof(text), &t, s.max_abs_at), "[1]");
}

static void what_cannot_be_compared_is_refused(void **state)
{
	(void)state;
	float x[4] = {0};
	int64_t two[] = {2}, three[] = {3}, huge[] = {INT64_MAX, INT64_MAX}, minus[] = {-1},
		none[] = {0, 5};
	struct compare_tensor a = tensor(x, F32, 1, two), b = tensor(x, F32, 1, three);
	struct compare_params p = {0};
	struct compare_stats s;
	struct err e = {0};
	assert_int_equal(compare_tensors(&a, &b, &p, &s, &e), -EINVAL);
	b = tensor(x, 22, 1, two);
	assert_int_equal(compare_tensors(&a, &b, &p, &s, &e), -ENOTSUP);
	b = tensor(x, 1000, 1, two);
	assert_int_equal(compare_tensors(&a, &b, &p, &s, &e), -ENOTSUP);
	b = tensor(x, C64, 1, two);
	assert_int_equal(compare_tensors(&a, &b, &p, &s, &e), -ENOTSUP);
	a = b = tensor(x, F32, 2, huge);
	assert_int_equal(compare_tensors(&a, &b, &p, &s, &e), -EINVAL);
	a = b = tensor(x, F32, 1, minus);
	assert_int_equal(compare_tensors(&a, &b, &p, &s, &e), -EINVAL);
	a = b = tensor(NULL, F32, 2, none);
	assert_int_equal(compare_tensors(&a, &b, &p, &s, &e), 0);
	assert_int_equal(s.n, 0);
	assert_true(compare_cosine(&s) == 1);
	a = b = tensor(x, F32, 0, NULL);
	assert_int_equal(compare_tensors(&a, &b, &p, &s, &e), 0);
	assert_int_equal(s.n, 1);
}

static void mean_squares_are_of_what_is_finite(void **state)
{
	double v[21] = {0};
	(void)state;
	for (size_t n = 0; n <= 21; n++) {
		double squares = 0, finite = 0;
		for (size_t i = 0; i < n; i++) {
			v[i] = i % 7 == 3   ? (double)NAN
			       : i % 7 == 5 ? -(double)INFINITY
					    : (double)i;
			finite += isfinite(v[i]) ? 1 : 0;
			squares += isfinite(v[i]) ? v[i] * v[i] : 0;
		}
		assert_true(compare_mean_square(v, n) == (finite > 0 ? squares / finite : 0));
	}
}

static void sums_alone_are_the_same_sums(void **state)
{
	enum { N = 1500 };
	static float a[N];
	static double b[N];
	const int64_t shape[] = {N};
	uint64_t seed = 7;
	(void)state;
	for (int i = 0; i < N; i++) {
		b[i] = noise(&seed);
		a[i] = (float)(b[i] * (1 + noise(&seed) * 1e-6));
	}
	struct compare_params p = {.atol = 1e-7, .rtol = 1e-7, .floor = 1e-9};
	struct compare_stats all = compare(tensor(a, F32, 1, shape), tensor(b, F64, 1, shape), p),
			     s;
	p.sums_only = true;
	s = compare(tensor(a, F32, 1, shape), tensor(b, F64, 1, shape), p);
	assert_int_equal(s.unequal, all.unequal);
	assert_int_equal(s.not_close, all.not_close);
	assert_true(s.worst == all.worst && s.sum == all.sum && s.sum2 == all.sum2 &&
		    s.along == all.along);
	assert_true(s.worst > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(figures_are_those_of_the_definitions),
	    cmocka_unit_test(strides_of_any_kind_are_followed),
	    cmocka_unit_test(nan_and_infinity_match_in_kind_and_place),
	    cmocka_unit_test(integers_are_exact),
	    cmocka_unit_test(small_floats_are_read_by_their_formats),
	    cmocka_unit_test(complex_numbers_count_as_two),
	    cmocka_unit_test(what_cannot_be_compared_is_refused),
	    cmocka_unit_test(mean_squares_are_of_what_is_finite),
	    cmocka_unit_test(sums_alone_are_the_same_sums),
	};
	return unit_run(tests, NULL, NULL);
}
