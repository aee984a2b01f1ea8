
#include "tests/unit/unit.h"

#include <errno.h>

#include "replay/internal.h"
#include "replay/replay.h"

static struct arena arena;
static struct capture_place place = {
    .file = "/a/model.py", .function = "f", .line = 12, .id = 9, .pid = 7};

static int describe(const char *json, struct op_event *ev)
{
	json_t *m = json_loads(json, 0, NULL);
	assert_non_null(m);
	int r = described_event(m, &place, &arena, ev);
	json_decref(m);
	return r;
}

#define TENSOR                                                                                     \
	"{\"tensor\": {\"dtype\": \"float16\", \"device\": \"cuda:1\", \"layout\": \"strided\","   \
	" \"requires_grad\": true, \"shape\": [2, 3], \"stride\": [1, 2], \"offset\": 4}}"

static void a_call_is_an_event(void **state)
{
	(void)state;
	static const char json[] =
	    "{\"schema\": \"aten::f(Tensor self, float eps, ScalarType? dtype=None, int[] dims=[], "
	    "MemoryFormat? m=None) -> Tensor\","
	    " \"args\": [" TENSOR ", {\"float\": \"inf\"}, {\"dtype\": \"bfloat16\"}, [1, -2], 2]}";
	struct op_event ev;
	assert_int_equal(describe(json, &ev), 0);
	assert_string_equal(ev.op->name, "aten::f");
	assert_true(ev.id == 9 && ev.pid == 7 && ev.nargs == 5 && !ev.nresults);
	const struct tensor *t = ev.args[0].tensor;
	assert_true(t->meta.dtype == 5 && t->meta.device_type == 1 && t->meta.device_index == 1);
	assert_true(t->meta.numel == 6 && t->meta.stride[1] == 2 && t->storage_offset == 4);
	assert_int_equal(t->meta.unknown, TENSOR_NO_DATA_PTR);
	assert_true(ev.args[1].kind == VALUE_FLOAT && ev.args[1].f > 1e300);
	assert_true(ev.args[2].kind == VALUE_DTYPE && ev.args[2].i == 15);
	assert_true(ev.args[3].count == 2 && ev.args[3].items[1].i == -2);
	assert_int_equal(ev.args[4].kind, VALUE_MEMORY_FORMAT);
	assert_int_equal(py_stack_where(ev.where_stack)->line, 12);
}

static void values_of_a_piece_of_memory(void **state)
{
	(void)state;
	static const char json[] =
	    "[{\"tensor\": {\"dtype\": \"float16\", \"device\": \"cuda:1\", \"shape\": [2],"
	    " \"stride\": [1], \"offset\": 0, \"piece\": 1}}, null]";
	json_t *list = json_loads(json, 0, NULL);
	struct value *v;
	size_t n;
	assert_int_equal(described_values(list, &arena, &v, &n), 0);
	assert_int_equal(n, 2);
	assert_true(v[0].tensor->data_ptr == described_piece(1) && described_piece(0));
	assert_int_equal(v[0].tensor->meta.unknown & TENSOR_NO_DATA_PTR, 0);
	assert_int_equal(v[1].kind, VALUE_NONE);
	json_decref(list);
}

static bool holds(const char *condition, const char *json)
{
	struct op_event ev;
	struct when *w;
	struct err e;
	assert_int_equal(describe(json, &ev), 0);
	assert_int_equal(capture_when_compile(condition, &w, &e), 0);
	assert_int_equal(when_check(w, &ev.op, 1, false, &e), 0);
	bool r = when_eval(w, &ev, WHEN_AT_ENTRY) == WHEN_TRUE;
	when_free(w);
	return r;
}

static void conditions_hold_for_it(void **state)
{
	(void)state;
	static const char json[] =
	    "{\"schema\": null, \"name\": \"torch.nn.functional.f\", \"names\": "
	    "[\"input\", \"\"], \"args\": [" TENSOR ", \"mean\"]}";
	assert_true(holds("input.shape[1] == 3 and arg1 == 'mean'", json));
	assert_true(holds("input.device == 'cuda' and line == 12 and id == 9", json));
	assert_false(holds("input.shape[1] == 4", json));
	assert_false(holds("input.data_ptr > 0", json));
	assert_false(holds("not input.data_ptr > 0", json));
}

static void what_does_not_fit_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {
	    "{}",
	    "{\"schema\": \"aten::f(Tensor self) -> Tensor\", \"args\": []}",
	    "{\"schema\": \"not a schema\", \"args\": []}",
	    "{\"names\": [], \"name\": \"f\", \"args\": [1]}",
	    "{\"names\": [\"a\"], \"name\": \"f\", \"args\": [{\"dtype\": \"float17\"}]}",
	    "{\"names\": [\"a\"], \"name\": \"f\", \"args\": [{\"device\": \"abacus:1\"}]}",
	};
	struct op_event ev;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(describe(bad[i], &ev), -EPROTO);
}

static void what_a_capture_does_not_keep_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {"depth == 0", "not (phase == backward)", "elapsed > 2ms",
					  "any(t.dim() == 2 for t in outputs)", "0 < tid < 3"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct when *w;
		struct err e = {0};
		assert_int_equal(capture_when_compile(bad[i], &w, &e), -EINVAL);
		assert_non_null(strstr(e.what, "does not keep"));
		assert_true(e.hint[0]);
	}
}

static int drop(void **state)
{
	(void)state;
	arena_free(&arena);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_call_is_an_event),
	    cmocka_unit_test(values_of_a_piece_of_memory),
	    cmocka_unit_test(conditions_hold_for_it),
	    cmocka_unit_test(what_does_not_fit_is_refused),
	    cmocka_unit_test(what_a_capture_does_not_keep_is_refused),
	};
	return unit_run(tests, NULL, drop);
}
