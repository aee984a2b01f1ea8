#define _GNU_SOURCE

#include "tests/unit/unit.h"

#include "symbolizer/torch/layout.h"
#include "tests/unit/faketorch.h"

static struct fake fake;

static void begin(void)
{
	struct invented in = fake_layout(1);
	fake_init(&fake, &in, 1);
}

static void test_names(void **state)
{
	(void)state;
	begin();
	struct rtti *r = rtti_new(&fake.mem);
	struct rtti_class *c = rtti_of_vtable(r, fake.tensor);
	assert_non_null(c);
	assert_string_equal(c->name, "N3c1010TensorImplE");
	assert_ptr_equal(c, rtti_of_vtable(r, fake.tensor));
	assert_true(rtti_is_a(c, "N3c1010TensorImplE"));
	assert_true(rtti_is_a(c, "N3c1020intrusive_ptr_targetE"));
	assert_false(rtti_is_a(c, "N3c1011StorageImplE"));
	assert_false(rtti_is_a(NULL, "N3c1010TensorImplE"));
	c = rtti_of_vtable(r, fake.derived);
	assert_true(rtti_is_a(c, "N3c1010TensorImplE"));
	assert_int_equal(c->nancestors, 2);
	uint64_t object = fake_put(&fake, &fake.meta, 8);
	assert_string_equal(rtti_of_object(r, object)->name, "N5torch8autograd12AutogradMetaE");
	rtti_free(r);
}

/* Cached: static data is not read again after the target is gone. */
static void test_cached(void **state)
{
	(void)state;
	begin();
	struct rtti *r = rtti_new(&fake.mem);
	assert_non_null(rtti_of_vtable(r, fake.tensor));
	memset(fake.bytes, 0, sizeof(fake.bytes));
	assert_string_equal(rtti_of_vtable(r, fake.tensor)->name, "N3c1010TensorImplE");
	assert_null(rtti_of_vtable(r, fake.storage));
	rtti_free(r);
}

static void test_many(void **state)
{
	uint64_t vtable[200];
	char name[16];
	(void)state;
	begin();
	struct rtti *r = rtti_new(&fake.mem);
	for (unsigned i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "4C%03u", i);
		vtable[i] = fake_vtable(&fake, fake_type(&fake, name, 0), 0, 0);
	}
	for (unsigned k = 0; k < 2; k++)
		for (unsigned i = 0; i < 200; i++) {
			snprintf(name, sizeof(name), "4C%03u", i);
			assert_string_equal(rtti_of_vtable(r, vtable[i])->name, name);
		}
	rtti_free(r);
}

/* Several bases, one of them twice, and a class that is its own base. */
static void test_bases(void **state)
{
	(void)state;
	begin();
	struct rtti *r = rtti_new(&fake.mem);
	const char *kind = "N10__cxxabiv121__vmi_class_type_infoE";
	uint64_t own[2] = {0, fake_put(&fake, kind, strlen(kind) + 1)};
	uint64_t kinds[3] = {0, fake_put(&fake, own, sizeof(own)), 0};
	uint64_t a = fake_type(&fake, "1A", 0), b = fake_type(&fake, "1B", a);
	uint64_t info[7] = {fake_put(&fake, kinds, sizeof(kinds)) + 16,
			    fake_put(&fake, "1C", 3),
			    2ULL << 32,
			    a,
			    2,
			    b,
			    0x802};
	struct rtti_class *c =
	    rtti_of_vtable(r, fake_vtable(&fake, fake_put(&fake, info, sizeof(info)), 0, 0));
	assert_int_equal(c->nancestors, 2);
	assert_true(rtti_is_a(c, "1A") && rtti_is_a(c, "1B"));
	uint64_t loop = fake_type(&fake, "4Loop", a);
	memcpy(fake.bytes + (loop - FAKE_BASE) + 16, &loop, 8);
	c = rtti_of_vtable(r, fake_vtable(&fake, loop, 0, 0));
	assert_string_equal(c->name, "4Loop");
	/* an absurd number of bases ends at the first invalid one */
	info[2] = 0xffffffffULL << 32;
	assert_null(
	    rtti_of_vtable(r, fake_vtable(&fake, fake_put(&fake, info, sizeof(info)), 0, 0)));
	rtti_free(r);
}

/* A class that is being relocated is not read in part. */
static void test_relocated(void **state)
{
	(void)state;
	begin();
	struct rtti *r = rtti_new(&fake.mem);
	uint64_t a = fake_type(&fake, "1A", 0), b = fake_type(&fake, "1B", a), kept, none = 0;
	uint64_t vtable = fake_vtable(&fake, b, 0, 0), at[] = {b + 16, a + 8, a, b + 8, b};
	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		uint8_t *word = fake.bytes + (at[i] - FAKE_BASE);
		memcpy(&kept, word, 8);
		memcpy(word, &none, 8);
		assert_null(rtti_of_vtable(r, vtable));
		memcpy(word, &kept, 8);
	}
	assert_true(rtti_is_a(rtti_of_vtable(r, vtable), "1A"));
	rtti_free(r);
}

/* What is not a vtable is rejected. */
static void test_rejected(void **state)
{
	static const char *const bad[] = {"",	  "x", "3 a",	 "3\x1b[2J", "+",
					  "0abc", "*", "-4Node", "*\n"};
	(void)state;
	begin();
	struct rtti *r = rtti_new(&fake.mem);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_null(
		    rtti_of_vtable(r, fake_vtable(&fake, fake_type(&fake, bad[i], 0), 0, 0)));
	assert_non_null(rtti_of_vtable(r, fake_vtable(&fake, fake_type(&fake, "*4Name", 0), 0, 0)));
	assert_null(rtti_of_vtable(r, 0));
	assert_null(rtti_of_vtable(r, 8));
	assert_null(rtti_of_vtable(r, UINT64_MAX));
	assert_null(rtti_of_vtable(r, fake.tensor + 1));
	assert_null(rtti_of_vtable(r, FAKE_BASE));
	assert_null(rtti_of_vtable(r, FAKE_BASE + FAKE_BYTES));
	assert_null(rtti_of_object(r, 0));
	assert_null(rtti_of_object(r, FAKE_BASE - 8));
	/* an impossible offset to top */
	uint64_t v[3] = {12345, fake_type(&fake, "1A", 0), 0};
	assert_null(rtti_of_vtable(r, fake_put(&fake, v, sizeof(v)) + 16));
	rtti_free(r);
}

/* With any single byte corrupted: no crash, and only valid names. */
static void test_spoiled(void **state)
{
	(void)state;
	begin();
	for (size_t i = 0; i < fake.used; i++) {
		struct rtti *r = rtti_new(&fake.mem);
		fake.bytes[i] ^= 0x80 >> (i & 7);
		const uint64_t all[] = {fake.tensor, fake.derived, fake.storage, fake.meta,
					fake.view};
		for (unsigned k = 0; k < 5; k++) {
			struct rtti_class *c = rtti_of_vtable(r, all[k]);
			for (const char *p = c ? c->name : ""; *p; p++)
				assert_true(*p > ' ' && *p < 0x7f);
		}
		fake.bytes[i] ^= 0x80 >> (i & 7);
		rtti_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_names),     cmocka_unit_test(test_cached),
	    cmocka_unit_test(test_many),      cmocka_unit_test(test_bases),
	    cmocka_unit_test(test_relocated), cmocka_unit_test(test_rejected),
	    cmocka_unit_test(test_spoiled),
	};
	return unit_run(tests, NULL, NULL);
}
