
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>

#include "replay/numbers/numbers.h"

enum { N = 4096, F16 = 5, F32 = 6, F64 = 7, I64 = 4, BF16 = 15 };

static double reference[N];
static float result[N], cpu[N];
static char why[512];
static double reach_judged = 1;

static void set_up(void)
{
	uint64_t seed = 1;
	for (int i = 0; i < N; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		reference[i] = (double)(int64_t)seed / 0x1p62;
		result[i] = cpu[i] = (float)reference[i];
	}
}

static struct compare_stats against(const void *a, int type_a, const void *b, int type_b)
{
	static const int64_t shape[] = {N};
	struct compare_tensor x = {a, type_a, 1, shape, NULL}, y = {b, type_b, 1, shape, NULL};
	struct compare_params p = {.atol = 1e-5,
				   .rtol = 1e-5,
				   .roundoff = verdict_roundoff(F32, reach_judged),
				   .floor = verdict_floor(F32, reach_judged, 1)};
	struct compare_stats s;
	assert_int_equal(compare_tensors(&x, &y, &p, &s, NULL), 0);
	return s;
}

static enum verdict judge(bool exact, double reach, bool has_cpu)
{
	reach_judged = reach;
	struct compare_stats s = against(result, F32, reference, F64);
	struct compare_stats c = against(cpu, F32, reference, F64),
			     between = against(result, F32, cpu, F32);
	struct verdict_input in = {.stats = &s,
				   .cpu = has_cpu ? &c : NULL,
				   .against_cpu = has_cpu ? &between : NULL,
				   .dtype = F32,
				   .exact = exact,
				   .reach = reach};
	double score;
	enum verdict v = verdict_judge(&in, why, sizeof(why), &score);
	reach_judged = 1;
	assert_int_equal(v == VERDICT_WRONG, score > 1);
	assert_int_equal(v == VERDICT_WRONG, why[0] != '\0');
	return v;
}

static void rounding_is_right_and_faults_are_wrong(void **state)
{
	(void)state;
	set_up();
	assert_int_equal(judge(false, 1, true), VERDICT_RIGHT);
	for (int i = 0; i < N; i++)
		for (int k = 0; k < 3; k++)
			result[i] = nextafterf(result[i], i % 2 ? 10.0F : -10.0F);
	assert_int_equal(judge(false, 1, true), VERDICT_WRONG);
	assert_non_null(strstr(why, "on average"));
	assert_int_equal(judge(false, 100, true), VERDICT_RIGHT);
	set_up();
	result[77] *= 1.00001F;
	assert_int_equal(judge(false, 1, true), VERDICT_WRONG);
	assert_non_null(strstr(why, "at the worst element, the CPU has"));
	assert_int_equal(judge(false, 1, false), VERDICT_WRONG);
	assert_null(strstr(why, "CPU"));
}

static void a_bias_is_found_below_the_worst_error_allowed(void **state)
{
	(void)state;
	set_up();
	for (int i = 0; i < N; i++)
		result[i] = (float)(reference[i] * (1 + 5 * 0x1p-24));
	assert_int_equal(judge(false, 50, true), VERDICT_WRONG);
	assert_non_null(strstr(why, "biased: all too large by about 5 roundoffs"));
	for (int i = 0; i < N; i++)
		result[i] = (float)(reference[i] + 0x1p-20);
	assert_int_equal(judge(false, 1000, true), VERDICT_WRONG);
	assert_non_null(strstr(why, "biased: too large"));
}

/* ROWS rows, each scaled by about as much: a scale of all; each by its own: none, however large. */
static void rows_that_each_have_an_error_are_no_scale(void **state)
{
	enum { ROWS = 8 };
	static const int64_t shape[] = {ROWS, N / ROWS};
	static const double own[ROWS] = {30, -11, 24, 9, 17, -6, 28, 3};
	(void)state;
	for (int alike = 0; alike < 2; alike++) {
		set_up();
		for (int i = 0; i < N; i++) {
			double by = own[i / (N / ROWS)];
			result[i] =
			    (float)(reference[i] * (1 + (alike ? 12 + by / 30 : by) * 0x1p-24));
		}
		struct compare_tensor x = {result, F32, 2, shape, NULL},
				      y = {reference, F64, 2, shape, NULL};
		struct compare_params p = {.roundoff = verdict_roundoff(F32, 1000)};
		struct compare_stats s;
		assert_int_equal(compare_tensors(&x, &y, &p, &s, NULL), 0);
		struct verdict_input in = {.stats = &s, .dtype = F32, .reach = 1000};
		double score;
		assert_int_equal(verdict_judge(&in, why, sizeof(why), &score), VERDICT_WRONG);
		assert_non_null(strstr(why, "biased: all"));
		in.result = &x;
		in.reference = &y;
		in.params = &p;
		assert_int_equal(verdict_judge(&in, why, sizeof(why), &score),
				 alike ? VERDICT_WRONG : VERDICT_RIGHT);
	}
}

static void equal_elements_err_together(void **state)
{
	static const int64_t shape[] = {N};
	struct compare_spread spread;
	(void)state;
	set_up();
	for (int i = 0; i < N; i++) {
		reference[i] = 1 + i % 20;
		result[i] = (float)(reference[i] * (1 + 0x1p-22));
	}
	for (int distinct = 20; distinct > 0; distinct -= 19) {
		for (int i = 0; distinct == 1 && i < N; i++)
			result[i] = (float)(reference[i] = 3);
		struct compare_tensor x = {result, F32, 1, shape, NULL},
				      y = {reference, F64, 1, shape, NULL};
		struct compare_stats s = against(result, F32, reference, F64);
		assert_int_equal(compare_spread(&x, &y, &(struct compare_params){0}, &s, &spread),
				 0);
		assert_int_equal(isinf(spread.scale), distinct == 1);
	}
}

static void a_cpu_as_bad_excuses(void **state)
{
	(void)state;
	set_up();
	for (int i = 0; i < N; i++) {
		cpu[i] = (float)(reference[i] * (1 + (i % 2 ? 1e-4 : -1e-4)));
		result[i] = (float)(reference[i] * (1 + (i % 3 ? 1e-4 : -1e-4)));
	}
	assert_int_equal(judge(false, 1, false), VERDICT_WRONG);
	result[5] = NAN;
	assert_int_equal(judge(false, 1, true), VERDICT_WRONG);
	memcpy(result, cpu, sizeof(result));
	assert_int_equal(judge(false, 1, true), VERDICT_RIGHT);
}

static void exact_results_are_compared_bit_by_bit(void **state)
{
	(void)state;
	set_up();
	for (int i = 0; i < N; i++)
		reference[i] = (double)result[i];
	assert_int_equal(judge(true, 1, false), VERDICT_RIGHT);
	result[9] = nextafterf(result[9], 10.0F);
	assert_int_equal(judge(true, 1, false), VERDICT_WRONG);
	assert_int_equal(judge(false, 1, false), VERDICT_RIGHT);
}

static void nan_is_never_right(void **state)
{
	(void)state;
	double score;
	set_up();
	result[3] = NAN;
	assert_int_equal(judge(false, 1, true), VERDICT_WRONG);
	struct compare_stats s = against(result, F32, reference, F64);
	assert_int_equal(verdict_allclose(&s, 1, 1, why, sizeof(why), &score), VERDICT_WRONG);
	reference[3] = NAN;
	assert_int_equal(judge(false, 1, false), VERDICT_RIGHT);
}

static void unset_all(void)
{
	unsetenv("AUTOCOMPARE_ERROR_TOLERANCE");
	unsetenv("AUTOCOMPARE_ERROR_TOLERANCE_FLOAT32");
	unsetenv("ADD_AUTOCOMPARE_ERROR_TOLERANCE_FLOAT32");
}

static void tolerance_is(const char *op, int dtype, double atol, double rtol, bool from_env)
{
	struct tolerance t;
	struct err e = {0};
	assert_int_equal(tolerance_of(op, dtype, &t, &e), 0);
	assert_true(t.atol == atol && t.rtol == rtol);
	assert_int_equal(t.from_env, from_env);
}

static void tolerances_are_those_of_ditorch(void **state)
{
	(void)state;
	unset_all();
	tolerance_is("torch.add", F16, 1e-4, 1e-4, false);
	tolerance_is("torch.add", BF16, 1e-3, 1e-3, false);
	tolerance_is("torch.add", F32, 1e-5, 1e-5, false);
	tolerance_is("torch.add", F64, 1e-8, 1e-8, false);
	tolerance_is("torch.add", I64, 1e-3, 1e-3, false);
	assert_false(tolerance_in_env());
	setenv("AUTOCOMPARE_ERROR_TOLERANCE", "2,3", 1);
	tolerance_is("torch.add", F32, 2, 3, true);
	tolerance_is("torch.add", I64, 2, 3, true);
	setenv("AUTOCOMPARE_ERROR_TOLERANCE_FLOAT32", "5e-5, 6e-5", 1);
	tolerance_is("torch.add", F32, 5e-5, 6e-5, true);
	tolerance_is("torch.add", F16, 2, 3, true);
	setenv("ADD_AUTOCOMPARE_ERROR_TOLERANCE_FLOAT32", "30,40", 1);
	tolerance_is("torch.Tensor.add", F32, 30, 40, true);
	tolerance_is("aten::add.Tensor", F32, 30, 40, true);
	tolerance_is("torch.ops.aten.add.Tensor", F32, 30, 40, true);
	tolerance_is("torch.ops.aten.sub.Tensor", F32, 5e-5, 6e-5, true);
	tolerance_is("torch.Tensor.add_", F32, 5e-5, 6e-5, true);
	assert_true(tolerance_in_env());
	unset_all();
}

static void tolerances_that_are_none_are_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {"", "1", "1,", "1,2,3", "a,b", "-1,2", "1,2x"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tolerance t;
		struct err e = {0};
		setenv("AUTOCOMPARE_ERROR_TOLERANCE", bad[i], 1);
		assert_int_equal(tolerance_of("torch.add", F32, &t, &e), -EINVAL);
		assert_non_null(strstr(e.what, "AUTOCOMPARE_ERROR_TOLERANCE="));
	}
	unset_all();
}

/* If verdict_is_sure without an allowance, the verdict is right with any allowance, even against an
 * exact CPU. */
static void what_is_sure_is_right_with_every_allowance(void **state)
{
	static const int64_t shape[] = {N};
	static double allowance[N];
	unsigned sure = 0, judged = 0;
	(void)state;
	set_up();
	for (int round = 0; round < 600; round++) {
		double size = round % 30 * (round % 3 ? 0.2 : 2), bias = round % 7 * 0.2 - 0.6;
		for (int i = 0; i < N; i++) {
			double e = size * ((double)(i * 7919 % N) / N * 2 - 1) + bias;
			result[i] = (float)(reference[i] * (1 + e * 0x1p-24));
			allowance[i] = i * (round + 1) % 5 ? 0 : fabs(reference[i]) * 0x1p-23;
		}
		struct compare_tensor x = {result, F32, 1, shape, NULL},
				      y = {reference, F64, 1, shape, NULL};
		double reach = reach_judged = round % 3 ? 1 : 64;
		struct compare_params p = {.allowance = allowance,
					   .roundoff = verdict_roundoff(F32, reach),
					   .floor = verdict_floor(F32, reach, 1)};
		struct compare_stats bare = against(result, F32, reference, F64), s;
		assert_int_equal(compare_tensors(&x, &y, &p, &s, NULL), 0);
		struct verdict_input in = {.stats = &s, .dtype = F32, .reach = reach};
		double score;
		judged++;
		if (!verdict_is_sure(&bare, F32, false, in.reach))
			continue;
		sure++;
		assert_int_equal(verdict_judge(&in, why, sizeof(why), &score), VERDICT_RIGHT);
	}
	assert_in_range(sure, judged / 20, judged - judged / 20);
}

static void what_differs_in_kind_is_never_sure(void **state)
{
	(void)state;
	set_up();
	result[1] = NAN;
	struct compare_stats s = against(result, F32, reference, F64);
	assert_false(verdict_is_sure(&s, F32, false, 1));
	result[1] = cpu[1];
	s = against(result, F32, reference, F64);
	assert_true(verdict_is_sure(&s, F32, false, 1));
	assert_false(verdict_is_sure(&s, F32, true, 1e6));
	s = against(result, F32, cpu, F32);
	assert_true(verdict_is_sure(&s, F32, true, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rounding_is_right_and_faults_are_wrong),
	    cmocka_unit_test(a_bias_is_found_below_the_worst_error_allowed),
	    cmocka_unit_test(rows_that_each_have_an_error_are_no_scale),
	    cmocka_unit_test(equal_elements_err_together),
	    cmocka_unit_test(a_cpu_as_bad_excuses),
	    cmocka_unit_test(what_is_sure_is_right_with_every_allowance),
	    cmocka_unit_test(what_differs_in_kind_is_never_sure),
	    cmocka_unit_test(exact_results_are_compared_bit_by_bit),
	    cmocka_unit_test(nan_is_never_right),
	    cmocka_unit_test(tolerances_are_those_of_ditorch),
	    cmocka_unit_test(tolerances_that_are_none_are_refused),
	};
	return unit_run(tests, NULL, NULL);
}
