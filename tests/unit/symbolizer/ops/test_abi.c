#include "tests/unit/unit.h"

#include <errno.h>

#include "symbolizer/ops/ops.h"

enum { PARAMS_MAX = 64 };

static const char TENSOR[] = "at::Tensor const&";

/* One op: the inputs, and the resulting plan. */
struct planned {
	struct arena arena;
	struct cxx_param params[PARAMS_MAX];
	struct cxx_function f;
	struct schema s;
	struct op_plan plan;
	struct op_abi abi;
};

static struct planned p;

static int teardown(void **state)
{
	(void)state;
	arena_free(&p.arena);
	return 0;
}

static void take_schema(const char *schema)
{
	int rc = schema_parse(schema, strlen(schema), "aten", &p.arena, &p.s);
	if (rc)
		fail_msg("%s: %d", schema, rc);
}

/* Plan a function with the C++ types `types`, NULL-terminated. */
static int plan_with(const char *const *types, const char *schema, const struct func_facts *facts)
{
	arena_free(&p.arena);
	memset(&p, 0, sizeof(p));
	take_schema(schema);
	for (; types[p.f.nparams]; p.f.nparams++) {
		struct cxx_param *c = &p.params[p.f.nparams];
		c->text = types[p.f.nparams];
		cxx_type_parse(c->text, strlen(c->text), c);
	}
	p.f.params = p.params;
	return abi_plan(&p.f, &p.s, facts, &p.arena, &p.plan, &p.abi);
}

static const struct func_facts returns_class = {.exit_kind = EXIT_EMULATED,
						.ret_is_hidden_ptr = true};
static const struct func_facts returns_plain = {.exit_kind = EXIT_EMULATED};

#define PLAN(schema, ...)                                                                          \
	assert_int_equal(                                                                          \
	    plan_with((const char *const[]){__VA_ARGS__, NULL}, schema, &returns_class), 0)

/* The read of argument i, which must be at the entry. */
static const struct probe_read *entry_read(unsigned i)
{
	assert_true(i < p.abi.nargs);
	assert_true(p.abi.args[i].read < p.plan.nentry);
	return &p.plan.read[p.abi.args[i].read];
}

static const struct probe_read *exit_read(const struct abi_value *v)
{
	assert_in_range(v->read, p.plan.nentry, p.plan.nentry + p.plan.nexit - 1);
	return &p.plan.read[v->read];
}

static const struct probe_read *result_read(unsigned i)
{
	assert_true(i < p.abi.nresults);
	return exit_read(&p.abi.results[i]);
}

static void expect(unsigned i, enum abi_how how, enum read_kind kind, unsigned loc)
{
	if (p.abi.args[i].how != how)
		fail_msg("argument %u: how %d (%s)", i, p.abi.args[i].how,
			 p.abi.args[i].why ? p.abi.args[i].why : "");
	assert_int_equal(entry_read(i)->kind, kind);
	assert_int_equal(entry_read(i)->a, loc);
}

static void expect_unknown(const struct abi_value *v, const char *why)
{
	assert_int_equal(v->how, ABI_UNKNOWN);
	assert_int_equal(v->read, ABI_NO_READ);
	assert_non_null(v->why);
	assert_string_equal(v->why, why);
}

static void test_mangled(void **state)
{
	(void)state;
	const char *symbol = "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE";
	arena_free(&p.arena);
	memset(&p, 0, sizeof(p));
	take_schema("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
	assert_int_equal(cxx_function_parse(symbol, &p.arena, &p.f), 0);
	assert_int_equal(abi_plan(&p.f, &p.s, &returns_class, &p.arena, &p.plan, &p.abi), 0);
	assert_int_equal(p.abi.nargs, 3);
	/* the hidden pointer is the first integer argument */
	expect(0, ABI_TENSOR, READ_TENSOR, LOC_REG + 1);
	expect(1, ABI_TENSOR, READ_TENSOR, LOC_REG + 2);
	expect(2, ABI_BYTES, READ_MEM, LOC_REG + 3);
	assert_int_equal(entry_read(2)->size, 32);
	assert_int_equal(p.abi.nresults, 1);
	assert_int_equal(p.abi.results[0].how, ABI_TENSOR);
	assert_int_equal(result_read(0)->kind, READ_TENSOR);
	assert_int_equal(result_read(0)->a, LOC_REG);
	assert_int_equal(result_read(0)->off, 0);
	assert_int_equal(p.plan.nentry, 3);
	assert_int_equal(p.plan.nexit, 1);
	assert_int_equal(p.plan.nstack, 0);
	assert_int_equal(p.plan.flags, PLAN_PY | PLAN_FORWARD);
}

/* Without a class as result there is no hidden argument. */
static void test_no_hidden(void **state)
{
	struct func_facts facts = {
	    .exit_kind = EXIT_EMULATED, .ret_known = true, .ret_reg = ARCH_BX, .ret_width = 8};
	(void)state;
	const char *types[] = {TENSOR, "long", NULL};
	const char *schema = "size.int(Tensor self, int dim) -> int";
	assert_int_equal(plan_with(types, schema, &facts), 0);
	expect(0, ABI_TENSOR, READ_TENSOR, LOC_REG);
	expect(1, ABI_WORD, READ_WORD, LOC_REG + 1);
	assert_int_equal(p.abi.args[1].base, CXX_INT64);
	assert_int_equal(p.abi.results[0].how, ABI_WORD);
	assert_int_equal(result_read(0)->kind, READ_WORD);
	assert_int_equal(result_read(0)->a, LOC_NOW | ARCH_BX);

	facts.ret_reg = ARCH_NOREG;
	facts.ret_sp_off = -72;
	assert_int_equal(plan_with(types, schema, &facts), 0);
	assert_int_equal(result_read(0)->kind, READ_SLOT);
	assert_int_equal(result_read(0)->off, -72);

	facts.ret_sp_off = -70000;
	assert_int_equal(plan_with(types, schema, &facts), 0);
	assert_int_equal(p.abi.results[0].how, ABI_UNKNOWN);

	facts.ret_sp_off = -72;
	facts.ret_width = 4;
	assert_int_equal(plan_with(types, schema, &facts), 0);
	expect_unknown(&p.abi.results[0], "the register that holds it at the exit is not known");
	assert_int_equal(p.plan.nexit, 0);
	assert_int_equal(plan_with(types, schema, &returns_plain), 0);
	expect_unknown(&p.abi.results[0], "the register that holds it at the exit is not known");

	assert_int_equal(plan_with((const char *const[]){TENSOR, NULL},
				   "qscheme(Tensor self) -> QScheme", &facts),
			 0);
	expect(0, ABI_TENSOR, READ_TENSOR, LOC_REG);
	expect_unknown(&p.abi.results[0],
		       "a quantization scheme, which is none of the kinds shown");

	const char *none[] = {TENSOR, NULL};
	assert_int_equal(plan_with(none, "f(Tensor self) -> ()", &returns_plain), 0);
	assert_int_equal(p.abi.nresults, 0);
	expect(0, ABI_TENSOR, READ_TENSOR, LOC_REG);
}

/* std::optional has its flag after the value, c10's before it. */
static void test_optional_tensor(void **state)
{
	(void)state;
	PLAN("f(Tensor? a, Tensor? b) -> Tensor", "std::optional<at::Tensor> const&",
	     "c10::optional<at::Tensor> const&");
	expect(0, ABI_TENSOR, READ_OPT_TENSOR, LOC_REG + 1);
	assert_int_equal(entry_read(0)->off, 0);
	assert_int_equal(entry_read(0)->size, 8);
	assert_true(p.abi.args[0].has_flag && p.abi.args[0].std_optional);
	expect(1, ABI_TENSOR, READ_OPT_TENSOR, LOC_REG + 2);
	assert_int_equal(entry_read(1)->off, 8);
	assert_int_equal(entry_read(1)->size, 0);
	assert_true(p.abi.args[1].has_flag && !p.abi.args[1].std_optional);
}

static void test_optional_int(void **state)
{
	(void)state;
	PLAN("f(int? a, int? b) -> Tensor", "std::optional<long>", "c10::optional<long>");
	expect(0, ABI_WORDS, READ_WORD, LOC_REG + 1);
	assert_int_equal(p.plan.read[p.abi.args[0].flag_read].a, LOC_REG + 2);
	expect(1, ABI_WORDS, READ_WORD, LOC_REG + 4);
	assert_int_equal(p.plan.read[p.abi.args[1].flag_read].a, LOC_REG + 3);
}

static void test_optional_small(void **state)
{
	static const char *const types[] = {"std::optional<c10::ScalarType>",
					    "c10::optional<c10::Device>", "std::optional<bool>",
					    "c10::optional<c10::MemoryFormat>", NULL};
	(void)state;
	assert_int_equal(
	    plan_with(types, "f(ScalarType? a, Device? b, bool? c, MemoryFormat? d) -> Tensor",
		      &returns_class),
	    0);
	for (unsigned i = 0; i < 4; i++) {
		expect(i, ABI_WORD, READ_WORD, LOC_REG + 1 + i);
		assert_true(p.abi.args[i].has_flag);
		assert_int_equal(p.abi.args[i].std_optional, i % 2 == 0);
	}
}

static void test_optional_by_reference(void **state)
{
	(void)state;
	PLAN("f(Scalar? a, Scalar? b, SymInt c, SymInt? d, Generator? g) -> Tensor",
	     "std::optional<c10::Scalar> const&", "c10::optional<c10::Scalar> const&",
	     "c10::SymInt", "std::optional<c10::SymInt>", "std::optional<at::Generator>");
	static const unsigned size[] = {40, 48, 8, 16, 16};
	for (unsigned i = 0; i < 5; i++) {
		expect(i, ABI_BYTES, READ_MEM, LOC_REG + 1 + i);
		assert_int_equal(entry_read(i)->size, size[i]);
	}
}

static struct func_facts late_facts(void)
{
	struct func_facts f = returns_class;

	f.late.off = 0x35;
	f.late.sp = 0x128;
	memcpy(f.late.arg, arch_int_arg, sizeof(f.late.arg));
	return f;
}

/* A double arrives in an SSE register; what can be read is the stack slot where the code spills it,
 * after its first instructions. */
static void test_double(void **state)
{
	struct func_facts facts = late_facts();
	(void)state;
	const char *types[] = {TENSOR, "double", "bool", "double", NULL};
	const char *schema = "f(Tensor self, float p, bool train, float q) -> Tensor";
	facts.late.xmm[1] = (struct fp_slot){true, -88};
	assert_int_equal(plan_with(types, schema, &facts), 0);
	expect_unknown(&p.abi.args[1],
		       "passed in an SSE register that the code does not spill to memory");
	expect(2, ABI_WORD, READ_WORD, LOC_REG + 2);
	assert_int_equal(p.abi.args[3].how, ABI_WORD);
	assert_int_equal(p.abi.args[3].base, CXX_DOUBLE);
	assert_int_equal(entry_read(3)->kind, READ_SLOT);
	assert_int_equal(entry_read(3)->off, -88);
	assert_true(p.abi.late);
	assert_int_equal(p.plan.entry_sp, 0x128);
	assert_false(p.plan.flags & PLAN_MOVED);
	/* the result has a read of its own */
	assert_int_equal(result_read(0)->kind, READ_TENSOR);
	assert_int_equal(p.plan.nexit, 1);

	facts.late.xmm[1].sp_off = -40000;
	assert_int_equal(plan_with(types, schema, &facts), 0);
	assert_int_equal(p.abi.args[3].how, ABI_UNKNOWN);
}

/* Without doubles the probe stays at the first instruction. */
static void test_late_not_needed(void **state)
{
	struct func_facts facts = late_facts();
	const char *types[] = {TENSOR, "long", NULL};
	(void)state;
	assert_int_equal(plan_with(types, "f(Tensor self, int p) -> Tensor", &facts), 0);
	assert_false(p.abi.late);
	assert_int_equal(p.plan.entry_sp, 0);
}

/* The integer arguments must still be in registers, whichever they are. */
static void test_late_registers(void **state)
{
	struct func_facts facts = late_facts();
	const char *types[] = {TENSOR, "double", "long", NULL};
	const char *schema = "f(Tensor self, float p, int n) -> Tensor";
	(void)state;
	facts.late.xmm[0] = (struct fp_slot){true, -88};
	facts.late.arg[3] = ARCH_NOREG; /* the result's place, self and n need three */
	assert_int_equal(plan_with(types, schema, &facts), 0);
	assert_true(p.abi.late);
	assert_false(p.plan.flags & PLAN_MOVED);
	facts.late.arg[2] = ARCH_R14;
	assert_int_equal(plan_with(types, schema, &facts), 0);
	assert_true(p.abi.late);
	assert_true(p.plan.flags & PLAN_MOVED);
	assert_int_equal(p.plan.arg_reg[0], ARCH_DI);
	assert_int_equal(p.plan.arg_reg[2], ARCH_R14);
	facts.late.arg[2] = ARCH_NOREG;
	assert_int_equal(plan_with(types, schema, &facts), 0);
	assert_false(p.abi.late);
	assert_int_equal(p.plan.entry_sp, 0);
	assert_int_equal(p.abi.args[1].how, ABI_UNKNOWN);
	expect(2, ABI_WORD, READ_WORD, LOC_REG + 2);
}

/* std::optional<double> is an SSE and an INTEGER eightbyte, c10's two INTEGER ones. */
static void test_optional_double(void **state)
{
	struct func_facts facts = late_facts();
	(void)state;
	const char *types[] = {"std::optional<double>", "c10::optional<double>", "long", NULL};
	facts.late.xmm[0] = (struct fp_slot){true, -24};
	assert_int_equal(plan_with(types, "f(float? a, float? b, int c) -> Tensor", &facts), 0);
	assert_int_equal(p.abi.args[0].how, ABI_WORDS);
	assert_int_equal(entry_read(0)->kind, READ_SLOT);
	assert_int_equal(entry_read(0)->off, -24);
	assert_true(p.abi.args[0].flag_read < p.plan.nentry);
	assert_int_equal(p.plan.read[p.abi.args[0].flag_read].a, LOC_REG + 1);
	expect(1, ABI_WORDS, READ_WORD, LOC_REG + 3);
	assert_int_equal(p.plan.read[p.abi.args[1].flag_read].a, LOC_REG + 2);
	expect(2, ABI_WORD, READ_WORD, LOC_REG + 4);
}

/* The ninth double is passed on the stack, and read there. */
static void test_double_on_stack(void **state)
{
	const char *types[10];
	(void)state;
	for (unsigned i = 0; i < 9; i++)
		types[i] = "double";
	types[9] = NULL;
	assert_int_equal(plan_with(types,
				   "f(float a, float b, float c, float d, float e, float f, "
				   "float g, float h, float i) -> Tensor",
				   &returns_class),
			 0);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(p.abi.args[i].how, ABI_UNKNOWN);
	expect(8, ABI_WORD, READ_WORD, LOC_STACK);
	assert_int_equal(p.plan.nstack, 1);
}

static void test_strings(void **state)
{
	(void)state;
	PLAN("f(str a, str b) -> Tensor", "std::basic_string_view<char, std::char_traits<char> >",
	     "c10::basic_string_view<char>");
	/* std's: length, pointer; c10's: pointer, length */
	expect(0, ABI_STRING, READ_ARRAY, LOC_REG + 2);
	assert_int_equal(entry_read(0)->b, LOC_REG + 1);
	assert_int_equal(entry_read(0)->c, LOC_NONE);
	assert_int_equal(entry_read(0)->size, 1);
	expect(1, ABI_STRING, READ_ARRAY, LOC_REG + 3);
	assert_int_equal(entry_read(1)->b, LOC_REG + 4);

	PLAN("f(str? a, str? b) -> Tensor",
	     "std::optional<std::basic_string_view<char, std::char_traits<char> > >",
	     "c10::optional<c10::basic_string_view<char> >");
	expect(0, ABI_STRING, READ_ARRAY, LOC_STACK + 1);
	assert_int_equal(entry_read(0)->b, LOC_STACK);
	assert_int_equal(entry_read(0)->c, LOC_STACK + 2);
	assert_int_equal(entry_read(0)->deref, 0);
	expect(1, ABI_STRING, READ_ARRAY, LOC_REG + 1);
	assert_int_equal(entry_read(1)->deref, 1);
	assert_int_equal(p.plan.nstack, 3);

	PLAN("f(str? a) -> Tensor", "std::optional<c10::basic_string_view<char> >");
	expect(0, ABI_STRING, READ_ARRAY, LOC_STACK);
	assert_int_equal(entry_read(0)->b, LOC_STACK + 1);
	assert_int_equal(entry_read(0)->c, LOC_STACK + 2);
	assert_int_equal(entry_read(0)->deref, 0);
}

static void test_arrays(void **state)
{
	(void)state;
	PLAN("f(int[] a, Tensor[] b, int[]? c, SymInt[] d) -> Tensor", "c10::ArrayRef<long>",
	     "c10::ArrayRef<at::Tensor>", "std::optional<c10::ArrayRef<long> >",
	     "c10::ArrayRef<c10::SymInt>");
	expect(0, ABI_ARRAY, READ_ARRAY, LOC_REG + 1);
	assert_int_equal(entry_read(0)->b, LOC_REG + 2);
	assert_int_equal(entry_read(0)->c, LOC_NONE);
	assert_int_equal(entry_read(0)->size, 8);
	expect(1, ABI_TENSORS, READ_TENSORS, LOC_REG + 3);
	assert_int_equal(entry_read(1)->b, LOC_REG + 4);
	expect(2, ABI_ARRAY, READ_ARRAY, LOC_STACK);
	assert_int_equal(entry_read(2)->b, LOC_STACK + 1);
	assert_int_equal(entry_read(2)->c, LOC_STACK + 2);
	/* one register is left: an ArrayRef needs two and goes entirely to the stack */
	expect(3, ABI_ARRAY, READ_ARRAY, LOC_STACK + 3);
	assert_int_equal(p.plan.nstack, 5);

	/* c10's specialized optional of an ArrayRef is no larger */
	PLAN("f(int[]? a, Scalar[] b, bool c) -> Tensor", "c10::optional<c10::ArrayRef<long> >",
	     "c10::ArrayRef<c10::Scalar>", "bool");
	expect(0, ABI_ARRAY, READ_ARRAY, LOC_REG + 1);
	assert_int_equal(entry_read(0)->c, LOC_NONE);
	assert_int_equal(entry_read(1)->size, 32);
	expect(2, ABI_WORD, READ_WORD, LOC_REG + 5);
}

static void test_other_lists(void **state)
{
	(void)state;
	PLAN("f(bool[3] a, Tensor?[] b, Tensor[] c) -> Tensor", "std::array<bool, 3ul>",
	     "c10::List<std::optional<at::Tensor> > const&", "c10::IListRef<at::Tensor> const&");
	expect(0, ABI_BOOLS, READ_WORD, LOC_REG + 1);
	assert_int_equal(p.abi.args[0].count, 3);
	expect(1, ABI_LIST, READ_LIST, LOC_REG + 2);
	expect(2, ABI_TENSORS, READ_ILIST, LOC_REG + 3);
}

/* Arrays are read only if they are certainly bools in one register; later arguments only if their
 * place is known. */
static void test_std_arrays(void **state)
{
	static const char *const unknown[] = {
	    "std::array<bool, 9ul>",
	    "std::array<bool, 17ul>",
	    "std::array<long, 1ul>",
	    "std::optional<std::array<bool, 3ul> >",
	    "std::array<std::optional<bool>, 3ul>",
	};
	(void)state;
	PLAN("f(bool[8] a, Tensor b) -> Tensor", "std::array<bool, 8ul>", TENSOR);
	expect(0, ABI_BOOLS, READ_WORD, LOC_REG + 1);
	expect(1, ABI_TENSOR, READ_TENSOR, LOC_REG + 2);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		PLAN("f(bool[3] a, Tensor b) -> Tensor", unknown[i], TENSOR);
		expect_unknown(&p.abi.args[0], "an array that is not one of up to eight bools");
		expect_unknown(&p.abi.args[1], "passed after a type ditrace does not know");
	}
	PLAN("f(bool[3] a, Tensor b) -> Tensor", "std::array<bool, 3ul> const&", TENSOR);
	expect_unknown(&p.abi.args[0], "an array that is not one of up to eight bools");
	expect(1, ABI_TENSOR, READ_TENSOR, LOC_REG + 2);
}

/* Arrays of elements of unknown size are not decoded as words. */
static void test_unknown_elements(void **state)
{
	static const char *const unknown[] = {"c10::ArrayRef<bool>", "c10::ArrayRef<c10::Device>",
					      "c10::ArrayRef<std::optional<at::Tensor> >",
					      "c10::ArrayRef<std::optional<long> >"};
	(void)state;
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		PLAN("f(int[] a, Tensor b) -> Tensor", unknown[i], TENSOR);
		expect_unknown(&p.abi.args[0], "a list of a C++ type ditrace does not know");
		expect(1, ABI_TENSOR, READ_TENSOR, LOC_REG + 3);
	}
}

/* An optional list of tensors is not decoded, with a reason. */
static void test_optional_tensors(void **state)
{
	(void)state;
	PLAN("f(Tensor[]? a) -> Tensor", "std::optional<c10::ArrayRef<at::Tensor> >");
	assert_int_equal(p.abi.args[0].how, ABI_UNKNOWN);
	assert_non_null(p.abi.args[0].why);
}

static void test_stack(void **state)
{
	(void)state;
	PLAN("f(Tensor a, int b, int c, int d, int e, int[] f, bool g, int h) -> Tensor", TENSOR,
	     "long", "long", "long", "long", "c10::ArrayRef<long>", "bool", "long");
	expect(4, ABI_WORD, READ_WORD, LOC_REG + 5);
	expect(5, ABI_ARRAY, READ_ARRAY, LOC_STACK);
	assert_int_equal(entry_read(5)->b, LOC_STACK + 1);
	expect(6, ABI_WORD, READ_WORD, LOC_STACK + 2);
	expect(7, ABI_WORD, READ_WORD, LOC_STACK + 3);
	assert_int_equal(p.plan.nstack, 4);

	/* an argument that does not fit leaves the register to the next */
	PLAN("f(int a, int b, int c, int d, int[] e, bool g) -> Tensor", "long", "long", "long",
	     "long", "c10::ArrayRef<long>", "bool");
	expect(4, ABI_ARRAY, READ_ARRAY, LOC_STACK);
	expect(5, ABI_WORD, READ_WORD, LOC_REG + 5);
}

static const char many[] =
    "f(int a, int a, int a, int a, int a, int a, int a, int a, int a, int a, int a, int a, "
    "int a, int a, int a, int a, int a, int a, int a, int a, int a, int a, int a, int a, "
    "int a, int a, int a, int a, int a, int a, int a, int a, int a) -> Tensor";

static void test_too_many(void **state)
{
	const char *types[PARAMS_MAX] = {0};
	(void)state;
	for (unsigned i = 0; i < 33; i++)
		types[i] = "long";
	assert_int_equal(plan_with(types, many, &returns_class), 0);
	/* reads run out before stack slots do */
	expect(PLAN_READS - 1, ABI_WORD, READ_WORD, LOC_STACK + PLAN_READS - 6);
	expect_unknown(&p.abi.args[PLAN_READS], "too many arguments");
	expect_unknown(&p.abi.args[32], "passed too far up the stack");
	expect_unknown(&p.abi.results[0], "too many arguments");
	assert_int_equal(p.plan.nentry, PLAN_READS);
	assert_int_equal(p.plan.nexit, 0);
	assert_int_equal(p.plan.nstack, LOC_MAX - LOC_STACK);

	/* the value of an optional still fits, its flag does not */
	types[PLAN_READS - 1] = "std::optional<long>";
	assert_int_equal(plan_with(types, many, &returns_class), 0);
	expect_unknown(&p.abi.args[PLAN_READS - 1], "too many arguments");
	assert_true(p.plan.nentry + p.plan.nexit <= PLAN_READS);
}

/* A type of unknown class uses an unknown number of registers: later arguments are unknown. */
static void test_unknown_type(void **state)
{
	(void)state;
	PLAN("f(Foo a, Tensor b) -> Tensor", "ns::Thing const&", TENSOR);
	assert_int_equal(p.abi.args[0].how, ABI_UNKNOWN);
	expect(1, ABI_TENSOR, READ_TENSOR, LOC_REG + 2);
	PLAN("f(Tensor a, Foo b, Tensor c, int d) -> Tensor", TENSOR, "ns::Thing", TENSOR, "long");
	expect(0, ABI_TENSOR, READ_TENSOR, LOC_REG + 1);
	assert_int_equal(p.abi.args[1].how, ABI_UNKNOWN);
	for (unsigned i = 2; i < 4; i++)
		if (p.abi.args[i].how != ABI_UNKNOWN)
			fail_msg("argument %u is taken from a place that is a guess", i);
	assert_int_equal(p.abi.results[0].how, ABI_TENSOR);
}

static void test_not_shown(void **state)
{
	(void)state;
	PLAN("f(Storage a, Stream b, Tensor c) -> Tensor", "c10::Storage", "c10::Stream", TENSOR);
	expect_unknown(&p.abi.args[0], "a storage, which is none of the kinds shown");
	expect_unknown(&p.abi.args[1], "a stream, which is none of the kinds shown");
	expect(2, ABI_TENSOR, READ_TENSOR, LOC_REG + 4);
}

/* Tensor(a!) is a reference to the argument with that alias set: read again at the exit. */
static void test_written(void **state)
{
	(void)state;
	const char *types[] = {"at::Tensor&", TENSOR, NULL};
	assert_int_equal(
	    plan_with(types, "add_(Tensor(a!) self, Tensor other) -> Tensor(a!)", &returns_plain),
	    0);
	expect(0, ABI_TENSOR, READ_TENSOR, LOC_REG);
	assert_int_equal(result_read(0)->kind, READ_TENSOR);
	assert_int_equal(result_read(0)->a, LOC_REG);

	const char *out[] = {TENSOR, "long", "at::Tensor&", "at::Tensor&", NULL};
	assert_int_equal(plan_with(out,
				   "m.out(Tensor self, int dim, *, Tensor(a!) max, Tensor(b!) "
				   "values) -> (Tensor(a!) max, Tensor(b!) values)",
				   &returns_class),
			 0);
	/* two references are returned as a tuple, through a hidden pointer */
	expect(0, ABI_TENSOR, READ_TENSOR, LOC_REG + 1);
	assert_int_equal(result_read(0)->a, LOC_REG + 3);
	assert_int_equal(result_read(1)->a, LOC_REG + 4);

	assert_int_equal(
	    plan_with(types, "f(Tensor(a!) self, Tensor other) -> Tensor(c!)", &returns_plain), 0);
	expect_unknown(&p.abi.results[0], "a reference to an unknown argument");
}

/* libstdc++ stores tuples from the last element to the first. */
static void test_tuples(void **state)
{
	(void)state;
	PLAN("f(Tensor a) -> (Tensor, Tensor, Tensor)", TENSOR);
	static const int off[] = {16, 8, 0};
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(result_read(i)->kind, READ_TENSOR);
		assert_int_equal(result_read(i)->a, LOC_REG);
		assert_int_equal(result_read(i)->off, off[i]);
	}
	/* {SymInt at 0, bool at 8, float at 16, Scalar at 32, Tensor[] at 64} */
	PLAN("f(Tensor a) -> (Tensor[], Scalar, float, bool, SymInt)", TENSOR);
	static const struct {
		int off;
		uint8_t kind, how, base;
	} want[] = {{64, READ_VECTOR, ABI_TENSORS, CXX_TENSOR},
		    {32, READ_MEM, ABI_BYTES, CXX_SCALAR},
		    {16, READ_MEM, ABI_BYTES, CXX_DOUBLE},
		    {8, READ_MEM, ABI_BYTES, CXX_BOOL},
		    {0, READ_MEM, ABI_BYTES, CXX_SYMINT}};
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(result_read(i)->off, want[i].off);
		assert_int_equal(result_read(i)->kind, want[i].kind);
		assert_int_equal(p.abi.results[i].how, want[i].how);
		assert_int_equal(p.abi.results[i].base, want[i].base);
	}
	assert_int_equal(result_read(1)->size, 32);
	/* one unknown element makes the offsets of all others unknown */
	PLAN("f(Tensor a) -> (Tensor, Foo)", TENSOR);
	assert_int_equal(p.abi.results[0].how, ABI_UNKNOWN);
	assert_int_equal(p.abi.results[1].how, ABI_UNKNOWN);
}

static void test_results(void **state)
{
	(void)state;
	PLAN("f(Tensor a) -> Tensor[]", TENSOR);
	assert_int_equal(p.abi.results[0].how, ABI_TENSORS);
	assert_int_equal(result_read(0)->kind, READ_VECTOR);
	PLAN("f(Tensor a) -> Scalar", TENSOR);
	assert_int_equal(result_read(0)->kind, READ_MEM);
	assert_int_equal(result_read(0)->size, 32);
	expect(0, ABI_TENSOR, READ_TENSOR, LOC_REG + 1);
	const char *types[] = {TENSOR, NULL};
	assert_int_equal(plan_with(types, "f(Tensor a) -> float", &returns_plain), 0);
	expect(0, ABI_TENSOR, READ_TENSOR, LOC_REG);
	expect_unknown(&p.abi.results[0], "returned in an SSE register");
	/* unknown type, but the code returns the hidden pointer */
	PLAN("f(Tensor a) -> Foo", TENSOR);
	expect(0, ABI_TENSOR, READ_TENSOR, LOC_REG + 1);
	assert_int_equal(p.abi.results[0].how, ABI_UNKNOWN);
}

static void test_mismatch(void **state)
{
	(void)state;
	const char *one[] = {TENSOR, NULL}, *two[] = {TENSOR, "long", NULL};
	const char *schema = "f(Tensor a, int b) -> Tensor";
	assert_int_equal(plan_with(one, schema, &returns_class), -EPROTO);
	assert_int_equal(plan_with(two, "f(Tensor a) -> Tensor", &returns_class), -EPROTO);
	/* the code returns a class, the schema says otherwise */
	assert_int_equal(plan_with(two, "f(Tensor a, int b) -> int", &returns_class), -EPROTO);
	assert_int_equal(plan_with(two, "f(Tensor a, int b) -> ()", &returns_class), -EPROTO);
	/* unknown whether there is a hidden pointer */
	assert_int_equal(plan_with(two, "f(Tensor a, int b) -> Foo", &returns_plain), -EPROTO);
	assert_int_equal(plan_with(two, schema, &returns_class), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_mangled),	     cmocka_unit_test(test_no_hidden),
	    cmocka_unit_test(test_optional_tensor),  cmocka_unit_test(test_optional_int),
	    cmocka_unit_test(test_optional_small),   cmocka_unit_test(test_optional_by_reference),
	    cmocka_unit_test(test_double),	     cmocka_unit_test(test_late_not_needed),
	    cmocka_unit_test(test_late_registers),   cmocka_unit_test(test_optional_double),
	    cmocka_unit_test(test_double_on_stack),  cmocka_unit_test(test_strings),
	    cmocka_unit_test(test_arrays),	     cmocka_unit_test(test_other_lists),
	    cmocka_unit_test(test_std_arrays),	     cmocka_unit_test(test_unknown_elements),
	    cmocka_unit_test(test_optional_tensors), cmocka_unit_test(test_stack),
	    cmocka_unit_test(test_too_many),	     cmocka_unit_test(test_unknown_type),
	    cmocka_unit_test(test_not_shown),	     cmocka_unit_test(test_written),
	    cmocka_unit_test(test_tuples),	     cmocka_unit_test(test_results),
	    cmocka_unit_test(test_mismatch),
	};
	return unit_run(tests, NULL, teardown);
}
