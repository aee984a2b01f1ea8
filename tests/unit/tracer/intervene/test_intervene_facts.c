/* The arguments of a call as its program describes them, for conditions. */

#include "tests/unit/unit.h"

#include "symbolizer/when/when.h"
#include "tracer/intervene/internal.h"

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

static void wrong(void **state)
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
	const struct CMUnitTest tests[] = {cmocka_unit_test(conditions), cmocka_unit_test(wrong)};
	return unit_run(tests, NULL, NULL);
}
