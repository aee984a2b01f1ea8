/* What recording costs, from turns in which ops are recorded and left out. */
#include "tests/unit/unit.h"

#include "tracer/session/internal.h"

enum { N = 24, OPS = 10000 };

static struct turn_spent spent[TURNS_MAX];

/* ns an op where it is left out, and in parts of that what recording takes; `drift`: by how much a
 * turn is slower than the one before. */
static void fill(unsigned n, double ns, double more, double drift)
{
	for (unsigned i = 0; i < n; i++) {
		double each = ns * (1 + drift * i) * (turn_rests(i + 1) ? 1 : 1 + more);
		spent[i] = (struct turn_spent){(uint64_t)(each * OPS), OPS, 0, OPS};
	}
}

static void each_two_turns_have_one_of_rest(void **state)
{
	unsigned first = 0;
	(void)state;
	for (unsigned i = 1; i < TURNS_MAX; i += 2) {
		assert_true(turn_rests(i) != turn_rests(i + 1));
		first += turn_rests(i);
	}
	assert_int_equal(first, TURNS_MAX / 4);
	assert_true(turn_rests(TURNS_LAST));
	assert_false(turn_rests(0));
}

static void what_is_the_same_in_all_pairs_is_found(void **state)
{
	(void)state;
	fill(N, 5000, 0.031, 0);
	const struct turns_found f = turns_compare(spent, N);
	assert_int_equal(f.turns, N);
	assert_float_equal(f.slowdown, 0.031, 1e-6);
	assert_float_equal(f.error, 0, 1e-6);
	/* faster, too */
	fill(N, 5000, -0.01, 0);
	assert_float_equal(turns_compare(spent, N).slowdown, -0.01, 1e-6);
}

static void a_program_that_becomes_slower_is_no_slowdown(void **state)
{
	(void)state;
	fill(N, 5000, 0.1, 0.02);
	const struct turns_found f = turns_compare(spent, N);
	assert_float_equal(f.slowdown, 0.1, 0.005);
	assert_true(f.error > 0.005 && f.error < 0.04);
}

static void one_turn_that_was_disturbed_does_not_count(void **state)
{
	(void)state;
	fill(N, 5000, 0.1, 0);
	spent[4].cpu_ns *= 100;
	const struct turns_found f = turns_compare(spent, N);
	assert_float_equal(f.slowdown, 0.1, 1e-6);
	assert_float_equal(f.error, 0, 1e-6);
}

/* The jumps that lead nowhere are no part of what the program takes untraced. */
static void what_lies_idle_counts_as_recording(void **state)
{
	(void)state;
	fill(N, 5000, 0.1, 0);
	for (unsigned i = 0; i < N; i++)
		if (turn_rests(i + 1)) {
			spent[i].cpu_ns += 30 * OPS;
			spent[i].idle_ns = 30 * OPS;
		}
	assert_float_equal(turns_compare(spent, N).slowdown, 0.1, 1e-6);
}

static void pairs_without_ops_do_not_count(void **state)
{
	(void)state;
	fill(N, 5000, 0.1, 0);
	spent[3].ops = 99;
	spent[9] = (struct turn_spent){0};
	assert_int_equal(turns_compare(spent, N).turns, N - 4);
	fill(N, 5000, 0.1, 0);
	assert_int_equal(turns_compare(spent, 2 * PAIRS_LEAST).turns, 2 * PAIRS_LEAST);
	assert_int_equal(turns_compare(spent, 2 * PAIRS_LEAST - 2).turns, 0);
	assert_int_equal(turns_compare(spent, 0).turns, 0);
}

static double noise(void)
{
	return (double)rand() / RAND_MAX - 0.5;
}

/* What is said to be off by so much is that, 95 times of 100. */
static void the_error_is_as_large_as_it_says(void **state)
{
	enum { TRIES = 2000 };
	unsigned within = 0;
	double widest = 0;
	(void)state;
	srand(7);
	for (unsigned t = 0; t < TRIES; t++) {
		fill(N, 5000, 0.1, 0);
		for (unsigned i = 0; i < N; i++)
			spent[i].cpu_ns =
			    (uint64_t)((double)spent[i].cpu_ns * (1 + 0.1 * noise() * noise() * 4));
		const struct turns_found f = turns_compare(spent, N);
		const double off = f.slowdown > 0.1 ? f.slowdown - 0.1 : 0.1 - f.slowdown;
		within += off <= f.error;
		widest = f.error > widest ? f.error : widest;
	}
	assert_in_range(within, TRIES * 90 / 100, TRIES - 1);
	assert_true(widest < 0.1);
}

/* ns of an op untraced, of an entry and an exit beside their programs: what is found is exact. */
static void exits_that_stay_are_left_out(void **state)
{
	const struct turn_programs p = {.entry = 600, .exit = 300, .rest = 100};
	const double op = 2500, trap = 2900, more = 2 * trap + p.entry + p.exit;
	(void)state;
	for (unsigned i = 0; i < N; i++) {
		const double each = op + (turn_rests(i + 1) ? trap + p.rest : more);
		spent[i] = (struct turn_spent){(uint64_t)(each * OPS), OPS, 0, OPS};
	}
	turns_leave_out_exits(spent, N, &p);
	const struct turns_found f = turns_compare(spent, N);
	assert_int_equal(f.turns, N);
	assert_float_equal(f.slowdown, more / op, 1e-6);
	/* a turn without ops is no fault */
	spent[2].ops = 0;
	turns_leave_out_exits(spent, N, &p);
	assert_int_equal(turns_compare(spent, N).turns, N - 2);
	/* nor is an entry that seems to cost nothing */
	fill(N, 5000, -0.1, 0);
	turns_leave_out_exits(spent, N, &p);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(spent[i].idle_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_two_turns_have_one_of_rest),
	    cmocka_unit_test(what_is_the_same_in_all_pairs_is_found),
	    cmocka_unit_test(a_program_that_becomes_slower_is_no_slowdown),
	    cmocka_unit_test(exits_that_stay_are_left_out),
	    cmocka_unit_test(one_turn_that_was_disturbed_does_not_count),
	    cmocka_unit_test(what_lies_idle_counts_as_recording),
	    cmocka_unit_test(pairs_without_ops_do_not_count),
	    cmocka_unit_test(the_error_is_as_large_as_it_says),
	};
	return unit_run(tests, NULL, NULL);
}
