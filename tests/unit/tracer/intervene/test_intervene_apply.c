/* --apply OP:FEATURE[:CONDITION], with ditorch's variables. */
#include "tests/unit/unit.h"

#include "symbolizer/when/when.h"
#include "tracer/intervene/internal.h"
#include "tracer/intervene/intervene.h"

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

/* The arguments of a call as its program describes them, for conditions. */

#define TENSOR                                                                                     \
	"{\"tensor\": {\"shape\": [2, 3], \"stride\": [3, 1], \"offset\": 1, \"dtype\": "          \
	"\"float16\", \"device\": \"cuda:1\", \"layout\": \"strided\", \"requires_grad\": true}}"

/* Texts of the event are in *args, which the caller frees. */
static int read_facts(const char *text, json_t **args, struct arena *a, struct op_event *ev)
{
	*args = json_loads(text, 0, NULL);
	assert_non_null(*args);
	return intervene_facts("torch.add", *args, a, ev);
}

static void conditions(void **state)
{
	(void)state;
	static const char facts[] =
	    "[[\"self\", " TENSOR
	    "], [\"alpha\", 2], [\"p\", 0.5], [\"flag\", true], [\"none\", null], "
	    "[\"mode\", {\"text\": \"mean\"}], [\"to\", {\"dtype\": \"bfloat16\"}], [\"list\", [1, "
	    "2, " TENSOR "]], [\"on\", {\"device\": \"npu\"}], [\"other\", {}]]";
	static const struct {
		const char *text;
		enum when_result is;
	} cases[] = {
	    {"self.dtype == float16", WHEN_TRUE},
	    {"self.dtype == float32", WHEN_FALSE},
	    {"self.dim() == 2 and self.shape[1] == 3 and self.numel() == 6", WHEN_TRUE},
	    {"self.requires_grad and self.device == \"cuda:1\"", WHEN_TRUE},
	    {"args[0].stride[0] == 3", WHEN_TRUE},
	    {"alpha == 2 and p < 1 and flag", WHEN_TRUE},
	    {"none is None", WHEN_TRUE},
	    {"mode == \"mean\"", WHEN_TRUE},
	    {"to == bfloat16", WHEN_TRUE},
	    {"list[2].dtype == float16 and list[0] == 1", WHEN_TRUE},
	    {"any(t.dtype == float16 for t in inputs)", WHEN_TRUE},
	    {"missing == 1", WHEN_FALSE},
	    {"other == 1", WHEN_UNKNOWN},
	};
	struct arena arena = {0};
	struct op_event ev;
	json_t *args;
	assert_int_equal(read_facts(facts, &args, &arena, &ev), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct when *w;
		struct err e = {0};
		if (when_compile("--apply", cases[i].text, &w, &e))
			fail_msg("%s: %s", cases[i].text, e.what);
		if (when_eval(w, &ev, WHEN_AT_EXIT) != cases[i].is)
			fail_msg("%s is %d", cases[i].text, when_eval(w, &ev, WHEN_AT_EXIT));
		when_free(w);
	}
	arena_free(&arena);
	json_decref(args);
}

static void wrong_facts(void **state)
{
	(void)state;
	static const char *const texts[] = {
	    "[[1, 2]]",
	    "[[\"self\"]]",
	    "[\"self\"]",
	    "[[\"self\", \"text\"]]",
	    "[[\"self\", {\"tensor\": {}}]]",
	    "[[\"self\", {\"tensor\": {\"shape\": [1], \"dtype\": \"float17\", \"device\": "
	    "\"cpu\", "
	    "\"layout\": \"strided\"}}]]",
	    "[[\"self\", {\"dtype\": \"float17\"}]]",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct arena arena = {0};
		struct op_event ev;
		json_t *args;
		if (read_facts(texts[i], &args, &arena, &ev) != -71 /* EPROTO */)
			fail_msg("%s is taken", texts[i]);
		arena_free(&arena);
		json_decref(args);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(features),	   cmocka_unit_test(wrong),
	    cmocka_unit_test(several),	   cmocka_unit_test(variables),
	    cmocka_unit_test(full_names),  cmocka_unit_test(conditions),
	    cmocka_unit_test(wrong_facts),
	};
	return unit_run(tests, NULL, NULL);
}
