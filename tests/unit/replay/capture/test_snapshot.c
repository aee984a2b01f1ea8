
#include "tests/unit/unit.h"

#include <errno.h>

#include "replay/capture/capture_files.h"
#include "replay/numbers/numbers.h"
#include "tests/unit/self_source.h"
#include "tracer/capture/internal.h"

enum { UINT8 = 0 };
static const size_t plenty = 1 << 30;
static unsigned char memory[4096];
static const struct source self = {.read = source_read_self};

/* `n` bytes of memory[] from `at` on, `stride` apart. */
static struct tensor bytes(size_t at, int64_t *n, int64_t *stride)
{
	return (struct tensor){.meta = {.dtype = UINT8,
					.ndim = 1,
					.device_index = -1,
					.numel = *n,
					.shape = n,
					.stride = stride},
			       .storage_offset = (int64_t)at,
			       .data_ptr = (uint64_t)(uintptr_t)memory + at,
			       .storage = 1};
}

static int fill(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (unsigned char)(i % 251);
	return 0;
}

/* What was copied is unchanged, all else is current. */
static void reads_what_was_there(void **state)
{
	(void)state;
	int64_t n = 100, stride = 2, m = 10, one = 1;
	struct tensor a = bytes(50, &n, &stride), b = bytes(1000, &m, &one);
	struct snapshot s = {0};
	unsigned char was[sizeof(memory)], now[sizeof(memory)];
	memcpy(was, memory, sizeof(was));
	assert_int_equal(snapshot_add(&s, &a, &self, plenty), 0);
	assert_int_equal(snapshot_add(&s, &b, &self, plenty), 0);
	memset(memory, 0xee, sizeof(memory));
	struct source then = snapshot_source(&s, &self);
	assert_int_equal(then.read(then.ctx, (uint64_t)(uintptr_t)memory, now, sizeof(now)), 0);
	for (size_t i = 0; i < sizeof(memory); i++) {
		bool kept = (i >= 50 && i < 50 + 199) || (i >= 1000 && i < 1010);
		assert_int_equal(now[i], kept ? was[i] : 0xee);
	}
	assert_int_equal(then.read(then.ctx, b.data_ptr + 3, now, 4), 0);
	assert_memory_equal(now, was + 1003, 4);
	assert_int_equal(then.read(then.ctx, b.data_ptr + 8, now, 4), 0);
	assert_memory_equal(now, was + 1008, 2);
	assert_int_equal(now[2], 0xee);
	snapshot_free(&s);
}

static void statistics_are_those_of_then(void **state)
{
	(void)state;
	int64_t n = 500, stride = 3;
	struct tensor t = bytes(7, &n, &stride);
	struct snapshot s = {0};
	struct stats before, after, then;
	enum refusal refusal;
	assert_int_equal(stats_tensor(&t, &self, &before, &refusal, NULL), 0);
	assert_int_equal(snapshot_add(&s, &t, &self, plenty), 0);
	memory[7 + 3 * 499] ^= 1;
	struct source kept = snapshot_source(&s, &self);
	assert_int_equal(stats_tensor(&t, &kept, &then, &refusal, NULL), 0);
	assert_int_equal(stats_tensor(&t, &self, &after, &refusal, NULL), 0);
	assert_int_equal(then.hash, before.hash);
	assert_int_not_equal(after.hash, before.hash);
	snapshot_clear(&s);
	assert_int_equal(stats_tensor(&t, &kept, &then, &refusal, NULL), 0);
	assert_int_equal(then.hash, after.hash);
	snapshot_free(&s);
}

static void a_limit_is_kept(void **state)
{
	(void)state;
	int64_t n = 100, stride = 1, wide = 1 << 22;
	struct tensor a = bytes(0, &n, &stride), b = bytes(200, &n, &stride);
	struct snapshot s = {0};
	assert_int_equal(snapshot_add(&s, &a, &self, 150), 0);
	assert_int_equal(snapshot_add(&s, &a, &self, 150), 0); /* exists already */
	assert_int_equal(snapshot_add(&s, &b, &self, 150), -EFBIG);
	assert_int_equal(snapshot_add(&s, &b, &self, 200), 0);
	assert_int_equal(s.len, 200);
	int64_t two = 2;
	struct tensor sparse = bytes(0, &two, &wide);
	assert_int_equal(snapshot_add(&s, &sparse, &self, plenty), -EFBIG);
	a.meta.unknown = TENSOR_NO_SHAPE;
	assert_int_equal(snapshot_add(&s, &a, &self, plenty), -ENOTSUP);
	snapshot_free(&s);
}

static void calls_are_found(void **state)
{
	(void)state;
	struct stats_calls c = {0};
	struct stats_call *a = stats_call_begin(&c, 5), *b = stats_call_begin(&c, 5 + STATS_SLOTS);
	struct tensor_place place = {.value = 3};
	assert_ptr_equal(stats_call_find(&c, 5), a);
	assert_ptr_equal(stats_call_find(&c, 5 + STATS_SLOTS), b);
	assert_null(stats_call_find(&c, 6));
	for (place.tensor = 0; place.tensor < 100; place.tensor++)
		assert_non_null(stats_call_row(a, &place));
	assert_int_equal(a->rows[99].place.tensor, 99);
	stats_call_end(&c, a);
	assert_null(stats_call_find(&c, 5));
	assert_ptr_equal(stats_call_find(&c, 5 + STATS_SLOTS), b);
	assert_int_equal(stats_call_begin(&c, 7)->n, 0);
	stats_call_free(&c);
}

static void chosen_calls_are_remembered(void **state)
{
	(void)state;
	struct stats_calls c = {0};
	assert_false(stats_was_chosen(&c, 1));
	for (uint64_t id = 1; id < 3 * (uint64_t)CHOSEN_MAX; id += 2)
		stats_call_choose(&c, id);
	assert_true(stats_was_chosen(&c, 3 * (uint64_t)CHOSEN_MAX - 1));
	assert_true(stats_was_chosen(&c, CHOSEN_MAX + 1));
	assert_false(stats_was_chosen(&c, CHOSEN_MAX - 1)); /* too long ago */
	assert_false(stats_was_chosen(&c, 2 * (uint64_t)CHOSEN_MAX));
	assert_false(stats_was_chosen(&c, 0));
	stats_call_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(reads_what_was_there, fill),
	    cmocka_unit_test_setup(statistics_are_those_of_then, fill),
	    cmocka_unit_test_setup(a_limit_is_kept, fill),
	    cmocka_unit_test(calls_are_found),
	    cmocka_unit_test(chosen_calls_are_remembered),
	};
	return unit_run(tests, NULL, NULL);
}
