

#include "tests/unit/unit.h"

#include <errno.h>

#include "base/text.h"
#include "symbolizer/event/event.h"
#include "symbolizer/ops/filter.h"

static const struct op_desc ops[] = {
    {.kind = OP_DISPATCHED, .name = "aten::add.Tensor"},
    {.kind = OP_DISPATCHED, .name = "aten::add_.Tensor"},
    {.kind = OP_DISPATCHED, .name = "aten::add.out"},
    {.kind = OP_DISPATCHED, .name = "aten::addmm"},
    {.kind = OP_DISPATCHED, .name = "aten::linear"},
    {.kind = OP_DISPATCHED, .name = "mylib::add"},
    {.kind = OP_BACKWARD, .name = "AddBackward0"},
    {.kind = OP_BACKWARD, .name = "AddmmBackward0"},
    {.kind = OP_FUNCTION, .name = "MyFunctionBackward"},
    {.kind = OP_DISPATCHED, .name = "aten::_foreach_add_.Scalar"},
    {.kind = OP_BACKWARD, .name = "torch::autograd::AccumulateGrad"},
};

enum { N = sizeof(ops) / sizeof(ops[0]) };

/* The ops that `list` matches, a letter each: t(add.Tensor) _ o(ut) m l M(ylib) A B F f(oreach)
 * G(rad). */
static const char *matched(const char *list)
{
	static const char letters[] = "t_omlMABFfG";
	static char out[N + 1];
	struct filter f;
	struct err e = {0};
	size_t n = 0;

	if (filter_compile("--ops", list, &f, &e))
		fail_msg("%s: %s", list, e.what);
	for (size_t i = 0; i < N; i++)
		if (filter_match(&f, &ops[i]))
			out[n++] = letters[i];
	out[n] = '\0';
	filter_free(&f);
	return out;
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(matched("add"), "toM");
	assert_string_equal(matched("aten::add"), "to");
	assert_string_equal(matched("add.Tensor"), "t");
	assert_string_equal(matched("aten::add.Tensor"), "t");
	assert_string_equal(matched("aten::ad"), "");
	assert_string_equal(matched("mylib::add"), "M");
	assert_string_equal(matched("AddmmBackward0"), "B");
	assert_string_equal(matched("AddmmBackward"), "B");
	assert_string_equal(matched("MyFunctionBackward"), "F");
	assert_string_equal(matched("AccumulateGrad"), "G");
	assert_string_equal(matched("torch::autograd::AccumulateGrad"), "G");
	assert_string_equal(matched("gradient accumulation"), "G");
	assert_string_equal(matched("autograd::AccumulateGrad"), "");
	assert_string_equal(matched("torch.Tensor.add"), "to");
	assert_string_equal(matched("torch.Tensor.add_"), "_");
	assert_string_equal(matched("torch.nn.functional.linear"), "l");
	assert_string_equal(matched(" linear , addmm,,"), "ml");
}

static void test_regex(void **state)
{
	(void)state;
	assert_string_equal(matched("^add"), "t_omM");
	assert_string_equal(matched("^add$"), "toM");
	assert_string_equal(matched("^aten::add$"), "to");
	assert_string_equal(matched("_foreach_.*"), "f");
	assert_string_equal(matched("^(linear|addmm)$"), "ml");
	assert_string_equal(matched("Backward[0-9]$"), "AB");
	assert_string_equal(matched("^ad{1,2}mm$,linear"), "ml");
	assert_string_equal(matched("^lin[,e(]ar$,addmm"), "ml");
	assert_string_equal(matched("^[^],]dd\\.out$"), "o");
	assert_string_equal(matched("^torch\\.nn\\.functional\\..*"), "l");
	assert_string_equal(matched("^torch\\.Tensor\\.add$"), "to");
	assert_string_equal(matched(".*"), "t_omlMABFfG");
}

static void test_bad(void **state)
{
	static const char *const lists[] = {"", " , ,", "add(", "linear,[a", "a{2,1}", "add,*x("};
	struct filter f;
	(void)state;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct err e = {0};
		assert_int_equal(filter_compile("--not-ops", lists[i], &f, &e), -EINVAL);
		assert_int_equal(e.code, -EINVAL);
		assert_non_null(strstr(e.what, "--not-ops"));
		assert_true(e.hint[0]);
		assert_int_equal(f.n, 0);
	}
	struct err e = {0};
	assert_int_equal(filter_compile("--ops", "linear,add(", &f, &e), -EINVAL);
	assert_non_null(strstr(e.what, "item 2, \"add(\""));
	assert_int_equal(filter_compile("--ops", "add(", &f, NULL), -EINVAL);
}

static int check(const char *list, struct err *e)
{
	const struct op_desc *p[N];
	struct filter f;
	for (size_t i = 0; i < N; i++)
		p[i] = &ops[i];
	assert_int_equal(filter_compile("--ops", list, &f, e), 0);
	int rc = filter_check(&f, p, N, e);
	filter_free(&f);
	return rc;
}

static void test_check(void **state)
{
	struct err e = {0};
	(void)state;
	assert_int_equal(check("add,linear,AddBackward0,torch.add", &e), 0);
	assert_int_equal(check("otherlib::op,NotYetBackward,cpp_fused_gelu_0,^cpp_fused_.*sum", &e),
			 0);
	assert_int_equal(check("otherlib::.*,^another_lib::(a|b)", &e), 0);
	assert_int_equal(check("mylib::su.*", &e), -ENOENT);
	assert_int_equal(check("other.*::op", &e), -ENOENT);
	assert_int_equal(check("linear,addm", &e), -ENOENT);
	assert_non_null(strstr(e.what, "\"addm\""));
	assert_string_equal(e.hint, "near it: add, add_, addmm");
	assert_int_equal(check("aten::lienar", &e), -ENOENT);
	assert_string_equal(e.hint, "near it: aten::linear");
	assert_int_equal(check("torch.nn.functional.lineal", &e), -ENOENT);
	assert_string_equal(e.hint, "near it: torch.nn.functional.linear");
	assert_int_equal(check("add.Tesnor", &e), -ENOENT);
	assert_string_equal(e.hint, "near it: add.Tensor, add_.Tensor");
	assert_int_equal(check("^zzz", &e), -ENOENT);
	assert_true(e.hint[0]);
	assert_int_equal(check("qqqqqqqqqqqqqqqqqqq", &e), -ENOENT);
	assert_true(e.hint[0]);
}

static void test_near(void **state)
{
	struct suggestions x = {.word = "linear"};
	char out[64];
	(void)state;
	assert_false(suggestions_list(&x, out, sizeof(out)));
	suggestions_add(&x, "bilinear");
	suggestions_add(&x, "linaer");
	suggestions_add(&x, "linaer");
	suggestions_add(&x, "convolution");
	suggestions_add(&x, "");
	assert_true(suggestions_list(&x, out, sizeof(out)));
	assert_string_equal(out, "linaer, bilinear");
	suggestions_add(&x, "linea");
	suggestions_add(&x, "lineas");
	suggestions_add(&x, "lines");
	suggestions_add(&x, "linears");
	assert_int_equal(x.n, SUGGESTIONS_MAX);
	assert_true(suggestions_list(&x, out, sizeof(out)));
	assert_string_equal(out, "linaer, linea, lineas, linears, bilinear");
	assert_true(suggestions_list(&x, out, 8));
	assert_string_equal(out, "linaer");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_names), cmocka_unit_test(test_regex), cmocka_unit_test(test_bad),
	    cmocka_unit_test(test_check), cmocka_unit_test(test_near),
	};
	return unit_run(tests, NULL, NULL);
}
