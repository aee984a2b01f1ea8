#include "tests/unit/unit.h"

#include "tracer/stack/hang.h"

static void test_usual(void **state)
{
	struct progress_of p = {0};
	uint64_t now = 1000;
	(void)state;
	progress_note(&p, 7, now); /* how long the first ones took was not seen */
	assert_int_equal(progress_usual(&p), 0);
	for (unsigned i = 0; i < PROGRESS_LEAST; i++) {
		assert_int_equal(progress_usual(&p), 0);
		progress_note(&p, p.count + 2, now += 20);
	}
	assert_int_equal(progress_usual(&p), 10);
	progress_note(&p, p.count, now + 500);
	assert_int_equal(p.last_ns, now);
	progress_note(&p, p.count + 1, now += 5000); /* one that was slow changes nothing */
	assert_int_equal(progress_usual(&p), 10);
}

static void test_forgets(void **state)
{
	struct progress_of p = {0};
	uint64_t now = 1000;
	(void)state;
	for (unsigned i = 0; i < PROGRESS_KEPT; i++)
		progress_note(&p, p.count + 1, now += 10);
	for (unsigned i = 0; i < PROGRESS_KEPT; i++)
		progress_note(&p, p.count + 1, now += 30);
	assert_int_equal(progress_usual(&p), 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_usual),
	    cmocka_unit_test(test_forgets),
	};
	return unit_run(tests, NULL, NULL);
}
