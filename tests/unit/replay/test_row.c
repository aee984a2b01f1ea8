/* Tensors of a runner's messages: all of their bytes are in the memory that it shares. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <unistd.h>

#include "replay/replay.h"

enum { SHARED = 256 };

static struct replay_row row;

static int fill(const char *json)
{
	struct worker w = {.requests = -1, .replies = -1, .arena = worker_arena()};
	row = (struct replay_row){0};
	json_t *m = json_loads(json, 0, NULL);
	assert_non_null(m);
	assert_int_equal(ftruncate(w.arena, SHARED), 0);
	int r = row_fill(&row, "torch.add", m, &w, &(struct row_rules){0}, NULL);
	json_decref(m);
	worker_stop(&w, NULL, 0);
	return r;
}

#define MESSAGE(actual, more)                                                                      \
	"{\"event\": \"tensor\", \"role\": \"output\", \"actual\": " actual                        \
	", \"reference\": " actual more "}"
#define BLOB(dtype, shape) "{\"offset\": 0, \"dtype\": \"" dtype "\", \"shape\": [" shape "]}"

static void sizes(void **state)
{
	(void)state;
	assert_int_equal(fill(MESSAGE(BLOB("float64", "4, 8"), "")), 0);
	assert_int_equal(fill(MESSAGE(BLOB("float64", "33"), "")), -EPROTO);
	assert_int_equal(fill(MESSAGE(BLOB("float64", "-1"), "")), -EPROTO);
	/* 2^61 elements of 8 bytes: modulo 2^64 there are none */
	assert_int_equal(fill(MESSAGE(BLOB("float64", "2305843009213693952"), "")), -EPROTO);
	assert_int_equal(fill(MESSAGE(BLOB("complex128", "1152921504606846977"), "")), -EPROTO);
}

static void allowances(void **state)
{
	(void)state;
	static const char *const wrong[] = {
	    MESSAGE(BLOB("float32", "16"), ", \"allowance\": " BLOB("float64", "8")),
	    MESSAGE(BLOB("float32", "16"), ", \"allowance\": " BLOB("float64", "0")),
	    MESSAGE(BLOB("float32", "16"), ", \"allowance\": " BLOB("float32", "16")),
	    MESSAGE(BLOB("complex64", "16"), ", \"allowance\": " BLOB("float64", "16"))};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(fill(wrong[i]), -EPROTO);
	assert_int_equal(
	    fill(MESSAGE(BLOB("float32", "16"), ", \"allowance\": " BLOB("float64", "4, 4"))), 0);
	assert_int_equal(
	    fill(MESSAGE(BLOB("complex64", "16"), ", \"allowance\": " BLOB("float64", "16, 2"))),
	    0);
}

/* What kernels may choose is right where it is the same, and else not judged. */
static void choices(void **state)
{
	(void)state;
	assert_int_equal(fill(MESSAGE(BLOB("float64", "4"), ", \"choice\": \"signs\"")), 0);
	assert_int_equal(row.verdict, VERDICT_RIGHT);
	assert_int_equal(
	    fill("{\"event\": \"mismatch\", \"role\": \"output\", \"reason\": \"shape\"}"), 0);
	assert_int_equal(row.verdict, VERDICT_WRONG);
	assert_int_equal(
	    fill("{\"event\": \"mismatch\", \"role\": \"output\", \"reason\": \"shape\","
		 "\"choice\": \"signs\"}"),
	    0);
	assert_int_equal(row.verdict, VERDICT_NOT_JUDGED);
	assert_string_equal(row.why, "signs");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(allowances),
					   cmocka_unit_test(choices)};
	return unit_run(tests, NULL, NULL);
}
