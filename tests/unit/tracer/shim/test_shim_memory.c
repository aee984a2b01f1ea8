/* Checks of the shim on its own process's memory. */
#define _GNU_SOURCE

#include "tests/unit/unit.h"

#include "tracer/shim/memory.c"
#include "tracer/shim/saved_call_x86_64.c"

/* A class as its objects show it: Itanium C++ ABI, 2.9.4 and 2.9.5. */
struct class
{
	uint64_t info[2], vtable[3];
};

static uint64_t object_of(struct class *c, const char *name, uint64_t *object)
{
	c->info[1] = (uintptr_t)name;
	c->vtable[1] = (uintptr_t)c->info;
	object[0] = (uintptr_t)&c->vtable[2];
	return (uintptr_t)object;
}

static struct class list_class, string_class, other_class, longer_class;
static uint64_t list[2], string[2], other[2], longer[2];

static int setup(void **state)
{
	(void)state;
	memset(class_of, 0, sizeof(class_of));
	memset(tries, 0, sizeof(tries));
	object_of(&list_class, "N3c106detail8ListImplE", list);
	object_of(&string_class, "N3c106ivalue14ConstantStringE", string);
	object_of(&other_class, "N3c1013GeneratorImplE", other);
	object_of(&longer_class, "N3c106detail8ListImplE2", longer);
	return 0;
}

static unsigned kind(uint32_t tag, const void *object)
{
	return remote_object(remote_new(), tag, (uintptr_t)object);
}

static void test_classes(void **state)
{
	(void)state;
	assert_int_equal(kind(12, list), OBJECT_LIST);
	assert_int_equal(kind(12, list), OBJECT_LIST);
	assert_int_equal(kind(10, string), OBJECT_STRING);
	/* The undefined tensor counts as a null pointer. */
	assert_int_equal(kind(12, other), 0);
	assert_int_equal(kind(10, longer), 0);
	assert_int_equal(kind(20, longer), 0);
}

/* While a tag is unknown, its payload may be no pointer at all; and a tag that stays unproven is
 * not examined for ever. */
static void test_nothing_there(void **state)
{
	(void)state;
	assert_int_equal(kind(12, (void *)8), 0);
	assert_int_equal(kind(12, (void *)0x123456780008), 0);
	assert_int_equal(kind(IVALUE_TAGS, list), 0);
	assert_int_equal(kind(UINT32_MAX, list), 0);
	uint64_t lost[2] = {0x123456780008, 0};
	assert_int_equal(kind(12, lost), 0);
	assert_int_equal(kind(12, list), OBJECT_LIST);
	for (unsigned i = 0; i < 2 * TRIES; i++)
		assert_int_equal(kind(21, (void *)0x123456780008), 0);
	assert_int_equal(kind(21, list), 0);
}

static void test_int(void **state)
{
	(void)state;
	assert_false(ivalue_may_point((uintptr_t)list, IVALUE_INT));
	assert_true(ivalue_may_point((uintptr_t)list, 12));
}

static void test_copies(void **state)
{
	uint8_t from[80], to[80];
	(void)state;
	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)i;
	for (unsigned n = 0; n < sizeof(from); n++) {
		memset(to, 0xff, sizeof(to));
		assert_int_equal(remote_live(remote_new(), (uintptr_t)from, to, n), 0);
		assert_memory_equal(to, from, n);
		assert_int_equal(to[n], 0xff);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_classes, setup),
	    cmocka_unit_test_setup(test_nothing_there, setup),
	    cmocka_unit_test_setup(test_int, setup),
	    cmocka_unit_test_setup(test_copies, setup),
	};

	return unit_run(tests, NULL, NULL);
}
