/* The search for the function of boxed calls ends in any memory. */
#include "tests/unit/unit.h"

#include "symbolizer/decode/boxed.c"
#include "symbolizer/decode/target.h"
#include "symbolizer/ops/ops.h"
#include "tests/unit/sample_hits.h"

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

/* Boxed calls, symbolizer/decode/target.h. */

static struct boxed_seen all[BOXED_SEEN];
static struct record rec;
static struct registered_op op;

static struct items call(uint64_t data, uint64_t handle, const char *name)
{
	const uint64_t words[2] = {handle, handle + 64}, def[2] = {7, 9};
	record_begin(&rec, (struct hit){.kind = HIT_ENTRY});
	record_item(&rec, ITEM_DATA, BOXED_DATA, 0, &data, sizeof(data));
	record_item(&rec, ITEM_DATA, BOXED_HANDLE, 0, words, sizeof(words));
	record_item(&rec, ITEM_DATA, BOXED_DEF, 0, def, sizeof(def));
	record_item(&rec, ITEM_STRING, BOXED_NAME, (uint32_t)strlen(name), name,
		    (uint32_t)strlen(name));
	record_item(&rec, ITEM_STRING, BOXED_OVERLOAD, 6, "Tensor", 6);
	record_item(&rec, ITEM_DATA, BOXED_STACK, 1, &data, sizeof(data));
	return record_items(&rec);
}

static const struct registered_op *find(uint64_t data, uint64_t handle, const char *name)
{
	struct items it = call(data, handle, name);
	return boxed_seen_find(all, &it);
}

static void add(uint64_t handle, const char *name)
{
	struct items it = call(1, handle, name);
	boxed_seen_add(all, &it, &op);
}

static void test_same(void **state)
{
	(void)state;
	assert_null(find(1, 4096, "aten::add"));
	add(4096, "aten::add");
	assert_ptr_equal(find(1, 4096, "aten::add"), &op);
	assert_ptr_equal(find(2, 4096, "aten::add"), &op); /* an entry of its own for each call */
	assert_null(find(0, 4096, "aten::add"));
	assert_null(find(1, 8192, "aten::add"));
	assert_null(find(1, 4096, "aten::sub")); /* evicted by the next one */
	assert_null(find(1, 4096, "aten::addmm_"));
}

static void test_cut(void **state)
{
	(void)state;
	add(4096, "aten::add");
	struct items it = call(1, 4096, "aten::add");
	for (uint32_t len = 0; len < it.len; len += 8) {
		struct items part = {.data = malloc(len + 1), .len = len};
		assert_non_null(part.data);
		memcpy((void *)part.data, it.data, len);
		bool whole = len >= it.len - 16; /* all but the last item */
		assert_int_equal(boxed_seen_find(all, &part) != NULL, whole);
		free((void *)part.data);
	}
}

static void test_not_kept(void **state)
{
	char name[BOXED_SEEN_BYTES + 1];
	struct items it = {.data = (const uint8_t *)name};
	(void)state;
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	add(1024, name); /* too long */
	assert_null(find(1, 1024, name));
	boxed_seen_add(all, &it, &op);
	assert_null(boxed_seen_find(all, &it));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(endless),
	    cmocka_unit_test(test_same),
	    cmocka_unit_test(test_cut),
	    cmocka_unit_test(test_not_kept),
	};
	return unit_run(tests, NULL, NULL);
}
