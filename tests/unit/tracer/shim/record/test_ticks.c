/* The clock of the shim. */

#include "tests/unit/unit.h"

#include "tracer/shim/record/ticks.c"
#include "tracer/shim/saved_call_x86_64.c"

enum { CALLS = 300000, OFF_NS = 2000 };

static void assert_near(struct ticks *t)
{
	uint64_t before = clock_ns(CLOCK_MONOTONIC);
	uint64_t ns = ticks_now(t);
	assert_in_range(ns, before - OFF_NS, clock_ns(CLOCK_MONOTONIC) + OFF_NS);
}

/* It agrees with the system clock and never goes back. */
static void test_clock(void **state)
{
	struct ticks t = {0};
	uint64_t last = 0, by_counter = 0;
	(void)state;
	ticks_prepare();
	for (unsigned i = 0; i < CALLS; i++) {
		assert_near(&t);
		assert_true(t.last >= last);
		last = t.last;
		by_counter += t.good != 0;
	}
	assert_int_equal(by_counter > 0, usable);
}

/* If the kernel does not use the counter, neither does this. */
static void test_other_clock(void **state)
{
	struct ticks t = {0};
	(void)state;
	usable = false;
	for (unsigned i = 0; i < CALLS / 10; i++)
		assert_near(&t);
	assert_int_equal(t.good, 0);
}

/* A counter that was set, or that ran while the clock was stopped, is not used. */
static void test_jumps(void **state)
{
	const uint64_t ms = 1000 * 1000, second = 1000 * ms;
	struct ticks t = {0};
	uint64_t at = 5 * second, ns = 7 * second;
	(void)state;
	learn_rate(&t, at, ns);
	assert_int_equal(t.good, 0);
	learn_rate(&t, at += 3 * ms, ns += ms);
	assert_int_equal(t.good, 0);
	learn_rate(&t, at += 3 * ms, ns += ms);
	assert_in_range(t.good, 3 * ms - 1000, 3 * ms + 1000);
	learn_rate(&t, at += 30 * second, ns += ms);
	assert_int_equal(t.good, 0);
	learn_rate(&t, at += 3 * ms, ns += ms);
	assert_int_equal(t.good, 0);
	learn_rate(&t, at += 3 * ms, ns += ms);
	assert_true(t.good > 0);
	learn_rate(&t, at -= 4 * second, ns += ms);
	assert_int_equal(t.good, 0);
	learn_rate(&t, at += 30 * second, ns += 10 * second);
	assert_int_equal(t.good, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_clock),
	    cmocka_unit_test(test_other_clock),
	    cmocka_unit_test(test_jumps),
	};

	return unit_run(tests, NULL, NULL);
}
