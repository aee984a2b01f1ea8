#include "tests/unit/unit.h"

#include <errno.h>

#include "base/intern.h"

enum { MANY = 20000 };

static void ids_count_from_0(void **state)
{
	struct intern t = {0};
	bool is_new;
	(void)state;
	for (uint64_t i = 0; i < 2 * MANY; i++) {
		uint64_t bytes = i % MANY;
		assert_int_equal(intern(&t, &bytes, sizeof(bytes), &is_new), i % MANY);
		assert_int_equal(is_new, i < MANY);
	}
	assert_int_equal(t.used, MANY);
	intern_free(&t);
	assert_int_equal(intern(&t, "", 0, &is_new), 0);
	assert_true(is_new);
	intern_free(&t);
}

static void the_length_counts(void **state)
{
	struct intern t = {0};
	bool is_new;
	(void)state;
	for (uint32_t len = 0; len <= 40; len++)
		assert_int_equal(intern(&t, (char[40]){0}, len, &is_new), len);
	assert_int_equal(t.bytes, 41 * 42 / 2);
	intern_free(&t);
}

static void finding_adds_nothing(void **state)
{
	struct intern t = {0};
	bool is_new;
	(void)state;
	assert_int_equal(intern_find(&t, "a", 1), -ENOENT);
	assert_int_equal(intern(&t, "a", 1, &is_new), 0);
	assert_int_equal(intern_find(&t, "a", 1), 0);
	assert_int_equal(intern_find(&t, "b", 1), -ENOENT);
	assert_int_equal(t.used, 1);
	intern_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ids_count_from_0),
	    cmocka_unit_test(the_length_counts),
	    cmocka_unit_test(finding_adds_nothing),
	};
	return unit_run(tests, NULL, NULL);
}
