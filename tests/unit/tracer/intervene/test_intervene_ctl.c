/* The commands of ditrace ctl PID, and their effect on the rules in force. */

#include "tests/unit/unit.h"

#include <errno.h>

#include "tracer/intervene/intervene.h"

static struct intervene_rules rules;

static int fresh(void **state)
{
	(void)state;
	struct err e = {0};
	const struct intervene_opts o = {.fallback = "add,mul"};
	return intervene_rules_read(&o, &rules, &e);
}

static int gone(void **state)
{
	(void)state;
	intervene_rules_free(&rules);
	return 0;
}

/* Execute the words of `text`. */
static int say(const char *text)
{
	char copy[128];
	const char *words[8];
	size_t n = 0;
	struct err e = {0};
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		words[n++] = w;
	int r = intervene_ctl(&rules, words, n, &e);
	if (r < 0)
		assert_string_not_equal(e.hint, "");
	return r;
}

static const char *status_of(const char *feature)
{
	static char text[128];
	json_t *all = intervene_ctl_status(&rules);
	snprintf(text, sizeof(text), "%s", json_string_value(json_object_get(all, feature)));
	json_decref(all);
	return text;
}

/* Of what the process has told; a module that it has not told of may have anything. */
static void names_of_the_process(void **state)
{
	(void)state;
	static const char *const good[] = {
	    "cast float16->float32", "fallback add torch.sub", "fallback add relu",
	    "fallback add su.*",     "fallback add other.sub", "fallback add torch.nn.init.xavier"};
	static const char *const bad[] = {"fallback add torch.subb", "fallback add torch.relu",
					  "fallback add rellu", "fallback add torch.sub,nothing"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(say(bad[i]), 1); /* nothing is known yet */
	intervene_rules_free(&rules);
	assert_int_equal(fresh(NULL), 0);
	rules.names =
	    json_pack("{s:[s,s], s:[s]}", "torch", "sub", "add", "torch.nn.functional", "relu");
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(say(good[i]), 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(say(bad[i]), -EINVAL);
	struct err e = {0};
	intervene_ctl(&rules, (const char *[]){"compare", "add", "torch.subb"}, 3, &e);
	assert_string_equal(e.what, "the process has no function \"torch.subb\"");
	assert_string_equal(e.hint, "near it: sub");
}

static void lists(void **state)
{
	(void)state;
	static const struct {
		const char *words, *feature, *status;
	} steps[] = {
	    {"fallback add torch.sub", "fallback", "add,mul,torch.sub"},
	    {"fallback remove mul", "fallback", "add,torch.sub but mul"},
	    {"fallback add mul", "fallback", "add,torch.sub,mul"},
	    {"fallback remove add,torch.sub,mul", "fallback", "off"},
	    {"fallback all", "fallback", "all"},
	    {"fallback remove div", "fallback", "all but div"},
	    {"fallback add add", "fallback", "all but div"},
	    {"fallback off", "fallback", "off"},
	    {"compare add gelu", "compare", "gelu"},
	    {"print add pkg.f", "print", "pkg.f"},
	    {"time all", "time", "all"},
	    {"capture add torch.add", "capture", "torch.add"},
	    {"overflow all", "overflow", "all"},
	};
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		assert_int_equal(say(steps[i].words), 1);
		assert_string_equal(status_of(steps[i].feature), steps[i].status);
	}
}

static void casts(void **state)
{
	(void)state;
	assert_int_equal(say("cast add relu"), -22 /* EINVAL */);
	assert_int_equal(say("cast torch.float16->float32"), 1);
	assert_string_equal(status_of("cast"), "all, torch.float16->float32");
	assert_int_equal(say("cast float16->int8"), -22);
	assert_string_equal(status_of("cast"), "all, torch.float16->float32");
	assert_int_equal(say("cast off"), 1);
	assert_string_equal(status_of("cast"), "off");
	assert_int_equal(say("cast add relu"), 1);
	assert_string_equal(status_of("cast"), "relu, torch.float16->float32");
}

static void wrong(void **state)
{
	(void)state;
	static const char *const texts[] = {"",
					    "fall add x",
					    "fallback",
					    "fallback never",
					    "fallback add",
					    "fallback add (",
					    "fallback add aten::add",
					    "fallback off x",
					    "fallback add x y",
					    "status now"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(say(texts[i]), -22 /* EINVAL */);
		assert_string_equal(status_of("fallback"), "add,mul");
	}
	assert_int_equal(say("status"), 0);
}

static void operators(void **state)
{
	(void)state;
	rules.is_aten = true;
	assert_int_equal(say("fallback remove add"), 1);
	assert_int_equal(say("fallback add aten::relu"), 1);
	assert_string_equal(status_of("fallback"), "mul,aten::relu but add");
	assert_int_equal(say("fallback add"), -22 /* EINVAL */);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(names_of_the_process, fresh, gone),
	    cmocka_unit_test_setup_teardown(lists, fresh, gone),
	    cmocka_unit_test_setup_teardown(casts, fresh, gone),
	    cmocka_unit_test_setup_teardown(wrong, fresh, gone),
	    cmocka_unit_test_setup_teardown(operators, fresh, gone),
	};
	return unit_run(tests, NULL, NULL);
}
