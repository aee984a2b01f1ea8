
#include "tests/unit/unit.h"

#include "symbolizer/torch/layout.h"

enum { MANY = 2000000, BYTES_MAX = 36 << 20 };

/* Nodes lie at the allocator's spacing of 16 bytes or more. */
static uint64_t addr_of(uint64_t i)
{
	return 0x7f0000000000 + 176 * i;
}

static void add(struct node_map *m, uint64_t addr, uint64_t seq, uint64_t event)
{
	struct node_owner o = {.addr = addr, .seq = seq, .event = event};
	assert_int_equal(node_map_add(m, &o), 0);
}

static uint64_t event_of(const struct node_map *m, uint64_t addr, uint64_t seq)
{
	const struct node_owner *o = node_map_find(m, addr, seq);
	return o ? o->event : 0;
}

static size_t bytes_of(const struct node_map *m)
{
	return (m->young.size + m->old.size) *
	       (sizeof(struct node_owner) + (m->by_seq ? sizeof(struct node_seq) : 0));
}

static void test_empty(void **state)
{
	struct node_map m = {0};
	(void)state;
	assert_null(node_map_find(&m, 0x1000, 0));
	assert_null(node_map_find(&m, 0, 0));
	add(&m, 0, 1, 1);
	assert_null(node_map_find(&m, 0, 1));
	assert_int_equal(bytes_of(&m), 0);
	node_map_free(&m);
}

/* The innermost op returns first; an outer one that passes the node on is not its owner. */
static void test_first_owner(void **state)
{
	struct node_map m = {0};
	static const char stack[1];
	struct node_owner o = {
	    .addr = 0x1000, .seq = 5, .event = 7, .stack = (const struct py_stack *)stack};
	(void)state;
	assert_int_equal(node_map_add(&m, &o), 0);
	add(&m, 0x1000, 5, 6);
	const struct node_owner *found = node_map_find(&m, 0x1000, 5);
	assert_non_null(found);
	assert_int_equal(found->event, 7);
	assert_ptr_equal(found->stack, stack);
	assert_int_equal(m.young.used, 1);
	node_map_free(&m);
}

static uint64_t event_of_seq(struct node_map *m, uint64_t seq)
{
	const struct node_owner *o = node_map_find_seq(m, seq);
	return o ? o->event : 0;
}

static void test_by_number(void **state)
{
	struct node_map m = {0};
	(void)state;
	assert_int_equal(event_of_seq(&m, 5), 0);
	add(&m, 0x1000, 5, 7);
	add(&m, 0x1000, 6, 8); /* the first node is gone */
	add(&m, 0x2000, 0, 9);
	assert_int_equal(event_of_seq(&m, 5), 0);
	assert_int_equal(event_of_seq(&m, 6), 8);
	assert_int_equal(event_of_seq(&m, 0), 9);
	/* The same node under another address, and one of another thread. */
	add(&m, 1ULL << 63 | 0, 0, 10);
	assert_int_equal(event_of_seq(&m, 0), 9);
	struct node_owner other = {.addr = 0x3000, .seq = 6, .event = 11, .tid = 2};
	assert_int_equal(node_map_add(&m, &other), 0);
	assert_int_equal(event_of_seq(&m, 6), 0);
	assert_int_equal(event_of(&m, 0x3000, 6), 11);
	node_map_free(&m);
}

/* Sequence numbers grow while addresses are reused. */
static void test_few_addresses(void **state)
{
	struct node_map m = {0};
	(void)state;
	node_map_find_seq(&m, 0);
	for (uint64_t i = 0; i < MANY; i++)
		add(&m, addr_of(i % 100), i, i + 1);
	for (uint64_t i = MANY - 100; i < MANY; i++)
		assert_int_equal(event_of_seq(&m, i), i + 1);
	assert_true(bytes_of(&m) < 1 << 20);
	node_map_free(&m);
}

static void test_address_reused(void **state)
{
	struct node_map m = {0};
	(void)state;
	add(&m, 0x1000, 5, 7);
	assert_int_equal(event_of(&m, 0x1000, 6), 0);
	add(&m, 0x1000, 6, 8);
	assert_int_equal(event_of(&m, 0x1000, 6), 8);
	assert_int_equal(event_of(&m, 0x1000, 5), 0);
	assert_int_equal(m.young.used, 1);
	node_map_free(&m);
}

static void test_all_found(void **state)
{
	struct node_map m = {0};
	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		add(&m, addr_of(i), i, i + 1);
	for (uint64_t i = 0; i < 100000; i++)
		assert_int_equal(event_of(&m, addr_of(i), i), i + 1);
	assert_int_equal(event_of(&m, addr_of(100000), 100000), 0);
	node_map_free(&m);
}

/* Nodes that never run backward: the newest are kept, memory is bounded. */
static void test_bounded(void **state)
{
	struct node_map m = {0};
	size_t most = 0;
	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		add(&m, addr_of(i), i, i + 1);
		if (bytes_of(&m) > most)
			most = bytes_of(&m);
	}
	assert_true(most <= BYTES_MAX);
	assert_true(m.young.used <= m.young.size / 2 && m.old.used <= m.old.size / 2);
	for (uint64_t i = MANY - 100000; i < MANY; i++)
		assert_int_equal(event_of(&m, addr_of(i), i), i + 1);
	assert_null(node_map_find(&m, addr_of(0), 0));
	node_map_free(&m);
}

/* Entries in the older half still count: their owner stays, and a new node at the address replaces
 * it. */
static void test_older_half(void **state)
{
	struct node_map m = {0};
	uint64_t i = 0;
	(void)state;
	while (!m.old.size) {
		assert_true(i < MANY);
		add(&m, addr_of(i), i, i + 1);
		i++;
	}
	uint64_t used = m.young.used;
	add(&m, addr_of(3), 3, 99);
	assert_int_equal(event_of(&m, addr_of(3), 3), 4);
	assert_int_equal(m.young.used, used);
	add(&m, addr_of(3), i, i + 1);
	assert_int_equal(event_of(&m, addr_of(3), i), i + 1);
	node_map_free(&m);
}

static void test_given_back(void **state)
{
	struct node_map m = {0};
	(void)state;
	add(&m, 0x1000, 1, 1);
	node_map_free(&m);
	assert_int_equal(bytes_of(&m), 0);
	assert_null(node_map_find(&m, 0x1000, 1));
	add(&m, 0x1000, 1, 2);
	assert_int_equal(event_of(&m, 0x1000, 1), 2);
	node_map_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_empty),	   cmocka_unit_test(test_first_owner),
	    cmocka_unit_test(test_by_number),	   cmocka_unit_test(test_few_addresses),
	    cmocka_unit_test(test_address_reused), cmocka_unit_test(test_all_found),
	    cmocka_unit_test(test_bounded),	   cmocka_unit_test(test_older_half),
	    cmocka_unit_test(test_given_back),
	};
	return unit_run(tests, NULL, NULL);
}
