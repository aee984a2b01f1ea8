/* The search for the function of boxed calls ends in any memory. */
#include "tests/unit/unit.h"

#include "symbolizer/decode/boxed.c"

static uint64_t reads;

/* Each node is followed by another, and has a vector of all operators behind it. */
static int read_endless(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	(void)m;
	for (size_t i = 0; i < len; i += 8) {
		uint64_t at = addr + i, word = at % 16 ? UINT64_C(1) << 40 : at + 16;
		memcpy((char *)buf + i, &word, 8);
	}
	reads++;
	return 0;
}

static void endless(void **state)
{
	static const struct mem mem = {.read = read_endless};
	struct boxed b = {.mem = &mem, .text = 1, .text_end = 2};
	(void)state;
	look_at_registry(&b, 1 << 20);
	assert_int_equal(b.votes, 0);
	assert_in_range(reads, READS_MAX, 3 * READS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(endless)};
	return unit_run(tests, NULL, NULL);
}
