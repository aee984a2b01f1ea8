/* How much a clock differs, from the starts and ends of collectives on two hosts. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>

#include "perf/collectives/internal.h"

enum { MS = 1000000, US = 1000, N = 400 };

/* More than a double has of ns: an uptime of years. */
static const int64_t offset = 123456789012345678;

struct run {
	double drift;	  /* of the other clock, which runs slower by it */
	uint64_t late_ns; /* of the other host, each time */
	bool in_turns;	  /* or of the first one */
	uint64_t step_ns;
};

static struct clock_bound bounds[N];

static int64_t noise(int64_t most)
{
	return rand() % most;
}

/* What both hosts see, each by its own clock, of collectives that take 100 to 200 us once the last
 * rank is there. */
static void run(struct run r)
{
	srand(1);
	for (int64_t i = 0; i < N; i++) {
		int64_t at = 1000 * MS + i * (int64_t)r.step_ns;
		bool first_is_late = r.in_turns && i % 2;
		int64_t late = (int64_t)r.late_ns + noise(20 * US), early = noise(20 * US);
		int64_t a = at + (first_is_late ? late : early),
			b = at + (first_is_late ? early : late), last = a > b ? a : b;
		int64_t a_end = last + 100 * US + noise(100 * US),
			b_end = last + 100 * US + noise(100 * US);
		int64_t skipped = (int64_t)(r.drift * (double)at);
		b -= offset + skipped;
		b_end -= offset + skipped;
		bounds[i] = (struct clock_bound){.at_ns = (uint64_t)b,
						 .low = a - b_end,
						 .high = a_end - b,
						 .ends = a_end - b_end};
	}
}

/* By how much a time of the other clock is put wrong by the fit. */
static int64_t error_at(const struct clock_fit *f, double drift, int64_t at)
{
	uint64_t other = (uint64_t)(at - offset - (int64_t)(drift * (double)at));
	int64_t since = (int64_t)(other - f->at_ns);
	return (int64_t)other + f->shift_ns + (int64_t)(f->drift * (double)since) - at;
}

static void is_right(const struct clock_fit *f, struct run r)
{
	int64_t first = 1000 * MS, last = first + (N - 1) * (int64_t)r.step_ns;
	for (int64_t at = first; at <= last; at += (last - first) / 8) {
		int64_t error = llabs(error_at(f, r.drift, at));
		if ((uint64_t)error > f->known_ns + 1 || error > 60 * US)
			fail_msg("off by %lld ns, known to %llu", (long long)error,
				 (unsigned long long)f->known_ns);
	}
}

static struct clock_fit fitted(struct run r)
{
	struct clock_fit f;
	run(r);
	assert_int_equal(clock_fit(bounds, N, &f), 0);
	is_right(&f, r);
	return f;
}

static void a_constant_offset_is_found(void **state)
{
	(void)state;
	struct clock_fit f = fitted((struct run){.step_ns = 50 * MS});
	assert_true(f.drift == 0 && !f.against);
	assert_true(f.known_ns < 200 * US);
	f = fitted((struct run){.step_ns = 50 * MS, .late_ns = 30 * MS, .in_turns = true});
	assert_true(f.drift == 0 && !f.against);
	assert_true(f.known_ns < 300 * US);
}

/* Nothing says that it does not come earlier, but the ends do not spread so. */
static void a_host_that_is_always_late(void **state)
{
	(void)state;
	struct clock_fit f = fitted((struct run){.step_ns = 50 * MS, .late_ns = 30 * MS});
	assert_true(f.known_ns > 29 * MS && f.known_ns < 31 * MS);
	assert_true(f.spread_ns < 100 * US);
}

static void a_drift_is_found(void **state)
{
	(void)state;
	for (int sign = -1; sign <= 1; sign += 2) {
		struct clock_fit f =
		    fitted((struct run){.drift = sign * 40e-6, .step_ns = 500 * MS});
		assert_true(f.drift * sign > 39e-6 && f.drift * sign < 41e-6);
		assert_true(!f.against && f.known_ns < 300 * US);
		/* here only the ends tell it */
		f = fitted(
		    (struct run){.drift = sign * 40e-6, .step_ns = 500 * MS, .late_ns = 30 * MS});
		assert_true(f.drift * sign > 39e-6 && f.drift * sign < 41e-6);
	}
}

static void few_that_contradict_are_left_out(void **state)
{
	struct run r = {.step_ns = 50 * MS};
	struct clock_fit f;
	(void)state;
	run(r);
	for (int i = 3; i < N; i += 10) {
		bounds[i].low += 70 * MS;
		bounds[i].high += 70 * MS;
		bounds[i].ends += 70 * MS;
	}
	assert_int_equal(clock_fit(bounds, N, &f), 0);
	assert_int_equal(f.against, 40);
	is_right(&f, r);
	for (int i = 0; i < N; i++)
		if (i % 10 > 3) {
			bounds[i].low += (int64_t)i * 100 * MS;
			bounds[i].high += (int64_t)i * 100 * MS;
			bounds[i].ends += (int64_t)i * 100 * MS;
		}
	assert_int_equal(clock_fit(bounds, N, &f), -ERANGE);
}

static void of_few_bounds(void **state)
{
	struct clock_fit f;
	(void)state;
	assert_int_equal(clock_fit(bounds, 0, &f), -ENODATA);
	bounds[0] = (struct clock_bound){.at_ns = 5, .low = -300, .high = 100, .ends = 400};
	assert_int_equal(clock_fit(bounds, 1, &f), 0);
	assert_int_equal(f.shift_ns, 100);
	assert_int_equal(f.known_ns, 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_constant_offset_is_found),
	    cmocka_unit_test(a_host_that_is_always_late),
	    cmocka_unit_test(a_drift_is_found),
	    cmocka_unit_test(few_that_contradict_are_left_out),
	    cmocka_unit_test(of_few_bounds),
	};
	return unit_run(tests, NULL, NULL);
}
