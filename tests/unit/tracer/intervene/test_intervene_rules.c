/* Lists and dtypes of --fallback and --cast, and ditorch's variables. */

#include "tests/unit/unit.h"

#include "tracer/intervene/intervene.h"

static bool chooses(const struct intervene_opts *o, enum intervene_feature f, const char *name,
		    const char *base)
{
	struct intervene_rules r;
	struct err e = {0};
	assert_int_equal(intervene_rules_read(o, &r, &e), 0);
	bool yes = intervene_rules_choose(&r, f, name, base);
	intervene_rules_free(&r);
	return yes;
}

static bool falls_back(const char *list, const char *name, const char *base)
{
	return chooses(&(struct intervene_opts){.fallback = list}, INTERVENE_FALLBACK, name, base);
}

static void names(void **state)
{
	(void)state;
	assert_true(falls_back("torch.add", "torch.add", "add"));
	assert_false(falls_back("torch.add", "torch.Tensor.add", "add"));
	assert_true(falls_back("mul,add", "torch.Tensor.add", "add"));
	assert_false(falls_back("add", "torch.Tensor.add_", "add_"));
	assert_true(falls_back("_foreach_.*", "torch._foreach_add", "_foreach_add"));
	assert_true(falls_back("torch.*softmax", "torch.nn.functional.softmax", "softmax"));
	assert_false(falls_back("soft", "torch.nn.functional.softmax", "softmax"));
}

static void all_but(void **state)
{
	(void)state;
	const struct intervene_opts o = {.fallback_all = true, .not_ops = "torch.mul,add"};
	assert_true(chooses(&o, INTERVENE_FALLBACK, "torch.sub", "sub"));
	assert_true(chooses(&o, INTERVENE_FALLBACK, "torch.Tensor.mul", "mul"));
	assert_false(chooses(&o, INTERVENE_FALLBACK, "torch.mul", "mul"));
	assert_false(chooses(&o, INTERVENE_FALLBACK, "torch.Tensor.add", "add"));
	assert_false(chooses(&o, INTERVENE_CAST, "torch.sub", "sub"));
}

static void variables(void **state)
{
	(void)state;
	const struct intervene_opts all = {.fallback_all = true}, list = {.fallback = "torch.mul"};
	setenv("OP_FALLBACK_LIST", "torch.add,sub,torch.*div", 1);
	assert_true(chooses(&all, INTERVENE_FALLBACK, "torch.add", "add"));
	assert_false(chooses(&all, INTERVENE_FALLBACK, "torch.sub", "sub"));
	assert_true(chooses(&all, INTERVENE_FALLBACK, "torch.Tensor.div", "div"));
	assert_true(chooses(&list, INTERVENE_FALLBACK, "torch.mul", "mul"));
	setenv("OP_FALLBACK_DISABLE_LIST", "torch.add,torch.mul", 1);
	assert_false(chooses(&all, INTERVENE_FALLBACK, "torch.add", "add"));
	assert_false(chooses(&list, INTERVENE_FALLBACK, "torch.mul", "mul"));
	setenv("OP_FALLBACK_LIST", "", 1);
	assert_false(chooses(&all, INTERVENE_FALLBACK, "torch.Tensor.div", "div"));
	unsetenv("OP_FALLBACK_LIST");
	unsetenv("OP_FALLBACK_DISABLE_LIST");
}

/* As is_opname_match in ditorch's op_tools/utils.py; NULL: variable not set. */
static void lists_of_ditorch(void **state)
{
	(void)state;
	static const struct {
		const char *name, *only, *disabled;
		bool yes;
	} cases[] = {
	    {"torch.add", NULL, NULL, true},
	    {"torch.add", "torch.add", NULL, true},
	    {"torch.add", "torch.mul", NULL, false},
	    {"torch.add", "torch.addc,torch.sub", NULL, false},
	    {"torch.addc", "torch.add,torch.sub", NULL, false},
	    {"torch.sub", "torch.addc,torch.sub", NULL, true},
	    {"torch.add", ".*", NULL, true},
	    {"torch.add", "torch.mul,.*", NULL, true},
	    {"torch.add", "", NULL, false},
	    {"torch.add", "add", NULL, false},
	    {"torch.add", ".add", NULL, false},
	    {"torch.add", ".*add", NULL, true},
	    {"torch.add", "Torch.Add", NULL, false},
	    {"torch.add", "torch.mul, torch.add", NULL, false}, /* blanks are not stripped */
	    {"torch.add", "(torch.add)", NULL, true},
	    {"torch.add", "torch.(add|mul)", NULL, false}, /* findall returns the group */
	    {"torch.add", "torch.(?:add|mul)", NULL, true},
	    {"torch.add", NULL, "", true},
	    {"torch.add", NULL, "torch.add", false},
	    {"torch.add", NULL, "add", true},
	    {"torch.add", "torch.add", "torch.add", false},
	    {"torch.add", ".*", "torch.a.*", false},
	    {"torch.add", "", "", false},
	    {"torch_mlu.fused_l2_norm", "torch_mlu.*", NULL, true},
	};
	const struct intervene_opts all = {.fallback_all = true};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (cases[i].only)
			setenv("OP_FALLBACK_LIST", cases[i].only, 1);
		if (cases[i].disabled)
			setenv("OP_FALLBACK_DISABLE_LIST", cases[i].disabled, 1);
		const char *dot = strrchr(cases[i].name, '.');
		if (chooses(&all, INTERVENE_FALLBACK, cases[i].name, dot + 1) != cases[i].yes)
			fail_msg("%s of %s", cases[i].name, cases[i].only ? cases[i].only : "all");
		unsetenv("OP_FALLBACK_LIST");
		unsetenv("OP_FALLBACK_DISABLE_LIST");
	}
}

static const char *cast_of(const char *text, const char *from, struct err *e)
{
	static char found[32];
	struct intervene_rules r;
	*e = (struct err){0};
	found[0] = '\0';
	if (!intervene_rules_read(&(struct intervene_opts){.cast = text}, &r, e)) {
		const char *to = json_string_value(json_object_get(r.casts, from));
		snprintf(found, sizeof(found), "%s", to ? to : "");
	}
	intervene_rules_free(&r);
	return found;
}

static void casts(void **state)
{
	(void)state;
	struct err e;
	const char *two = "torch.float16->torch.float32,torch.bfloat16->float";
	assert_string_equal(cast_of(two, "float16", &e), "float32");
	assert_string_equal(cast_of(two, "bfloat16", &e), "float32");
	assert_string_equal(cast_of("torch.half->torch.bfloat16", "float16", &e), "bfloat16");
	assert_string_equal(cast_of(" torch.half -> double , float->half", "float32", &e),
			    "float16");
	assert_string_equal(cast_of("long->int,chalf->cfloat", "int64", &e), "int32");
	assert_string_equal(cast_of("long->int,chalf->cfloat", "complex32", &e), "complex64");
	setenv("OP_DTYPE_CAST_DICT", "float32->double", 1);
	assert_string_equal(cast_of("env", "float32", &e), "float64");
	unsetenv("OP_DTYPE_CAST_DICT");
	static const char *const wrong[] = {"",
					    "env",
					    "float16",
					    "float16->",
					    "float16->int8",
					    "float16->float32,",
					    "->float32",
					    "a->b",
					    "int64->float32",
					    "float32->float",
					    "int32->int64",
					    "int64->uint8",
					    "uint8->int32",
					    "bool->int8",
					    "qint8->int8",
					    "complex64->float32"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cast_of(wrong[i], "float16", &e);
		assert_int_equal(e.code, -22 /* EINVAL */);
		assert_string_not_equal(e.hint, "");
	}
}

static void samples(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t every; /* 0: error */
	} cases[] = {{NULL, 1}, {"1/1", 1}, {"1/50", 50}, {"1/0", 0}, {"50", 0},
		     {"", 0},	{"1/", 0},  {"1/-2", 0},  {"1/2x", 0}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct intervene_rules r;
		struct err e = {0};
		const struct intervene_opts o = {.compare = "all", .sample = cases[i].text};
		int rc = intervene_rules_read(&o, &r, &e);
		assert_int_equal(rc, cases[i].every ? 0 : -22 /* EINVAL */);
		if (cases[i].every)
			assert_int_equal(r.sample, cases[i].every);
		intervene_rules_free(&r);
	}
	struct intervene_rules r;
	const struct intervene_opts o = {.compare = "all", .every = 7};
	assert_int_equal(intervene_rules_read(&o, &r, NULL), 0);
	assert_int_equal(r.sample, 7);
	intervene_rules_free(&r);
}

static void compared(void **state)
{
	(void)state;
	const struct intervene_opts all = {.compare = "all"}, one = {.compare = "gelu"};
	assert_true(chooses(&all, INTERVENE_COMPARE, "torch.add", "add"));
	assert_false(chooses(&all, INTERVENE_FALLBACK, "torch.add", "add"));
	assert_true(chooses(&one, INTERVENE_COMPARE, "torch.nn.functional.gelu", "gelu"));
	assert_false(chooses(&one, INTERVENE_COMPARE, "torch.add", "add"));
	setenv("OP_AUTOCOMPARE_LIST", "torch.mul", 1);
	assert_false(chooses(&all, INTERVENE_COMPARE, "torch.add", "add"));
	unsetenv("OP_AUTOCOMPARE_LIST");
	setenv("OP_AUTOCOMPARE_DISABLE_LIST", "torch.*gelu", 1);
	assert_false(chooses(&one, INTERVENE_COMPARE, "torch.nn.functional.gelu", "gelu"));
	unsetenv("OP_AUTOCOMPARE_DISABLE_LIST");
}

static void overflow_and_level(void **state)
{
	(void)state;
	const struct intervene_opts all = {.overflow = true},
				    one = {.overflow = true, .ops = "log"},
				    aten = {.fallback = "aten::add.Tensor,mul", .level = "aten"},
				    torch = {.fallback = "aten::add", .level = "torch"},
				    wrong = {.overflow = true, .level = "jit"};
	struct intervene_rules r;
	struct err e = {0};
	assert_true(chooses(&all, INTERVENE_OVERFLOW, "torch.log", "log"));
	assert_true(chooses(&one, INTERVENE_OVERFLOW, "torch.log", "log"));
	assert_false(chooses(&one, INTERVENE_OVERFLOW, "torch.exp", "exp"));
	setenv("OP_OVERFLOW_CHECK_DISABLE_LIST", "torch.log", 1);
	assert_false(chooses(&all, INTERVENE_OVERFLOW, "torch.log", "log"));
	unsetenv("OP_OVERFLOW_CHECK_DISABLE_LIST");
	assert_true(chooses(&aten, INTERVENE_FALLBACK, "aten::add.Tensor", "add"));
	assert_true(chooses(&aten, INTERVENE_FALLBACK, "aten::mul.Scalar", "mul"));
	assert_false(chooses(&aten, INTERVENE_FALLBACK, "aten::add.Scalar", "add"));
	assert_int_equal(intervene_rules_read(&torch, &r, &e), -22 /* EINVAL */);
	intervene_rules_free(&r);
	assert_int_equal(intervene_rules_read(&wrong, &r, &e), -22 /* EINVAL */);
	intervene_rules_free(&r);
}

static void wrong_lists(void **state)
{
	(void)state;
	static const char *const wrong[] = {"", "aten::add", "torch.add,(", "a,aten::mul.Tensor"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct intervene_rules r;
		struct err e = {0};
		const struct intervene_opts o = {.fallback = wrong[i]};
		assert_int_equal(intervene_rules_read(&o, &r, &e), -22 /* EINVAL */);
		assert_string_not_equal(e.hint, "");
		intervene_rules_free(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names),
	    cmocka_unit_test(all_but),
	    cmocka_unit_test(variables),
	    cmocka_unit_test(casts),
	    cmocka_unit_test(lists_of_ditorch),
	    cmocka_unit_test(wrong_lists),
	    cmocka_unit_test(samples),
	    cmocka_unit_test(compared),
	    cmocka_unit_test(overflow_and_level),
	};
	return unit_run(tests, NULL, NULL);
}
