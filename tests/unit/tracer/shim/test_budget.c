

#include "tests/unit/unit.h"

#include "tracer/shim/budget.c"

enum { US = 1000, MS = 1000 * US, LINES = 100 };

static struct budget b;
static uint64_t now, spent, calls, taken[LINES];
static const char f;

static void begin(double share)
{
	budget_begin(&b, share);
	memset(taken, 0, sizeof(taken));
	now = MS;
	spent = calls = 0;
}

static void spend(uint64_t number, bool backward, uint64_t ns)
{
	budget_spend(&b, number, backward, ns);
	spent += ns;
	now += ns;
}

/* What is left of the budget so far. */
static double unspent(void)
{
	return b.share * (double)(now - MS) - (double)spent;
}

/* A call of 20 us, which takes `cost` more if it is selected. */
static void call(int line, uint64_t cost)
{
	calls++;
	uint64_t n = budget_decide(&b, &f, (uint64_t)line, now);
	if (n) {
		taken[line]++;
		spend(n, false, cost);
	}
	now += 20 * US;
}

static void steps(int n, int from, int to, uint64_t cost)
{
	for (int i = 0; i < n; i++)
		for (int k = from; k < to; k++)
			call(k, cost);
}

/* At any time, from the start. */
static void no_call_begins_that_exceeds_the_share(void **state)
{
	(void)state;
	begin(0.1);
	for (int i = 0; i < 100000; i++) {
		double before = unspent();
		uint64_t was = taken[i % 10];
		call(i % 10, (i % 10 + 1) * 400 * US);
		if (taken[i % 10] > was && was)
			assert_true(before >= (i % 10 + 1) * 400 * US);
		/* The first call of a line, of unknown cost, needs this reserve. */
		if (taken[i % 10] > was && !was)
			assert_true(before >= 10 * MS);
	}
	for (int k = 0; k < 10; k++)
		assert_true(taken[k] > 1);
}

/* Each call has a backward of ten times its cost, twenty calls later; for every third it never
 * comes. */
static void backwards_are_counted_before_they_come(void **state)
{
	enum { LATER = 20, COST = 100 * US };
	uint64_t coming[LATER] = {0}, last = 0;
	double exceeded = 0;
	(void)state;
	begin(0.1);
	for (int i = 0; i < 200000; i++) {
		uint64_t *n = &coming[i % LATER];
		if (*n && *n % 3) {
			spend(*n, true, 10 * COST);
			budget_came(&b, *n, true);
		} else if (*n) {
			budget_came(&b, *n, false);
		}
		*n = budget_decide(&b, &f, (uint64_t)(i % 7), now);
		if (*n) {
			spend(*n, false, COST);
			budget_await(&b, *n);
			last = *n;
		}
		now += 20 * US;
		if (i > 20000 && unspent() < exceeded)
			exceeded = unspent();
	}
	assert_true(last);
	assert_true(exceeded >= -10.0 * COST);
	assert_true(spent > 0.08 * (double)(now - MS));
}

static void new_calls_come_first(void **state)
{
	(void)state;
	begin(0.1);
	steps(2000, 0, 10, MS);
	uint64_t before[10];
	memcpy(before, taken, sizeof(before));
	assert_int_equal(budget_decide(&b, &f, 50, now), 0); /* nothing is left of the budget */
	while (unspent() < 11 * MS)
		now += US;
	call(0, MS);
	assert_int_equal(taken[0], before[0]);
	call(50, MS);
	assert_int_equal(taken[50], 1);
}

static void the_first_waits_for_what_it_may_take(void **state)
{
	(void)state;
	begin(0.1);
	call(0, MS);
	assert_int_equal(taken[0], 0);
	now += 100 * MS;
	call(0, 100 * MS);
	assert_int_equal(taken[0], 1);
	now += 800 * MS; /* the overrun is made up for */
	call(0, MS);
	assert_int_equal(taken[0], 1);
}

/* A call that costs more than the budget of a second. */
static void dear_calls_are_taken_as_well(void **state)
{
	(void)state;
	begin(0.1);
	for (int i = 0; i < 100000; i++) {
		call(0, 1000 * MS);
		now += MS;
	}
	assert_true(taken[0] >= 9);
	assert_true(unspent() >= 0);
}

static void numbers_of_another_share_are_of_no_call(void **state)
{
	(void)state;
	begin(0.5);
	now += 100 * MS;
	budget_decide(&b, &f, 1, MS);
	uint64_t n = budget_decide(&b, &f, 1, now);
	assert_true(n);
	budget_begin(&b, 0.1);
	budget_await(&b, n);
	budget_came(&b, n, true);
	budget_spend(&b, n, true, MS);
	assert_true(b.reserved == 0);
	assert_int_equal(b.ncalls, 0);
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

/* One line has a thousand calls for each call of the others. */
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
	begin(0.5);
	int n = 0;
	for (long line = 0; line < 3 * BUDGET_CALLS; line++) {
		now += 25 * MS;
		n += budget_decide(&b, &f, (uint64_t)line, now) != 0;
	}
	assert_true(n > BUDGET_CALLS / 2);
	assert_int_equal(b.ncalls, BUDGET_CALLS / 2 + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_call_begins_that_exceeds_the_share),
	    cmocka_unit_test(backwards_are_counted_before_they_come),
	    cmocka_unit_test(new_calls_come_first),
	    cmocka_unit_test(the_first_waits_for_what_it_may_take),
	    cmocka_unit_test(dear_calls_are_taken_as_well),
	    cmocka_unit_test(numbers_of_another_share_are_of_no_call),
	    cmocka_unit_test(the_share_is_kept_and_all_have_their_turn),
	    cmocka_unit_test(frequent_calls_do_not_keep_others_out),
	    cmocka_unit_test(calls_that_never_come_again_hold_nobody_up),
	    cmocka_unit_test(after_a_pause_there_is_little_more),
	    cmocka_unit_test(without_a_budget_all_are_taken),
	    cmocka_unit_test(more_lines_than_slots),
	};
	return unit_run(tests, NULL, NULL);
}
