/* Operators in the memory of a process that may disappear. */

#include "tests/unit/unit.h"

#include "symbolizer/decode/registry.h"
#include "tests/unit/faketorch.h"

enum { ARGUMENT = 128, DEF = 0x120 };

static struct fake fake;
static struct rtti *rtti;
static struct registry *g;
static uint64_t int_type, tensor_type;

static uint64_t object(uint64_t vtable)
{
	uint64_t o[12] = {vtable};
	return fake_put(&fake, o, sizeof(o));
}

static int setup(void **state)
{
	struct invented in = fake_layout(1);
	(void)state;
	fake_init(&fake, &in, 1);
	rtti = rtti_new(&fake.mem);
	g = registry_new(&fake.mem, false, rtti);
	assert_non_null(g);
	uint64_t type = fake_type(&fake, "N3c104TypeE", 0);
	int_type =
	    object(fake_vtable(&fake, fake_type(&fake, "N3c107IntTypeE", type), FAKE_BASE, 0));
	tensor_type =
	    object(fake_vtable(&fake, fake_type(&fake, "N3c1010TensorTypeE", type), FAKE_BASE, 0));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	registry_free(g);
	rtti_free(rtti);
	return 0;
}

static void write_at(uint64_t addr, const void *data, size_t len)
{
	memcpy(fake.bytes + (addr - FAKE_BASE), data, len);
}

/* A std::string, with its text elsewhere. */
static void write_string(uint64_t addr, const char *text)
{
	uint64_t w[4] = {fake_put(&fake, text, strlen(text) + 1), strlen(text), 64};
	write_at(addr, w, sizeof(w));
}

/* c10::Argument */
static void write_argument(uint64_t addr, const char *name, uint64_t type)
{
	write_string(addr, name);
	write_at(addr + 32, &type, 8);
}

/* An OperatorDef at `def`: ns::op(Tensor, `name`: int) -> Tensor. */
static void define_at(uint64_t def, const char *name, const char *overload, const char *second)
{
	uint8_t none[4 * ARGUMENT] = {0};
	uint64_t args = fake_put(&fake, none, 2 * ARGUMENT),
		 returns = fake_put(&fake, none, ARGUMENT);
	uint64_t vectors[6] = {args,	args + 2 * ARGUMENT, args + 2 * ARGUMENT,
			       returns, returns + ARGUMENT,  returns + ARGUMENT};
	for (unsigned i = 0; i < 2; i++) {
		write_string(def + 72 * i, name);
		write_string(def + 72 * i + 32, overload);
	}
	write_at(def + 72 + 64, vectors, sizeof(vectors));
	write_argument(args, "x", tensor_type);
	write_argument(args + ARGUMENT, second, int_type);
	write_argument(returns, "", tensor_type);
}

static uint64_t new_def(void)
{
	uint8_t none[DEF] = {0};
	return fake_put(&fake, none, sizeof(none));
}

/* The words of an OperatorHandle, as probes read them. */
static void handle_of(uint64_t def, uint64_t data, uint64_t w[HANDLE_WORDS])
{
	w[0] = data;
	w[1] = def;
	w[2] = def - 16;
	memcpy(&w[3], fake.bytes + (def - FAKE_BASE), 16);
}

static void forget(uint64_t def)
{
	memset(fake.bytes + (def - FAKE_BASE), 0, DEF);
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
	uint64_t w[HANDLE_WORDS], def = new_def();
	(void)state;
	define_at(def, "test::operator", "out", "n");
	handle_of(def, FAKE_BASE, w);
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
	uint64_t w[HANDLE_WORDS] = {FAKE_BASE, new_def()};
	(void)state;
	assert_null(registry_find(g, w, NULL));
	define_at(w[1], "test::early", "", "n");
	expect_op(registry_find(g, w, NULL), "test::early", "n");
}

/* An operator reuses the memory of another. */
static void test_other(void **state)
{
	uint64_t w[HANDLE_WORDS], def = new_def();
	(void)state;
	define_at(def, "test::first", "", "n");
	handle_of(def, FAKE_BASE, w);
	expect_op(registry_find(g, w, "test::first"), "test::first", "n");
	define_at(def, "test::second", "", "m");
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
	uint64_t w[HANDLE_WORDS], def = new_def(), args, nowhere = 0;
	(void)state;
	define_at(def, "test::dying", "", "dtype");
	handle_of(def, FAKE_BASE, w);
	memcpy(&args, fake.bytes + (def + 72 + 64 - FAKE_BASE), sizeof(args));
	write_at(args + 48, &tensor_type, 8);
	write_at(args + ARGUMENT + 48, &nowhere, 8);
	expect_name_only(registry_find(g, w, "test::dying"), "test::dying");
	write_at(args + ARGUMENT + 48, &int_type, 8);
	add_schema("dying(Tensor x, ScalarType dtype) -> Tensor");
	const struct registered_op *op = registry_find(g, w, "test::dying");
	assert_string_equal(op->desc.args[1].type, "ScalarType");
}

/* Gone before it is looked up: found by its definition. */
static void test_gone(void **state)
{
	uint64_t w[HANDLE_WORDS] = {FAKE_BASE, new_def(), 1, 2, 3};
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

/* c10::OptionalType in libtorch 1.13: the vector of contained types, then the TypePtr of the
 * element. The vector ends with a type that was freed; `owners` is the second word of the TypePtr.
 */
static uint64_t optional_type(uint64_t type, uint64_t of, uint64_t owners)
{
	uint64_t class = fake_type(&fake, "N3c1012OptionalTypeE", type);
	uint64_t types[5] = {of, owners, tensor_type, 0};
	memcpy(&types[4], fake.bytes + (int_type - FAKE_BASE), 8);
	uint64_t at = fake_put(&fake, types, sizeof(types)), end = at + 32;
	uint64_t o[14] = {
	    fake_vtable(&fake, class, FAKE_BASE, 0), 0x13, 0, 0, 0, at, end, end, 1, of, owners};
	o[2] = fake_put(&fake, o, sizeof(o));
	write_at(o[2], o, sizeof(o));
	return o[2];
}

static void expect_type_of_second(const char *name, uint64_t type, const char *text)
{
	uint64_t w[HANDLE_WORDS], def = new_def(), args;
	define_at(def, name, "", "dtype");
	handle_of(def, FAKE_BASE, w);
	memcpy(&args, fake.bytes + (def + 72 + 64 - FAKE_BASE), sizeof(args));
	write_at(args + ARGUMENT + 32, &type, 8);
	const struct registered_op *op = registry_find(g, w, name);
	assert_string_equal(op->desc.args[1].type, text);
	assert_int_equal(op->args[1].base, SCHEMA_DTYPE);
	assert_true(op->args[1].is_optional);
}

static void test_optional(void **state)
{
	uint64_t type = fake_type(&fake, "N3c104TypeE", 0);
	uint64_t counted =
	    fake_type(&fake, "St16_Sp_counted_baseILN9__gnu_cxx12_Lock_policyE2EE", 0);
	uint64_t shared = fake_type(
	    &fake, "St15_Sp_counted_ptrIPN3c104TypeELN9__gnu_cxx12_Lock_policyE2EE", counted);
	uint64_t of = object(
	    fake_vtable(&fake, fake_type(&fake, "N3c1014ScalarTypeTypeE", type), FAKE_BASE, 0));
	(void)state;
	expect_type_of_second("test::singleton", optional_type(type, of, 0), "ScalarType?");
	expect_type_of_second(
	    "test::shared",
	    optional_type(type, of, object(fake_vtable(&fake, shared, FAKE_BASE, 0))),
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
	};
	return unit_run(tests, NULL, NULL);
}
