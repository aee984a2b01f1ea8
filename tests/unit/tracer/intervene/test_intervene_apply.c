/* --apply OP:FEATURE[:CONDITION], with ditorch's variables. */

#include "tests/unit/unit.h"

#include "tracer/intervene/intervene_rules.h"

static const char *feature_of(const char *text)
{
	static char feature[32];
	struct intervene_apply a;
	struct err e = {0};
	assert_int_equal(intervene_apply_read(text, &a, &e), 0);
	snprintf(feature, sizeof(feature), "%s%s", a.feature, a.when ? "?" : "");
	intervene_apply_free(&a);
	return feature;
}

static void features(void **state)
{
	(void)state;
	static const struct {
		const char *text, *feature;
	} cases[] = {
	    {"torch.add:fallback", "fallback"},
	    {"torch.add:cast_dtype", "cast"},

	    {"torch.add:op_capture", "capture"},
	    {"torch.add:autocompare", "compare"},
	    {"torch.add:dump_op_args", "print"},
	    {"torch.add:measure_op_time", "time"},
	    {"torch.add:overflow_check", "overflow"},
	    {"aten::add.Tensor:fallback", "fallback"},
	    {"pkg.Class.method:print:self.dim() == 2", "print?"},
	    {"torch.add:fallback:self.dtype == float16 and args[1].shape[0] > 2", "fallback?"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(feature_of(cases[i].text), cases[i].feature);
}

static void wrong(void **state)
{
	(void)state;
	static const char *const texts[] = {
	    "",
	    "torch.add",
	    ":fallback",
	    "torch.add:",
	    "torch.add::",
	    "aten::add",
	    "torch.add:Fallback",
	    "torch.add:fall",
	    "torch.add:fallback:",
	    "torch.add:fallback:self.dtypo == 1",
	    "torch.add:fallback:elapsed > 1ms",
	    "torch.add:fallback:results[0].dim() == 1",
	    "(:fallback",
	    "torch.add:fallback:self.dim() ==",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct intervene_apply a;
		struct err e = {0};
		assert_int_equal(intervene_apply_read(texts[i], &a, &e), -22 /* EINVAL */);
		assert_string_not_equal(e.hint, "");
		intervene_apply_free(&a);
	}
}

static struct intervene_rules rules_of(const char *const *texts, size_t n, const char *not_ops)
{
	struct intervene_opts o = {.not_ops = not_ops};
	struct intervene_rules r;
	struct err e = {0};
	while (o.apply.n < n) {
		o.apply.list[o.apply.n] = texts[o.apply.n];
		o.apply.n++;
	}
	assert_int_equal(intervene_rules_read(&o, &r, &e), 0);
	return r;
}

static enum intervene_applied applied(const char *const *texts, size_t n, const char *not_ops,
				      enum intervene_feature f, const char *name, const char *base)
{
	struct intervene_rules r = rules_of(texts, n, not_ops);
	enum intervene_applied a = intervene_rules_apply(&r, f, name, base);
	intervene_rules_free(&r);
	return a;
}

static void several(void **state)
{
	(void)state;
	static const char *const two[] = {"torch.add,mul:fallback:self.dim() == 1",
					  "torch.add:print", "add:fallback"};
	const enum intervene_feature F = INTERVENE_FALLBACK, P = INTERVENE_PRINT;
	assert_int_equal(applied(two, 1, NULL, F, "torch.add", "add"), APPLIED_WHEN);
	assert_int_equal(applied(two, 3, NULL, F, "torch.add", "add"), APPLIED_ALWAYS);
	assert_int_equal(applied(two, 3, NULL, F, "torch.Tensor.mul", "mul"), APPLIED_WHEN);
	assert_int_equal(applied(two, 2, NULL, P, "torch.add", "add"), APPLIED_ALWAYS);
	assert_int_equal(applied(two, 2, NULL, P, "torch.Tensor.add", "add"), APPLIED_NOT);
	assert_int_equal(applied(two, 3, "add", F, "torch.add", "add"), APPLIED_NOT);
}

static void variables(void **state)
{
	(void)state;
	static const char *const all[] = {".*:dump_op_args", ".*:measure_op_time", ".*:op_capture"};
	static const struct {
		const char *variable;
		enum intervene_feature feature;
	} cases[] = {{"OP_OBSERVE_DISABLE_LIST", INTERVENE_PRINT},
		     {"OP_TIME_MEASURE_DISABLE_LIST", INTERVENE_TIME},
		     {"OP_CAPTURE_DISABLE_LIST", INTERVENE_CAPTURE}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum intervene_feature f = cases[i].feature;
		setenv(cases[i].variable, "torch.add,torch.*sub", 1);
		assert_int_equal(applied(all, 3, NULL, f, "torch.add", "add"), APPLIED_NOT);
		assert_int_equal(applied(all, 3, NULL, f, "torch.Tensor.sub", "sub"), APPLIED_NOT);
		assert_int_equal(applied(all, 3, NULL, f, "torch.Tensor.add", "add"),
				 APPLIED_ALWAYS);
		setenv(cases[i].variable, "", 1);
		assert_int_equal(applied(all, 3, NULL, f, "torch.add", "add"), APPLIED_ALWAYS);
		unsetenv(cases[i].variable);
	}
	setenv("OP_OBSERVE_LIST", "torch.mul", 1);
	assert_int_equal(applied(all, 1, NULL, INTERVENE_PRINT, "torch.add", "add"), APPLIED_NOT);
	assert_int_equal(applied(all, 1, NULL, INTERVENE_PRINT, "torch.mul", "mul"),
			 APPLIED_ALWAYS);
	unsetenv("OP_OBSERVE_LIST");
}

static void full_names(void **state)
{
	(void)state;
	static const char *const texts[] = {"flash_attn.flash_attn_func:fallback",
					    "add,torch.*mul:print", "a.B.c,.x,x.,a..b:time"};
	struct intervene_rules r = rules_of(texts, 3, NULL);
	json_t *names = intervene_rules_functions(&r);
	assert_int_equal(json_array_size(names), 2);
	assert_string_equal(json_string_value(json_array_get(names, 0)),
			    "flash_attn.flash_attn_func");
	assert_string_equal(json_string_value(json_array_get(names, 1)), "a.B.c");
	json_decref(names);
	intervene_rules_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(features),	 cmocka_unit_test(wrong),      cmocka_unit_test(several),
	    cmocka_unit_test(variables), cmocka_unit_test(full_names),
	};
	return unit_run(tests, NULL, NULL);
}
