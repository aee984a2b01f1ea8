/* Operators in the memory of a process that may disappear. */

#include "tests/unit/unit.h"

#include "tests/unit/fake_operators.h"

static struct fake_operators all;
static struct rtti *rtti;
static struct registry *g;

static int setup(void **state)
{
	(void)state;
	fake_operators_init(&all, false);
	rtti = rtti_new(&all.fake.mem);
	g = registry_new(&all.fake.mem, false, rtti);
	assert_non_null(g);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	registry_free(g);
	rtti_free(rtti);
	return 0;
}

static void forget(uint64_t def)
{
	memset(all.fake.bytes + (def - FAKE_BASE), 0, FAKE_DEF);
}

/* Set the word at byte `off` of an argument of an OperatorDef: 32 is its type, 48 the real one. */
static void set_type(uint64_t def, unsigned arg, unsigned off, uint64_t type)
{
	uint64_t args;
	memcpy(&args, all.fake.bytes + (fake_vectors(&all, def) - FAKE_BASE), sizeof(args));
	fake_write(&all, args + arg * FAKE_ARGUMENT + off, &type, 8);
}

static void expect_op(const struct registered_op *op, const char *name, const char *second)
{
	assert_non_null(op);
	assert_string_equal(op->desc.name, name);
	assert_int_equal(op->desc.nargs, 2);
	assert_int_equal(op->desc.nresults, 1);
	assert_string_equal(op->desc.args[0].type, "Tensor");
	assert_string_equal(op->desc.args[1].name, second);
	assert_string_equal(op->desc.args[1].type, "int");
	assert_int_equal(op->args[1].base, SCHEMA_INT);
	assert_int_equal(op->returns[0].base, SCHEMA_TENSOR);
}

static void expect_name_only(const struct registered_op *op, const char *name)
{
	assert_string_equal(op->desc.name, name);
	assert_true(op->name_only);
	assert_string_equal(op->desc.args[0].name, "?");
}

static void test_live(void **state)
{
	uint64_t w[HANDLE_WORDS], def = fake_def(&all);
	(void)state;
	fake_define(&all, def, "test::operator", "out", "n");
	fake_handle(&all, def, FAKE_BASE, w);
	assert_true(registry_is_operator(g, w));
	const struct registered_op *op = registry_find(g, w, NULL);
	expect_op(op, "test::operator.out", "n");
	expect_op(registry_find(g, w, "test::operator.out"), "test::operator.out", "n");
	/* What was read stays valid when it is gone, with any copy of the handle. */
	forget(def);
	w[0] += 8;
	assert_ptr_equal(registry_find(g, w, NULL), op);
	assert_false(registry_is_operator(g, w));
}

/* Looked up before it exists, then found. */
static void test_early(void **state)
{
	uint64_t w[HANDLE_WORDS] = {FAKE_BASE, fake_def(&all)};
	(void)state;
	assert_null(registry_find(g, w, NULL));
	fake_define(&all, w[1], "test::early", "", "n");
	expect_op(registry_find(g, w, NULL), "test::early", "n");
}

/* An operator reuses the memory of another. */
static void test_other(void **state)
{
	uint64_t w[HANDLE_WORDS], def = fake_def(&all);
	(void)state;
	fake_define(&all, def, "test::first", "", "n");
	fake_handle(&all, def, FAKE_BASE, w);
	expect_op(registry_find(g, w, "test::first"), "test::first", "n");
	fake_define(&all, def, "test::second", "", "m");
	const struct registered_op *op = registry_find(g, w, "test::second");
	expect_op(op, "test::second", "m");
	assert_ptr_equal(registry_find(g, w, "test::second"), op);
	/* A call of a third one that is gone: only its name is known. */
	expect_name_only(registry_find(g, w, "test::third"), "test::third");
	expect_op(registry_find(g, w, "test::first"), "test::first", "n");
}

static void add_schema(const char *text)
{
	registry_add_schema(g, text, strlen(text));
}

/* An operator that is being destroyed is not read in part. */
static void test_dying(void **state)
{
	uint64_t w[HANDLE_WORDS], def = fake_def(&all);
	(void)state;
	fake_define(&all, def, "test::dying", "", "dtype");
	fake_handle(&all, def, FAKE_BASE, w);
	set_type(def, 0, 48, all.tensor_type);
	set_type(def, 1, 48, 0);
	expect_name_only(registry_find(g, w, "test::dying"), "test::dying");
	set_type(def, 1, 48, all.int_type);
	add_schema("dying(Tensor x, ScalarType dtype) -> Tensor");
	const struct registered_op *op = registry_find(g, w, "test::dying");
	assert_string_equal(op->desc.args[1].type, "ScalarType");
}

/* Gone before it is looked up: found by its definition. */
static void test_gone(void **state)
{
	uint64_t w[HANDLE_WORDS] = {FAKE_BASE, fake_def(&all), 1, 2, 3};
	(void)state;
	add_schema("gone(Tensor(a!) x, int n=3) -> Tensor(a!)");
	add_schema("gone.list(Tensor x, int[2] n) -> ()");
	add_schema("other::gone(Tensor x) -> ()");
	add_schema("no schema");
	expect_op(registry_find(g, w, "test::gone"), "test::gone", "n");
	const struct registered_op *op = registry_find(g, w, "test::gone.list");
	assert_string_equal(op->desc.args[1].type, "int[]");
	assert_int_equal(op->desc.nresults, 0);
	expect_name_only(registry_find(g, w, "other::gone"), "other::gone");
	/* the same text twice, once with its namespace */
	add_schema("twice(Tensor x, int n) -> Tensor");
	add_schema("test::twice(Tensor x, int n) -> Tensor");
	expect_op(registry_find(g, w, "test::twice"), "test::twice", "n");
	/* two different texts: ambiguous */
	add_schema("unclear(Tensor x, int n) -> Tensor");
	add_schema("unclear(Tensor x, ScalarType n) -> Tensor");
	expect_name_only(registry_find(g, w, "test::unclear"), "test::unclear");
	/* the library's text decides */
	add_schema("known(Tensor x, ScalarType n) -> Tensor");
	registry_add_library_schema(g, "test::known(Tensor x, int n) -> Tensor");
	add_schema("test::known(Tensor x, int[] n) -> Tensor");
	expect_op(registry_find(g, w, "test::known"), "test::known", "n");
}

/* What is passed by keyword, and what is written to. */
static void test_keyword(void **state)
{
	uint64_t w[HANDLE_WORDS], def = fake_def(&all), args;
	uint8_t yes = 1;
	(void)state;
	fake_define(&all, def, "test::live", "", "n");
	memcpy(&args, all.fake.bytes + (fake_vectors(&all, def) - FAKE_BASE), sizeof(args));
	fake_write(&all, args + 2 * FAKE_ARGUMENT - 8, &yes, 1); /* kwarg_only_ */
	fake_handle(&all, def, FAKE_BASE, w);
	add_schema("written(Tensor(a!) x, *, int n=3) -> Tensor(a!)");
	static const char *const names[] = {"test::written", "test::live"};
	for (unsigned i = 0; i < 2; i++) {
		const struct registered_op *op = registry_find(g, w, names[i]);
		expect_op(op, names[i], "n");
		assert_non_null(op->desc.parsed);
		assert_false(op->desc.parsed->args[0].kwarg_only);
		assert_true(op->desc.parsed->args[1].kwarg_only);
		assert_int_equal(op->desc.flags, i == 0 ? OP_INPLACE : 0);
	}
}

static void expect_type_of_second(const char *name, uint64_t type, const char *text)
{
	uint64_t w[HANDLE_WORDS], def = fake_def(&all);
	fake_define(&all, def, name, "", "dtype");
	fake_handle(&all, def, FAKE_BASE, w);
	set_type(def, 1, 32, type);
	const struct registered_op *op = registry_find(g, w, name);
	assert_string_equal(op->desc.args[1].type, text);
	assert_int_equal(op->args[1].base, SCHEMA_DTYPE);
	assert_true(op->args[1].is_optional);
}

static void test_optional(void **state)
{
	static const char optional[] = "N3c1012OptionalTypeE";
	uint64_t counted =
	    fake_type(&all.fake, "St16_Sp_counted_baseILN9__gnu_cxx12_Lock_policyE2EE", 0);
	uint64_t shared = fake_object_of(
	    &all, "St15_Sp_counted_ptrIPN3c104TypeELN9__gnu_cxx12_Lock_policyE2EE", counted);
	uint64_t of = fake_object_of(&all, "N3c1014ScalarTypeTypeE", all.type);
	(void)state;
	expect_type_of_second("test::singleton", fake_container(&all, optional, of, 0),
			      "ScalarType?");
	expect_type_of_second("test::shared", fake_container(&all, optional, of, shared),
			      "ScalarType?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_optional, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_live, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_early, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_other, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_dying, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_gone, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_keyword, setup, teardown),
	};
	return unit_run(tests, NULL, NULL);
}
