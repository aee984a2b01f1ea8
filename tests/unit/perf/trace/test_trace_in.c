
#include "tests/unit/unit.h"

#include "perf/trace/internal.h"

enum { NUMBERS = 64 * 3 + 1 };

/* Write numbers around each power of two, to cover each length, followed by `behind` bytes. */
static struct in written(uint8_t *buf, size_t size, size_t behind, uint64_t *numbers)
{
	struct out o = {.p = buf, .end = buf + size};
	size_t n = 0;
	numbers[n++] = 0;
	for (int bit = 0; bit < 64; bit++)
		for (int off = -1; off <= 1; off++)
			numbers[n++] = ((uint64_t)1 << bit) + (uint64_t)off;
	assert_int_equal(n, NUMBERS);
	for (size_t i = 0; i < n; i++)
		out_u(&o, numbers[i]);
	assert_false(o.full);
	return (struct in){.p = buf, .end = o.p + behind};
}

static void numbers_come_back(void **state)
{
	(void)state;
	uint8_t buf[NUMBERS * 10 + 16] = {0};
	uint64_t numbers[NUMBERS];
	struct in in = written(buf, sizeof(buf), 0, numbers);
	for (size_t i = 0; i < NUMBERS; i++)
		assert_int_equal(in_u(&in), numbers[i]);
	assert_false(in.bad);
	assert_ptr_equal(in.p, in.end);
	in_u(&in);
	assert_true(in.bad);
}

static void passing_ends_where_reading_does(void **state)
{
	(void)state;
	uint8_t buf[NUMBERS * 10 + 16] = {0};
	uint64_t numbers[NUMBERS];
	for (size_t behind = 0; behind < 10; behind++)
		for (unsigned n = 0; n <= NUMBERS; n++) {
			struct in in = written(buf, sizeof(buf), behind, numbers), other = in;
			for (unsigned i = 0; i < n; i++)
				in_u(&in);
			in_pass(&other, n);
			assert_false(in.bad || other.bad);
			assert_ptr_equal(in.p, other.p);
		}
}

static void too_long_and_cut_numbers_are_bad(void **state)
{
	(void)state;
	for (size_t len = 1; len < 30; len++) {
		uint8_t bytes[32];
		memset(bytes, 0x80, len);
		bytes[len - 1] = 1;
		struct in whole = {.p = bytes, .end = bytes + len}, passed = whole;
		struct in cut = {.p = bytes, .end = bytes + len - 1}, cut_passed = cut;
		in_u(&whole);
		in_pass(&passed, 1);
		assert_int_equal(whole.bad, len > 10);
		assert_int_equal(passed.bad, len > 10);
		in_u(&cut);
		in_pass(&cut_passed, 1);
		assert_true(cut.bad && cut_passed.bad);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers_come_back),
	    cmocka_unit_test(passing_ends_where_reading_does),
	    cmocka_unit_test(too_long_and_cut_numbers_are_bad),
	};
	return unit_run(tests, NULL, NULL);
}
