#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tracer/budget.h"

enum { US = 1000, MS = 1000 * US, LINES = 100 };

static struct budget b;
static uint64_t now, spent, calls, taken[LINES];
static const char f, code;

static void begin(double share)
{
	budget_begin(&b, share);
	memset(taken, 0, sizeof(taken));
	now = MS;
	spent = calls = 0;
}

/* A call that takes 20 us by itself, and `cost` more when it is taken. */
static void call(int line, uint64_t cost)
{
	calls++;
	if (budget_decide(&b, &f, &code, line, now)) {
		taken[line]++;
		budget_spend(&b, cost);
		spent += cost;
		now += cost;
	}
	now += 20 * US;
}

static void steps(int n, int from, int to, uint64_t cost)
{
	for (int i = 0; i < n; i++)
		for (int k = from; k < to; k++)
			call(k, cost);
}

static void the_first_of_each_is_always_taken(void **state)
{
	(void)state;
	begin(0.0001);
	steps(50, 0, LINES, 5 * MS);
	for (int k = 0; k < LINES; k++)
		assert_int_equal(taken[k], 1);
	assert_true(budget_decide(&b, &code, &code, 0, now)); /* another function */
	assert_true(budget_decide(&b, &f, &f, 0, now));	      /* of another file */
	assert_false(budget_decide(&b, &f, &f, 0, now));
}

static void the_share_is_kept_and_all_have_their_turn(void **state)
{
	(void)state;
	begin(0.1);
	steps(20000, 0, LINES, 2 * MS);
	double share = (double)spent / (double)(now - MS);
	assert_true(share > 0.09 && share < 0.11);
	uint64_t least = UINT64_MAX, most = 0;
	for (int k = 0; k < LINES; k++) {
		least = taken[k] < least ? taken[k] : least;
		most = taken[k] > most ? taken[k] : most;
	}
	assert_true(least > 10);
	assert_true(most - least <= least / 4);
}

/* One line has a thousand calls for each of the others. */
static void frequent_calls_do_not_keep_others_out(void **state)
{
	(void)state;
	begin(0.1);
	for (int i = 0; i < 2000; i++) {
		for (int k = 0; k < 1000; k++)
			call(0, 2 * MS);
		steps(1, 1, 11, 2 * MS);
	}
	for (int k = 1; k < 11; k++)
		assert_true(taken[k] > 40);
	assert_true(taken[0] > 40);
}

static void calls_that_never_come_again_hold_nobody_up(void **state)
{
	(void)state;
	begin(0.1);
	steps(1, 0, LINES, 2 * MS);
	steps(200000, 0, 5, 2 * MS);
	double share = (double)spent / (double)(now - MS);
	assert_true(share > 0.08);
	for (int k = 0; k < 5; k++)
		assert_true(taken[k] > 100);
}

static void after_a_pause_there_is_little_more(void **state)
{
	(void)state;
	begin(0.1);
	steps(100, 0, 5, MS);
	uint64_t before = spent;
	now += UINT64_C(1000) * 1000 * MS;
	steps(1, 0, 5, MS);
	steps(1, 0, 5, MS);
	assert_true(spent - before <= 10 * MS);
	uint64_t n = spent;
	for (int i = 0; i < 1000; i++)
		steps(1, 0, 5, MS);
	assert_true(spent - n < 150 * MS);
}

static void without_a_budget_all_are_taken(void **state)
{
	(void)state;
	begin(0);
	steps(10, 0, LINES, MS);
	begin(1);
	steps(10, 0, LINES, MS);
	for (int k = 0; k < LINES; k++)
		assert_int_equal(taken[k], 10);
}

static void more_lines_than_slots(void **state)
{
	(void)state;
	budget_begin(&b, 0.001);
	now = MS;
	budget_spend(&b, MS);
	int n = 0;
	for (long line = 0; line < 3 * BUDGET_CALLS; line++)
		n += budget_decide(&b, &f, &code, line, now);
	assert_int_equal(n, BUDGET_CALLS / 2 + 1);
	assert_false(budget_decide(&b, &f, &code, 7, now));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_first_of_each_is_always_taken),
	    cmocka_unit_test(the_share_is_kept_and_all_have_their_turn),
	    cmocka_unit_test(frequent_calls_do_not_keep_others_out),
	    cmocka_unit_test(calls_that_never_come_again_hold_nobody_up),
	    cmocka_unit_test(after_a_pause_there_is_little_more),
	    cmocka_unit_test(without_a_budget_all_are_taken),
	    cmocka_unit_test(more_lines_than_slots),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
