#include "tests/unit/unit.h"

#include <errno.h>

#include "base/map.h"

enum { MANY = 100000 };

static uint64_t key_of(uint64_t i)
{
	return i % 2 ? i << 40 : 0x7f1000000000 + 16 * i;
}

static void an_empty_map_has_nothing(void **state)
{
	struct map m = {0};
	uint32_t pos = 0;
	(void)state;
	assert_int_equal(map_next(&m, 1, &pos), MAP_NONE);
	assert_int_equal(map_get(&m, 0), -ENOENT);
	map_clear(&m);
	map_free(&m);
}

/* Some of the hashes belong into the last slot, so their items go on in the first ones. */
static void items_of_one_hash_keep_their_order(void **state)
{
	static const uint64_t hashes[] = {7, 63, UINT64_MAX, 7 | 1ULL << 40, 8};
	enum { N = 5, ITEMS = 1000 };
	struct map m = {0};
	(void)state;
	for (uint32_t i = 0; i < ITEMS; i++) {
		assert_int_equal(map_add(&m, hashes[i % N], i), 0);
		assert_true(2 * m.used <= m.size);
	}
	for (uint32_t k = 0; k < N; k++) {
		uint32_t pos = 0, want = k;
		for (uint32_t i; (i = map_next(&m, hashes[k], &pos)) != MAP_NONE; want += N)
			assert_int_equal(i, want);
		assert_int_equal(want, k + ITEMS);
	}
	uint32_t pos = 0;
	assert_int_equal(map_next(&m, 9, &pos), MAP_NONE);
	map_free(&m);
}

static void many_keys(void **state)
{
	struct map m = {0};
	(void)state;
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(map_get(&m, key_of(i)), -ENOENT);
		assert_int_equal(map_put(&m, key_of(i), i), 0);
	}
	assert_int_equal(m.used, MANY);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(map_get(&m, key_of(i)), i);
	assert_int_equal(map_get(&m, key_of(MANY)), -ENOENT);
	map_free(&m);
}

static void values_are_replaced(void **state)
{
	static const uint64_t keys[] = {0, 1, 1ULL << 32, 1ULL << 63, UINT64_MAX};
	enum { N = 5 };
	struct map m = {0};
	(void)state;
	for (uint32_t i = 0; i < 20 * N; i++)
		assert_int_equal(map_put(&m, keys[i % N], i), 0);
	assert_int_equal(m.used, N);
	for (uint32_t k = 0; k < N; k++)
		assert_int_equal(map_get(&m, keys[k]), 19 * N + k);
	assert_int_equal(map_put(&m, 0, MAP_NONE - 1), 0);
	assert_int_equal(map_get(&m, 0), MAP_NONE - 1);
	map_free(&m);
}

static void a_cleared_map_is_filled_again(void **state)
{
	struct map m = {0};
	(void)state;
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 1000; i++)
			assert_int_equal(map_put(&m, i, i + round), 0);
		uint32_t size = m.size;
		assert_int_equal(map_get(&m, 999), 999 + round);
		map_clear(&m);
		assert_int_equal(map_get(&m, 999), -ENOENT);
		assert_int_equal(m.size, size);
		assert_int_equal(m.used, 0);
	}
	map_free(&m);
	assert_int_equal(map_put(&m, 1, 2), 0);
	assert_int_equal(map_get(&m, 1), 2);
	map_free(&m);
}

static void hashes_differ(void **state)
{
	(void)state;
	assert_true(map_hash("abc", 3, 0) != map_hash("abd", 3, 0));
	assert_true(map_hash("abc", 3, 0) != map_hash("abc", 3, 1));
	assert_true(map_hash("", 0, 0) != map_hash("\0", 1, 0));
}

enum { STRINGS = 20000 };

static void ids_count_from_0(void **state)
{
	struct intern t = {0};
	bool is_new;
	(void)state;
	for (uint64_t i = 0; i < 2 * STRINGS; i++) {
		uint64_t bytes = i % STRINGS;
		assert_int_equal(intern(&t, &bytes, sizeof(bytes), &is_new), i % STRINGS);
		assert_int_equal(is_new, i < STRINGS);
	}
	assert_int_equal(t.used, STRINGS);
	intern_free(&t);
	assert_int_equal(intern(&t, "", 0, &is_new), 0);
	assert_true(is_new);
	intern_free(&t);
}

static void equal_texts_are_one(void **state)
{
	struct intern t = {0};
	char text[] = "shape";
	(void)state;
	const char *kept = intern_text(&t, text);
	text[0] = 'S';
	assert_string_equal(kept, "shape");
	assert_string_equal(intern_text(&t, text), "Shape");
	assert_ptr_equal(intern_text(&t, "shape"), kept);
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
	    cmocka_unit_test(an_empty_map_has_nothing),
	    cmocka_unit_test(items_of_one_hash_keep_their_order),
	    cmocka_unit_test(many_keys),
	    cmocka_unit_test(values_are_replaced),
	    cmocka_unit_test(a_cleared_map_is_filled_again),
	    cmocka_unit_test(hashes_differ),
	    cmocka_unit_test(ids_count_from_0),
	    cmocka_unit_test(equal_texts_are_one),
	    cmocka_unit_test(the_length_counts),
	    cmocka_unit_test(finding_adds_nothing),
	};
	return unit_run(tests, NULL, NULL);
}
